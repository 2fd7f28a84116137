//! `tracebuf receive`: what a line did to the frames never reaches the trace, and is counted.

#[cfg(unix)]
mod comes_back;
mod command;
mod kept;
mod long;
mod packets;
#[cfg(unix)]
mod pipe;
#[cfg(unix)]
mod port;
#[cfg(target_os = "linux")]
mod probe;
mod reset;
mod span;
mod starts;

use crc::{CRC_32_ISO_HDLC, Crc};
use tracebuf::proto::TracePackets;
use tracebuf_analysis::receive::{ReceiveReport, Receiver};

use crate::trace::scratch;
use crate::tracebuf;

/// A packet of sequence `2 + n % 3`, with a string of a length of its own.
fn packet(n: u32) -> Vec<u8> {
    let text = vec![b'a' + (n % 26) as u8; (n * 37 % 120) as usize];
    let mut content = vec![0x50, 2 + (n % 3) as u8, 0xD2, 0x05, text.len() as u8];
    content.extend(text);
    let mut packet = vec![0x0A];
    let mut room = [0; 10];
    let size = tracebuf::proto::varint::encode(content.len() as u64, &mut room).unwrap();
    packet.extend(&room[..size]);
    packet.extend(content);
    packet
}

fn check(frame: &[u8]) -> u32 {
    Crc::<u32>::new(&CRC_32_ISO_HDLC).checksum(frame)
}

/// A frame by its definition, except for what the last of several has from the others.
fn frame(flags: u8, number: u16, piece: &[u8]) -> Vec<u8> {
    let mut frame = [&[flags][..], &number.to_le_bytes(), piece].concat();
    frame.extend(check(&frame).to_le_bytes());
    [cobs::encode_vec(&frame), vec![0]].concat()
}

/// The frames of a packet, from this number on, in pieces of 64 bytes.
fn frames_of(packet: &[u8], mut number: u16) -> Vec<Vec<u8>> {
    let (mut others, count) = (0, packet.len().div_ceil(64));
    let framed = packet.chunks(64).enumerate().map(|(i, piece)| {
        let flags = u8::from(i == 0) | u8::from(i + 1 == count) << 1;
        let said = if flags == LAST { u32::to_le_bytes(others).to_vec() } else { vec![] };
        let piece = [piece, &said].concat();
        others ^= check(&[&[flags][..], &number.to_le_bytes(), &piece].concat());
        let frame = frame(flags, number, &piece);
        number = number.wrapping_add(1);
        frame
    });
    framed.collect()
}

/// The frames of packets `0..count`.
pub(super) fn line(count: u32) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for packet in (0..count).map(packet) {
        frames.extend(frames_of(&packet, (frames.len() + 1) as u16));
    }
    frames
}

/// What the flags of a frame say: it is in the middle of a packet, begins it, ends it, or is all of it.
const MIDDLE: u8 = 0;
const FIRST: u8 = 1;
const LAST: u8 = 2;
const WHOLE: u8 = FIRST | LAST;

/// Flags and numbers of frames.
type Frames<'f> = &'f [(u8, u16)];

/// The report on a line of such frames.
fn report_of(frames: Frames<'_>) -> ReceiveReport {
    let frames = frames.iter().map(|(flags, number)| frame(*flags, *number, &packet(0)));
    receive(&frames.collect::<Vec<_>>().concat(), 64).1
}

/// What is received from a line that is read this many bytes at a time.
fn receive(line: &[u8], step: usize) -> (Vec<Vec<u8>>, ReceiveReport) {
    let mut receiver = Receiver::new();
    let mut packets = Vec::new();
    for bytes in line.chunks(step) {
        let keep = |_, packet: &[u8]| {
            packets.push(packet.to_vec());
            Ok::<_, ()>(())
        };
        receiver.push(bytes, keep).unwrap();
    }
    (packets, receiver.finish())
}

/// A packet as it was before the receiver noted losses in it.
fn without_loss(packet: &[u8]) -> Vec<u8> {
    let content = TracePackets::new(packet).next().unwrap().unwrap();
    let content = content.strip_suffix(&[0xD0, 0x02, 1]).unwrap_or(content);
    content.to_vec()
}

fn content(packet: &[u8]) -> Vec<u8> {
    TracePackets::new(packet).next().unwrap().unwrap().to_vec()
}

/// Whole packets in the trace so far.
#[cfg(unix)]
fn received(output: &std::path::Path) -> Vec<Vec<u8>> {
    let trace = std::fs::read(output).unwrap_or_default();
    TracePackets::new(&trace).flatten().map(<[u8]>::to_vec).collect()
}

#[test]
fn all_packets_of_a_good_line_arrive_however_it_is_read() {
    let line = line(300).concat();
    for step in [1, 7, 64, 1 << 16] {
        let (packets, report) = receive(&line, step);
        assert!(packets.into_iter().eq((0..300).map(packet)), "{step}");
        assert_eq!((report.frames_lost, report.frames_corrupt), (0, 0));
    }
}

#[test]
fn of_a_line_that_flips_and_drops_one_byte_in_a_hundred_only_intact_packets_arrive_in_order() {
    let sent: Vec<_> = (0..2000).map(|n| content(&packet(n))).collect();
    for drop_bytes in [false, true] {
        let mut random = 42u64;
        let mut next = move || {
            random = random * 48_271 % 0x7FFF_FFFF;
            random
        };
        let mut line = line(2000).concat();
        let size = line.len();
        for byte in &mut line {
            if next() % 100 == 0 {
                *byte ^= 1 << (next() % 8);
            }
        }
        if drop_bytes {
            line.retain(|_| next() % 100 != 0);
        }
        let (packets, report) = receive(&line, 100);
        let mut at = 0;
        for packet in &packets {
            let packet = without_loss(packet);
            at += sent[at..].iter().position(|sent| *sent == packet).expect("sent, and later than the last")
                + 1;
        }
        assert!(packets.len() > 300, "{} of 2000", packets.len());
        assert!(report.frames_lost > 0 && report.frames_corrupt > 0, "{report} of {size}");
    }
}

#[test]
fn who_joins_late_gets_whole_packets_only_and_each_sequence_says_that_something_is_missing() {
    let frames = line(20);
    let joined = frames[3..].concat();
    let (packets, report) = receive(&joined[5..], 64);
    assert_eq!((report.frames_corrupt, report.frames_lost), (1, 0));
    assert!(packets[..3].iter().all(|packet| packet.ends_with(&[0xD0, 0x02, 1])));
    assert!(!packets[3].ends_with(&[0xD0, 0x02, 1]));
    assert!(report.to_string().contains(" bytes, the beginning missing; of "), "{report}");
    let (_, report) = receive(&frames[4..].concat(), 64);
    assert!(
        report.to_string().ends_with(" bytes, the beginning missing, nothing lost on the line since"),
        "{report}"
    );
}

#[test]
fn a_packet_without_its_first_frame_is_incomplete_and_not_nothing() {
    let report = report_of(&[(MIDDLE, 2), (LAST, 3), (WHOLE, 4)]);
    assert_eq!((report.frames, report.packets, report.packets_incomplete), (3, 1, 1));
    let text = report.to_string();
    assert!(
        text.ends_with("the beginning missing; of 3 frames 0 lost (0 arrived damaged), 1 packet incomplete"),
        "{text}"
    );
    // Numbers recur after 65,536 frames, but a device's first frame begins a packet.
    let report = report_of(&[(LAST, 1), (WHOLE, 2)]);
    assert!(report.beginning_missing && report.packets_incomplete == 1, "{report}");
}

#[test]
fn every_packet_of_which_a_frame_is_missing_is_counted_once() {
    let lines: &[(Frames<'_>, u64, u64)] = &[
        (&[(WHOLE, 1), (LAST, 3)], 1, 1),
        (&[(WHOLE, 1), (MIDDLE, 3), (WHOLE, 5)], 2, 1),
        (&[(WHOLE, 1), (MIDDLE, 3)], 1, 1),
        (&[(FIRST, 1), (LAST, 3)], 1, 1),
        (&[(FIRST, 1), (WHOLE, 3)], 1, 1),
        (&[(FIRST, 1), (MIDDLE, 3), (MIDDLE, 4), (LAST, 6)], 2, 1),
        (&[(FIRST, 1), (MIDDLE, 3), (FIRST, 5), (LAST, 7)], 3, 2),
        (&[(WHOLE, 1), (LAST, 3), (LAST, 5)], 2, 2),
        // Given up by the device.
        (&[(FIRST, 1), (WHOLE, 2), (FIRST, 3), (MIDDLE, 4), (WHOLE, 5)], 0, 2),
        // Nothing is known of packets that are lost as a whole.
        (&[(WHOLE, 1), (WHOLE, 5)], 3, 0),
    ];
    for (frames, lost, incomplete) in lines {
        let report = report_of(frames);
        assert_eq!((report.frames_lost, report.packets_incomplete), (*lost, *incomplete), "{frames:?}");
    }
}

#[test]
fn a_device_that_is_reset_is_said_to_have_restarted_and_every_sequence_misses_something() {
    let (before, after) = (line(700), line(20));
    assert!(before.len() > 1000);
    let (packets, report) = receive(&[before.concat(), after.concat()].concat(), 64);
    assert!(!report.beginning_missing);
    assert_eq!((report.packets, report.frames_lost, report.restarts), (720, 0, 1));
    let marked: Vec<_> = (0..720).filter(|n| packets[*n].ends_with(&[0xD0, 0x02, 1])).collect();
    assert_eq!(marked, [700, 701, 702]);
    let text = report.to_string();
    let end = " 0 lost (0 arrived damaged), 0 packets incomplete; the device restarted 1 time, \
               and what was lost then is not known";
    assert!(text.ends_with(end), "{text}");
}

#[test]
fn a_reset_in_the_midst_of_a_frame_is_a_restart_too_and_costs_the_first_frame_after_it() {
    let (before, after) = (line(700).concat(), line(20).concat());
    let (packets, report) = receive(&[&before[..before.len() - 5], &after[..]].concat(), 64);
    assert_eq!((report.frames_lost, report.frames_corrupt, report.restarts), (1, 1, 1));
    // The last packet before it had two frames, the first after it one.
    assert_eq!((report.packets, report.packets_incomplete), (699 + 19, 1));
    let marked: Vec<_> = (0..718).filter(|n| packets[*n].ends_with(&[0xD0, 0x02, 1])).collect();
    assert_eq!(marked, [699, 700, 701]);
}

#[test]
fn a_restart_is_told_from_a_loss_by_the_numbers() {
    let lines: &[(Frames<'_>, u64, u64, u64)] = &[
        // All of a device's numbers, and the next.
        (&[(WHOLE, 65_535), (WHOLE, 0), (WHOLE, 1)], 0, 0, 0),
        // A short gap that ends with the first number by chance, and a long one that ends with a later one.
        (&[(WHOLE, 64_513), (WHOLE, 1)], 1023, 0, 0),
        (&[(WHOLE, 2000), (WHOLE, 17)], 63_552, 0, 0),
        // A device's first frame begins a packet.
        (&[(WHOLE, 2000), (LAST, 1)], 63_536, 1, 0),
        (&[(WHOLE, 2000), (WHOLE, 0)], 63_535, 0, 0),
        (&[(WHOLE, 1), (WHOLE, 1)], 0, 0, 1),
        (&[(WHOLE, 2000), (WHOLE, 1), (WHOLE, 2), (WHOLE, 1), (WHOLE, 3)], 1, 0, 2),
        (&[(WHOLE, 64_512), (WHOLE, 1)], 0, 0, 1),
        (&[(WHOLE, 2000), (WHOLE, 16)], 15, 0, 1),
        // They are never the two ends of one packet.
        (&[(FIRST, 2000), (LAST, 3)], 2, 2, 1),
        (&[(LAST, 2000), (LAST, 3)], 2, 2, 1),
        (&[(MIDDLE, 2000), (MIDDLE, 3), (FIRST, 1)], 2, 3, 2),
    ];
    for (frames, lost, incomplete, restarts) in lines {
        let report = report_of(frames);
        let told = (report.frames_lost, report.packets_incomplete, report.restarts);
        assert_eq!(told, (*lost, *incomplete, *restarts), "{frames:?}");
    }
}

#[test]
fn incomplete_packets_and_whole_ones_are_all_of_which_anything_arrived() {
    let mut random = 3u64;
    let mut next = move || {
        random = random * 48_271 % 0x7FFF_FFFF;
        random
    };
    for _ in 0..50 {
        let (mut frames, mut kept, mut seen) = (line(100).into_iter(), Vec::new(), 0);
        let mut last_is_here = true;
        for n in 0..100 {
            let mut arrived = false;
            for frame in frames.by_ref().take(packet(n).len().div_ceil(64)) {
                // Of any two frames in a row one arrives; otherwise nobody could tell apart the packets at the two ends
                // of a gap.
                last_is_here = !last_is_here || next() % 3 > 0;
                if last_is_here {
                    kept.extend(frame);
                    arrived = true;
                }
            }
            seen += u64::from(arrived);
        }
        let (_, report) = receive(&kept, 64);
        assert_eq!(report.packets + report.packets_incomplete, seen, "{report}");
    }
}

#[test]
fn a_lost_frame_costs_its_packet_and_every_sequence_says_so_once() {
    let mut frames = line(12);
    frames.remove(2);
    let (packets, report) = receive(&frames.concat(), 1000);
    assert_eq!((report.frames_lost, report.packets), (1, 11));
    let told = packets.iter().filter(|packet| packet.ends_with(&[0xD0, 0x02, 1])).count();
    assert_eq!(told, 3);
}

#[test]
fn a_packet_that_is_left_out_without_a_gap_is_told_of_as_well_unless_the_device_gave_it_up() {
    let (first, next) = (frame(WHOLE, 1, &packet(0)), frame(WHOLE, 3, &packet(3)));
    for (between, told) in [
        (frame(WHOLE, 2, &[0xFF]), true),
        (frame(LAST, 2, &packet(1)), true),
        // The device says so itself, for the sequences concerned.
        (frame(FIRST, 2, &packet(1)), false),
    ] {
        let (packets, _) = receive(&[&first[..], &between, &next].concat(), 64);
        assert_eq!(packets.len(), 2);
        assert_eq!(packets[1].ends_with(&[0xD0, 0x02, 1]), told, "{packets:?}");
    }
}

#[test]
fn what_is_not_finished_at_the_end_of_the_line_is_lost() {
    // The last packet has two frames.
    let frames = line(4);
    let (whole, last) = (frames.concat(), frames[frames.len() - 1].len());
    let (_, report) = receive(&whole, 64);
    assert!(report.to_string().ends_with(", nothing lost on the line"), "{report}");
    let (_, report) = receive(&whole[..whole.len() - 5], 64);
    assert_eq!((report.packets, report.packets_incomplete, report.frames_unfinished), (3, 1, 1));
    assert!(report.to_string().ends_with("1 packet incomplete; the input ended within a frame"), "{report}");
    let (_, report) = receive(&whole[..whole.len() - last], 64);
    assert_eq!((report.packets, report.packets_incomplete, report.frames_unfinished), (3, 1, 0));
    assert!(report.to_string().ends_with("1 packet incomplete"), "{report}");
}

#[test]
fn packets_that_are_none_are_said() {
    // A frame that is a whole packet, of one byte.
    let (packets, report) = receive(&frame(3, 1, &[0xFF]), 64);
    assert_eq!((packets.len(), report.packets_malformed), (0, 1));
    assert!(report.to_string().ends_with("0 packets incomplete, 1 malformed"), "{report}");
}

#[test]
fn what_is_no_line_is_said_to_be_none_in_pieces_of_any_size() {
    let text = vec![b'a'; 200_000];
    let reports = [100, 1 << 16, 1 << 20].map(|step| receive(&text, step).1);
    assert!(
        reports.iter().all(|report| *report == reports[0] && report.frames_unfinished == 1),
        "{reports:?}"
    );
    assert!(reports[0].to_string().ends_with("not one intact frame in them"), "{}", reports[0]);
    let output = scratch("receive/text.pftrace");
    let out = tracebuf(&["receive", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"), "-o"])
        .arg(output)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8(out.stderr).unwrap().contains("not one intact frame"));
}

#[test]
fn anything_at_all_can_be_received() {
    let mut random = 7u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        random = random * 48_271 % 0x7FFF_FFFF;
        (random >> 7) as u8
    })
    .take(200_000)
    .collect();
    let (packets, report) = receive(&noise, 1000);
    assert!(packets.is_empty() && report.frames_corrupt > 100);
}
