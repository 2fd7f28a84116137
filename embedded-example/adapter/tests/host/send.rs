//! The sender: what goes in comes out, and nothing waits that should not.

use crate::export::Uart;
use embedded_hal_mock::eh1::spi::{Mock, Transaction};
use std::convert::Infallible;
use tracebuf::buffer::{Chunk, ChunkFlags, ChunkHeader, Config, FillPolicy, Patch, TraceBuffer};
use tracebuf::proto::TracePackets;
use tracebuf::proto::frame::{FIRST, FRAME, LAST};
use tracebuf_analysis::receive::Receiver;
use tracebuf_embedded::export::{Blocking, Export, NonBlocking, Spi};
use tracebuf_embedded::send::{Progress, Sender};

fn buffer(size: usize) -> TraceBuffer<Vec<u8>> {
    TraceBuffer::new(vec![0; size], Config::new(FillPolicy::RingBuffer).sequences(4)).unwrap()
}

/// A chunk with one packet: a string of `len` bytes.
fn commit(buffer: &mut TraceBuffer<Vec<u8>>, chunk_id: u32, len: u8) {
    let header = ChunkHeader { producer_id: 1, writer_id: 1, chunk_id, fragments: 1, ..Default::default() };
    let payload = [&[len + 2, 0x0A, len][..], &vec![b'x'; usize::from(len)]].concat();
    buffer.copy_chunk_untrusted(&Chunk { header, payload: &payload });
}

/// The frames on a line: flags, number, piece.
fn frames(line: &[u8]) -> Vec<(u8, u16, Vec<u8>)> {
    let pieces = line.split(|byte| *byte == 0).filter(|frame| !frame.is_empty());
    pieces
        .map(|frame| {
            let mut decoded = [0; FRAME];
            let size = cobs::decode(frame, &mut decoded).unwrap().frame_size();
            // The CRC, and in the last of several frames those of the others.
            let end = size - if decoded[0] == LAST { 8 } else { 4 };
            (decoded[0], u16::from_le_bytes([decoded[1], decoded[2]]), decoded[3..end].to_vec())
        })
        .collect()
}

#[test]
fn a_blocking_line_gets_the_trace_file_as_it_is() {
    let mut buffer = buffer(2048);
    (0..3).for_each(|id| commit(&mut buffer, id, 100));
    let mut file = [0; 1024];
    let mut sender = Sender::raw(Blocking(&mut file[..]));
    sender.finish_ring(&mut buffer).unwrap();
    assert_eq!(sender.packets(), 3);
    let end = file.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let packets: Vec<_> = TracePackets::new(&file[..end]).map(|packet| packet.unwrap().len()).collect();
    assert_eq!(packets.len(), 4, "the statistics come last");
    assert!(packets[..3].iter().all(|len| *len > 102));
}

#[test]
fn a_line_that_is_not_ready_is_not_waited_for_and_nothing_is_lost() {
    let mut buffer = buffer(2048);
    (0..3).for_each(|id| commit(&mut buffer, id, 100));
    let mut sender = Sender::framed(NonBlocking(Uart::default()));
    assert_eq!(sender.poll(&mut buffer), Ok(Progress::Busy));
    let mut line = Vec::new();
    while sender.packets() < 3 {
        let uart = &mut sender.exporter().0;
        uart.room = 7;
        line.append(&mut uart.sent);
        sender.poll(&mut buffer).unwrap();
    }
    sender.exporter().0.room = FRAME;
    sender.poll(&mut buffer).unwrap();
    line.append(&mut sender.exporter().0.sent);
    let frames = frames(&line);
    assert_eq!(frames.iter().map(|frame| frame.1).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(frames.iter().map(|frame| frame.0).collect::<Vec<_>>(), [FIRST, LAST].repeat(3));
    let file: Vec<u8> = frames.into_iter().flat_map(|frame| frame.2).collect();
    assert_eq!(TracePackets::new(&file).filter(|packet| packet.is_ok()).count(), 3);
}

/// Frames that arrive intact.
fn intact(line: &[u8]) -> u64 {
    let mut receiver = Receiver::new();
    receiver.push(line, |_, _| Ok::<_, Infallible>(())).unwrap();
    receiver.report().frames
}

#[test]
fn after_a_reset_in_the_middle_of_a_frame_the_first_frame_arrives_whole() {
    // What a device sends that has a reset when the line has taken so many bytes.
    let until = |room| {
        let mut buffer = buffer(2048);
        (0..3).for_each(|id| commit(&mut buffer, id, 100));
        let mut sender = Sender::framed(NonBlocking(Uart { room, sent: Vec::new() }));
        while sender.poll(&mut buffer) == Ok(Progress::Sent) {}
        std::mem::take(&mut sender.exporter().0.sent)
    };
    let after = until(10_000);
    assert_eq!(intact(&after), 6);
    for cut in 0..after.len() {
        let before = intact(&[&until(cut)[..], &[0]].concat());
        assert_eq!(intact(&[until(cut), after.clone()].concat()), before + 6, "{cut} bytes");
    }
}

#[test]
fn a_packet_that_is_overwritten_on_its_way_is_given_up_and_the_next_one_begins_anew() {
    let mut buffer = buffer(1024);
    commit(&mut buffer, 0, 100);
    let mut sender = Sender::framed(NonBlocking(Uart { room: FRAME, sent: Vec::new() }));
    assert_eq!(sender.poll(&mut buffer), Ok(Progress::Sent));
    (1..20).for_each(|id| commit(&mut buffer, id, 100));
    sender.exporter().0.room = 10_000;
    while sender.poll(&mut buffer) == Ok(Progress::Sent) {}
    assert_eq!(sender.given_up(), 1);
    let frames = frames(&sender.exporter().0.sent);
    assert_eq!((frames[0].0, frames[1].0), (FIRST, FIRST));
    // previous_packet_dropped: something, overwritten
    assert!(frames[2].2.ends_with(&[0xD0, 0x02, 65]), "{:x?}", frames[2].2);
}

/// The packets that came over a line whole, each with what the service says of it.
fn packets(line: &[u8]) -> Vec<Vec<u8>> {
    let mut packets: Vec<Vec<u8>> = Vec::new();
    let mut whole = Vec::new();
    for (flags, _, piece) in frames(line) {
        if flags & FIRST != 0 {
            whole.clear();
        }
        whole.extend(piece);
        if flags & LAST != 0 {
            packets.push(whole.clone());
        }
    }
    packets
}

#[test]
fn a_packet_given_up_on_its_way_is_told_by_the_next_one_of_those_behind_it() {
    let mut buffer = buffer(1024);
    (0..3).for_each(|id| commit(&mut buffer, id, 100));
    let mut sender = Sender::framed(NonBlocking(Uart { room: FRAME, sent: Vec::new() }));
    assert_eq!(sender.poll(&mut buffer), Ok(Progress::Sent));
    // Recording goes on until the first of the three is gone.
    let mut ids = 3..;
    while buffer.stats().write_wrap_count == 0 {
        commit(&mut buffer, ids.next().unwrap(), 100);
    }
    sender.exporter().0.room = 10_000;
    while sender.poll(&mut buffer) == Ok(Progress::Sent) {}
    assert_eq!(sender.given_up(), 1);
    let packets = packets(&sender.exporter().0.sent);
    assert_eq!(packets.len() as u32, ids.start - 1);
    let told: Vec<_> = packets.iter().map(|packet| packet.ends_with(&[0xD0, 0x02, 65])).collect();
    assert!(told[0] && told[1..].iter().all(|told| !told), "{told:?}");
}

#[test]
fn a_packet_that_is_none_is_told_by_the_next_one() {
    let mut buffer = buffer(1024);
    commit(&mut buffer, 0, 3);
    let header =
        ChunkHeader { producer_id: 1, writer_id: 1, chunk_id: 1, fragments: 1, ..Default::default() };
    // A string longer than the packet.
    buffer.copy_chunk_untrusted(&Chunk { header, payload: &[3, 0x0A, 100, 0] });
    commit(&mut buffer, 2, 3);
    let mut snapshot = buffer.clone_read_only(vec![0; 1024]).unwrap();
    let mut sender = Sender::framed(NonBlocking(Uart { room: 10_000, sent: Vec::new() }));
    while sender.poll(&mut buffer) == Ok(Progress::Sent) {}
    sender.send_snapshot(&mut snapshot).unwrap();
    let told: Vec<_> =
        packets(&sender.exporter().0.sent).iter().map(|packet| packet.ends_with(&[0xD0, 0x02, 5])).collect();
    assert_eq!(told, [false, true, false, true, false], "and the counters");
}

#[test]
fn a_patch_to_a_packet_on_its_way_does_not_change_it() {
    const NEXT: ChunkFlags = ChunkFlags::CONTINUES_ON_NEXT;
    for size in [3, 0x70] {
        let mut buffer = buffer(2048);
        let mut commit = |chunk_id, flags, fragments, payload: &[u8]| {
            let complete = ChunkHeader { producer_id: 1, writer_id: 1, ..Default::default() };
            let header = ChunkHeader { chunk_id, flags, fragments, ..complete };
            buffer.copy_chunk_untrusted(&Chunk { header, payload });
        };
        // A string of 120 bytes, half of it in each chunk; the second chunk stays for a packet that goes on.
        commit(0, NEXT, 1, &[&[62, 0x0A, 120][..], &[b'a'; 60]].concat());
        let second = [&[60 | 0x80, 0x80, 0x80, 0][..], &[b'b'; 60], &[62, 0x0A, 120], &[b'c'; 60]].concat();
        commit(1, NEXT | ChunkFlags::CONTINUES_FROM_PREVIOUS, 2, &second);
        let mut sender = Sender::framed(NonBlocking(Uart { room: FRAME, sent: Vec::new() }));
        assert_eq!(sender.poll(&mut buffer), Ok(Progress::Sent));
        let patch = Patch { offset: 0, data: [size | 0x80, 0x80, 0x80, 0] };
        assert!(buffer.try_patch_chunk_contents(1, 1, 1, &[patch], false));
        sender.exporter().0.room = 10_000;
        while sender.poll(&mut buffer) == Ok(Progress::Sent) {
            assert!(sender.exporter().0.room > 0, "it has no end");
        }
        let packets = packets(&sender.exporter().0.sent);
        assert_eq!((packets.len(), packets[0].contains(&b'c')), (1, false));
        assert_eq!(packets[0].iter().filter(|byte| matches!(byte, b'a' | b'b')).count(), 120);
    }
}

#[test]
fn a_device_on_spi_gets_a_transaction_for_each_frame() {
    let mut buffer = buffer(2048);
    commit(&mut buffer, 0, 3);
    let mut uart = Sender::framed(NonBlocking(Uart { room: FRAME, sent: Vec::new() }));
    uart.poll(&mut buffer).unwrap();
    let frame = uart.exporter().0.sent.clone();

    commit(&mut buffer, 1, 3);
    let mut device = Mock::new(&[
        Transaction::transaction_start(),
        Transaction::write_vec(frame),
        Transaction::transaction_end(),
    ]);
    let mut sender = Sender::framed(Spi(device.clone()));
    assert_eq!(sender.poll(&mut buffer), Ok(Progress::Sent));
    assert_eq!(sender.poll(&mut buffer), Ok(Progress::Idle));
    device.done();
}

/// A line that breaks when it has taken so many bytes.
struct Breaks {
    room: usize,
    sent: Vec<u8>,
}

impl Export for Breaks {
    type Error = ();

    fn offer(&mut self, bytes: &[u8]) -> Result<usize, ()> {
        let count = bytes.len().min(self.room);
        self.sent.extend(&bytes[..count]);
        self.room -= count;
        if count == 0 { Err(()) } else { Ok(count) }
    }
}

#[test]
fn a_packet_that_was_read_and_not_sent_before_an_error_is_told_by_the_next_one() {
    // With others behind it, and with none but the one committed later.
    for (count, room) in [12, 1].into_iter().flat_map(|count| (0..1_500).map(move |room| (count, room))) {
        let mut buffer = buffer(4096);
        (0..count).for_each(|id| commit(&mut buffer, id, 100));
        let mut broken = Sender::raw(Breaks { room, sent: Vec::new() });
        if broken.finish_ring(&mut buffer).is_ok() {
            continue;
        }
        let sent = TracePackets::new(&broken.exporter().sent).filter(|packet| packet.is_ok()).count() as u32;
        assert_eq!(broken.packets(), sent.min(count), "{count} packets, {room} bytes");
        broken.abandon(&mut buffer);
        let read = count.min(sent + 1);
        assert_eq!(broken.given_up(), read - broken.packets(), "{count} packets, {room} bytes");

        commit(&mut buffer, count, 100);
        let mut sender = Sender::framed(NonBlocking(Uart { room: 10_000, sent: Vec::new() }));
        while sender.poll(&mut buffer) == Ok(Progress::Sent) {}
        // previous_packet_dropped: something, in a gap
        let next = packets(&sender.exporter().0.sent);
        let told: Vec<_> = next.iter().map(|packet| packet.ends_with(&[0xD0, 0x02, 3])).collect();
        assert_eq!(told.len() as u32, count + 1 - read);
        let lost = broken.given_up() > 0;
        assert!(
            told[0] == lost && told[1..].iter().all(|told| !told),
            "{count} packets, {room} bytes: {told:?}"
        );
    }
}

#[test]
fn what_a_sender_did_not_send_before_an_error_another_one_sends_first_and_nothing_is_missing() {
    for room in 0..1_500 {
        let mut buffer = buffer(4096);
        (0..12).for_each(|id| commit(&mut buffer, id, 100));
        let mut broken = Sender::raw(Breaks { room, sent: Vec::new() });
        if broken.finish_ring(&mut buffer).is_ok() {
            assert!(room > 1_200);
            break;
        }
        let whole = |line: &[u8]| {
            let packets = TracePackets::new(line).map_while(Result::ok);
            packets.filter(|packet| packet.windows(100).any(|bytes| bytes == [b'x'; 100])).count()
        };
        let (sent, unsent) = (whole(&broken.exporter().sent), broken.into_unsent());
        // Not even one that comes meanwhile.
        commit(&mut buffer, 12, 100);
        let mut sender = Sender::raw(Breaks { room: 10_000, sent: Vec::new() }).resuming(unsent);
        sender.finish_ring(&mut buffer).unwrap();
        assert_eq!((sent + whole(&sender.exporter().sent), sender.given_up()), (13, 0), "{room} bytes");
    }
}

#[test]
fn what_was_not_sent_and_is_overwritten_is_given_up() {
    let mut buffer = buffer(1024);
    commit(&mut buffer, 0, 100);
    let mut broken = Sender::raw(Breaks { room: 50, sent: Vec::new() });
    broken.finish_ring(&mut buffer).unwrap_err();
    let unsent = broken.into_unsent();
    (1..20).for_each(|id| commit(&mut buffer, id, 100));
    let mut sender = Sender::raw(Breaks { room: 10_000, sent: Vec::new() }).resuming(unsent);
    sender.finish_ring(&mut buffer).unwrap();
    assert_eq!(sender.given_up(), 1);
}

#[test]
fn in_frames_a_sender_goes_on_after_an_error() {
    for room in 0.. {
        let mut buffer = buffer(4096);
        (0..5).for_each(|id| commit(&mut buffer, id, 100));
        let mut sender = Sender::framed(Breaks { room, sent: Vec::new() });
        if sender.finish_ring(&mut buffer).is_ok() {
            assert!(room > 600);
            break;
        }
        commit(&mut buffer, 5, 100);
        sender.exporter().room = 10_000;
        sender.finish_ring(&mut buffer).unwrap();
        let (mut receiver, mut whole) = (Receiver::new(), 0);
        // Those of the ring; the counters may come twice.
        let pass = |_: u64, packet: &[u8]| {
            whole += usize::from(packet.windows(100).any(|bytes| bytes == [b'x'; 100]));
            Ok::<_, Infallible>(())
        };
        receiver.push(&sender.exporter().sent, pass).unwrap();
        let report = receiver.finish();
        assert_eq!((whole, report.frames_corrupt, report.frames_lost), (6, 0, 0), "{room} bytes");
        assert!(report.packets > 6 && report.packets_incomplete < 2, "{room} bytes: {report}");
    }
}

#[test]
fn an_abandoned_sender_has_nothing_left_to_send() {
    let mut buffer = buffer(2048);
    (0..3).for_each(|id| commit(&mut buffer, id, 100));
    let mut sender = Sender::framed(NonBlocking(Uart { room: 7, sent: Vec::new() }));
    assert_eq!(sender.poll(&mut buffer), Ok(Progress::Sent));
    sender.abandon(&mut buffer);
    // Those behind it are still in the ring.
    let mut others = 0;
    let mut reader = buffer.read();
    while reader.next_packet().is_some() {
        others += 1;
    }
    sender.exporter().0.room = 10_000;
    assert_eq!(sender.poll(&mut buffer), Ok(Progress::Idle));
    assert_eq!((sender.exporter().0.sent.len(), sender.given_up(), others), (7, 1, 2));
}

/// The strings of a raw line's packets, by their lengths; those without one are statistics.
fn lengths(line: &[u8]) -> Vec<usize> {
    let packets = TracePackets::new(line).map_while(Result::ok);
    let count = |packet: &[u8]| packet.iter().filter(|byte| **byte == b'x').count();
    packets.map(|packet| Some(count(packet)).filter(|count| *count > 10).unwrap_or(0)).collect()
}

#[test]
fn a_packet_that_is_resumed_is_sent_once_also_by_a_sender_that_sends_a_snapshot_first() {
    for room in 0..130 {
        let mut buffer = buffer(2048);
        commit(&mut buffer, 0, 100);
        let mut broken = Sender::raw(Breaks { room, sent: Vec::new() });
        if broken.finish_ring(&mut buffer).is_ok() {
            break;
        }
        // The packet was sent whole: what failed is behind it.
        let was_sent = broken.packets();
        commit(&mut buffer, 1, 50);
        let mut snapshot = buffer.clone_read_only(vec![0; buffer.clone_size() + 8]).unwrap();
        let mut sender =
            Sender::raw(Breaks { room: 10_000, sent: Vec::new() }).resuming(broken.into_unsent());
        sender.send_snapshot(&mut snapshot).unwrap();
        // What the one before had read is not in the snapshot, nor is anything of it sent or counted yet.
        assert_eq!((sender.packets(), lengths(&sender.exporter().sent)), (1, vec![50, 0]), "{room} bytes");
        sender.exporter().sent.clear();
        sender.finish_ring(&mut buffer).unwrap();
        let expected = if was_sent == 0 { vec![100, 50, 0] } else { vec![50, 0] };
        assert_eq!(lengths(&sender.exporter().sent), expected, "{room} bytes");
        assert_eq!((sender.packets(), sender.given_up()), (3 - was_sent, 0), "{room} bytes");
    }
}

#[test]
fn a_packet_counts_once_its_last_byte_is_on_the_line_and_not_before() {
    for len in [1, 50, 55, 56, 57, 61, 62, 63, 64, 120, 125] {
        let mut buffer = buffer(2048);
        (0..2).for_each(|id| commit(&mut buffer, id, len));
        let mut sender = Sender::framed(NonBlocking(Uart::default()));
        let mut line = Vec::new();
        while sender.packets() < 2 {
            let before = sender.packets();
            sender.exporter().0.room = 1;
            assert_ne!(sender.poll(&mut buffer), Ok(Progress::Idle), "{len}");
            line.append(&mut sender.exporter().0.sent);
            let ended = line.iter().rposition(|byte| *byte == 0).map_or(0, |at| at + 1);
            let whole = packets(&line[..ended]).len() as u32;
            assert_eq!((before, sender.packets()), (before, whole), "{len}: {} bytes", line.len());
        }
        assert_eq!(sender.poll(&mut buffer), Ok(Progress::Idle));
    }
}
