//! Tests of the exporter: what is left out, what is told of losses, and limits.

use super::*;
use crate::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
use crate::proto::TracePackets;
use std::vec;
use std::vec::Vec;

fn commit(buffer: &mut TraceBuffer<Vec<u8>>, chunk_id: u32, payload: &[u8]) {
    let header = ChunkHeader {
        producer_id: 3,
        writer_id: 1,
        chunk_id,
        fragments: 1,
        complete: true,
        uid: 7,
        pid: 8,
        ..Default::default()
    };
    buffer.copy_chunk_untrusted(&Chunk { header, payload });
}

fn export(buffer: &mut TraceBuffer<Vec<u8>>) -> (Vec<Vec<u8>>, u64) {
    let mut file = vec![0u8; 4096];
    let mut exporter = TraceExporter::new(&mut file[..]);
    exporter.drain(&mut buffer.read(), sequence_id).unwrap();
    let (size, invalid) = (exporter.file().bytes() as usize, exporter.invalid_packets());
    let packets = TracePackets::new(&file[..size]).map(|packet| packet.unwrap().to_vec()).collect();
    (packets, invalid)
}

#[test]
fn a_forged_packet_is_left_out_and_the_next_of_its_sequence_says_so() {
    let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
    commit(&mut buffer, 0, &[2, 0x40, 1]);
    commit(&mut buffer, 1, &[2, 0x18, 0]); // trusted_uid = 0
    commit(&mut buffer, 2, &[2, 0x40, 2]);
    commit(&mut buffer, 3, &[2, 0x40, 3]);
    let (packets, invalid) = export(&mut buffer);
    assert_eq!(invalid, 1);
    let suffix = [0x18, 7, 0x50, 0x81, 0x80, 0x0C, 0xF8, 0x04, 8];
    assert_eq!(packets[0], [&[0x40, 1][..], &suffix].concat());
    assert_eq!(packets[1], [&[0x40, 2][..], &suffix, &[0xD0, 0x02, 5]].concat());
    assert_eq!(packets[2], [&[0x40, 3][..], &suffix].concat());
}

#[test]
fn what_a_writer_says_in_a_packet_that_is_left_out_goes_with_it() {
    let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
    commit(&mut buffer, 0, &[2, 0x40, 1]);
    // previous_packet_dropped = 257, and trusted_uid = 0.
    commit(&mut buffer, 1, &[6, 0xD0, 0x02, 0x81, 0x02, 0x18, 0]);
    commit(&mut buffer, 2, &[2, 0x40, 2]);
    let (packets, _) = export(&mut buffer);
    assert_eq!(packets.len(), 2);
    assert!(packets[1].ends_with(&[0xD0, 0x02, 5]), "{:x?}", packets[1]);
}

#[test]
fn what_the_caller_knows_to_be_lost_is_told_beside_what_the_packet_carries() {
    for (lost_before, told) in [(DataLoss::READ_GAP, 3), (DataLoss::OVERWRITE, 0x43)] {
        let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
        commit(&mut buffer, 0, &[2, 0x40, 1]);
        commit(&mut buffer, 2, &[2, 0x40, 2]);
        let mut reader = buffer.read();
        assert!(reader.next_packet().is_some_and(|packet| packet.loss().is_empty()));
        let packet = reader.next_packet().unwrap();
        assert_eq!(packet.loss(), DataLoss::ANY | DataLoss::READ_GAP);
        let mut file = [0u8; 64];
        let mut exporter = TraceExporter::new(&mut file[..]);
        let exported = exporter.packet(&packet, sequence_id(3, 1), lost_before).unwrap();
        assert!(matches!(exported, Exported::Written(_)));
        let size = exporter.file().bytes() as usize;
        assert_eq!(file[..size][size - 3..], [0xD0, 0x02, told]);
    }
}

#[test]
fn the_statistics_have_the_buffer_s_and_what_was_left_out() {
    let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
    for chunk_id in 0..3 {
        commit(&mut buffer, chunk_id, &[2, 0x18, 0]); // trusted_uid = 0
    }
    commit(&mut buffer, 3, &[&[0x86, 0x27][..], &[0; 4998]].concat());
    let mut file = vec![0u8; 4096];
    let mut exporter = TraceExporter::new(&mut file[..]);
    assert_eq!(exporter.invalid_packets(), 0);
    assert_eq!(exporter.drain(&mut buffer.read(), sequence_id), Ok(0));
    assert_eq!(exporter.invalid_packets(), 3);
    commit(&mut buffer, 0, &[2, 0x40, 1]);
    let written = exporter.stats(&buffer.stats(), []).unwrap();

    let buffers = [buffer.stats()];
    assert_eq!((buffers[0].chunks_written, buffers[0].chunks_read), (3, 3));
    assert_eq!(
        (buffers[0].chunks_discarded, buffers[0].chunks_refused),
        (1, 1),
        "one came late, one was refused"
    );
    let stats = TraceStats { buffers: &buffers, invalid_packets: 3, ..TraceStats::default() };
    let packet = TraceStatsPacket { timestamp: None, stats: stats.with_writers([]) };
    let mut expected = vec![0u8; 4096];
    let mut by_hand = TraceFileWriter::new(&mut expected[..]);
    assert_eq!(by_hand.message(&packet, &TrustedFields::new(0, SequenceId::SERVICE)), Ok(written));
    assert_eq!(file[..written], expected[..written]);
}

#[test]
fn packets_of_another_process_or_of_none_say_so() {
    let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
    for (writer_id, uid, pid) in [(1, 7, 8), (2, 7, 9), (3, 6, 9), (4, 6, -1), (5, 6, 1)] {
        let header = ChunkHeader {
            producer_id: 3,
            writer_id,
            fragments: 1,
            complete: true,
            uid,
            pid,
            ..Default::default()
        };
        buffer.copy_chunk_untrusted(&Chunk { header, payload: &[2, 0x40, 1] });
    }
    let (packets, _) = export(&mut buffer);
    let ends: [&[u8]; 5] = [
        &[0x18, 7, 0x50, 0x81, 0x80, 0x0C, 0xF8, 0x04, 8],
        &[0x18, 7, 0x50, 0x82, 0x80, 0x0C, 0xF8, 0x04, 9],
        &[0x18, 6, 0x50, 0x83, 0x80, 0x0C, 0xF8, 0x04, 9],
        &[0x18, 6, 0x50, 0x84, 0x80, 0x0C],
        &[0x18, 6, 0x50, 0x85, 0x80, 0x0C, 0xF8, 0x04, 1],
    ];
    assert_eq!(packets.len(), ends.len());
    for (packet, end) in packets.iter().zip(ends) {
        assert_eq!(packet[2..], *end);
    }
}

#[test]
fn what_the_writer_dropped_and_what_the_buffer_lost_are_both_said() {
    let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
    commit(&mut buffer, 0, &[2, 0x40, 1]);
    commit(&mut buffer, 5, &[5, 0xD0, 0x02, 0x81, 0x82, 0x00]); // previous_packet_dropped = 257, redundantly
    let (packets, _) = export(&mut buffer);
    assert!(packets[1].ends_with(&[0xD0, 0x02, 0x83, 0x02]), "{:x?}", packets[1]);
}

#[test]
fn sequence_ids_are_never_those_of_nobody_or_of_the_service() {
    assert_eq!(sequence_id(0, 1).get(), u32::MAX);
    assert_eq!(sequence_id(0, 2).get(), 2);
    assert_eq!(sequence_id(u16::MAX, u16::MAX).get(), u32::MAX);
}
#[test]
fn a_packet_that_the_output_has_no_room_for_is_a_loss_of_the_next() {
    let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
    commit(&mut buffer, 0, &[2, 0x40, 1]);
    commit(&mut buffer, 1, &[2, 0x40, 2]);
    let mut reader = buffer.read();
    let (mut small, mut large) = ([0u8; 4], [0u8; 64]);
    let mut full = TraceExporter::new(&mut small[..]);
    assert!(full.drain(&mut reader, sequence_id).is_err());
    // Nothing is read that could not be written.
    assert_eq!(full.drain(&mut reader, sequence_id), Err(WriteError::AfterFailure));

    let mut exporter = TraceExporter::new(&mut large[..]);
    assert_eq!(exporter.drain(&mut reader, sequence_id), Ok(1));
    let written = exporter.file().bytes() as usize;
    assert_eq!(exporter.into_output().len(), 64 - written, "what is left of the output");
    assert!(large[..written].ends_with(&[0xD0, 0x02, 3]), "a gap of the reading");
}

#[test]
fn packets_that_are_left_out_count_towards_what_is_read_at_once() {
    let config = Config::new(FillPolicy::RingBuffer);
    let mut buffer = TraceBuffer::new(vec![0u8; 1 << 16], config).unwrap();
    for chunk_id in 0..10 {
        let header = ChunkHeader { producer_id: 2, chunk_id, fragments: 100, ..Default::default() };
        let forged = [2, 0x18, 0].repeat(100); // trusted_uid = 0
        buffer.copy_chunk_untrusted(&Chunk { header, payload: &forged });
    }
    let mut file = [0u8; 128];
    let mut exporter = TraceExporter::new(&mut file[..]);
    let mut reader = buffer.read();
    for left_out in [400, 399, 201] {
        // The limit has room for everything before it, and one more.
        let drained = exporter.drain_up_to(&mut reader, sequence_id, left_out * 2 - 1).unwrap();
        let is_exhausted = left_out == 201 && drained.is_exhausted;
        let all = Drained { left_out, left_out_bytes: left_out * 2, is_exhausted, ..Drained::default() };
        assert_eq!(drained, all);
    }
    assert_eq!((exporter.file().bytes(), exporter.invalid_packets()), (0, 1000));
    assert!(exporter.drain_up_to(&mut reader, sequence_id, 0).unwrap().is_exhausted);
}

#[test]
fn a_limit_is_of_each_call_and_of_what_goes_into_the_file() {
    let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
    for chunk_id in 0..7 {
        commit(&mut buffer, chunk_id, &[2, 0x40, 1]);
    }
    let mut file = [0u8; 128];
    let mut exporter = TraceExporter::new(&mut file[..]);
    let mut reader = buffer.read();
    let mut turn = |limit| {
        let drained = exporter.drain_up_to(&mut reader, sequence_id, limit).unwrap();
        (drained.packets, drained.is_exhausted)
    };
    // Each takes 13 bytes there.
    let told = [(0, (1, false)), (12, (1, false)), (13, (2, false)), (26, (3, false)), (0, (0, true))];
    for (limit, expected) in told {
        assert_eq!(turn(limit), expected, "{limit}");
    }
    assert_eq!(exporter.file().bytes(), 7 * 13);
}

/// The packets that an exporter writes of ones with these clocks, which `told` tells first: those of the service as
/// their bytes, those of writers as their times.
fn with_clocks(clocks: &[u8], told: &[(u64, u64)]) -> Vec<Vec<u8>> {
    let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
    for (chunk_id, clock) in (0..).zip(clocks) {
        commit(&mut buffer, chunk_id, &[5, 0x40, 50 + chunk_id as u8, 0xD0, 0x03, *clock]);
    }
    let mut file = vec![0u8; 4096];
    let mut exporter = TraceExporter::new(&mut file[..]);
    if !told.is_empty() {
        exporter.clocks(told).unwrap();
    }
    exporter.drain(&mut buffer.read(), sequence_id).unwrap();
    let size = exporter.file().bytes() as usize;
    let packet = |packet: &[u8]| match crate::proto::PacketView::of(packet) {
        view if view.sequence_id == 1 => packet[..packet.len() - 4].to_vec(),
        view => vec![view.time.unwrap() as u8],
    };
    TracePackets::new(&file[..size]).map(|bytes| packet(bytes.unwrap())).collect()
}

#[test]
fn a_clock_of_which_the_trace_does_not_tell_is_related_to_boot_time_once_before_its_first_packet() {
    let relation = |clock, time| {
        let pair = [0x0A, 4, 0x08, 6, 0x10, time, 0x0A, 4, 0x08, clock, 0x10, time, 0x10, 6];
        [&[0x40, time, 0xD0, 0x03, 6, 0x32, 14][..], &pair].concat()
    };
    let packets = with_clocks(&[6, 3, 3, 1], &[]);
    assert_eq!(packets, [vec![50], relation(3, 51), vec![51], vec![52], relation(1, 53), vec![53]]);
    let packets = with_clocks(&[3, 1], &[(6, 7), (3, 8)]);
    assert_eq!(packets[1..], [vec![50], relation(1, 51), vec![51]]);
    assert_eq!(with_clocks(&[6, 6], &[]), [[50], [51]]);
}

#[test]
fn a_part_of_a_trace_that_tells_of_its_clocks_itself_has_none_of_the_exporter_s() {
    let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer)).unwrap();
    commit(&mut buffer, 0, &[5, 0x40, 50, 0xD0, 0x03, 3]);
    let mut file = vec![0u8; 4096];
    assert_eq!(TraceExporter::part(&mut file[..]).drain(&mut buffer.read(), sequence_id), Ok(1));
    assert!(file.starts_with(&[0x0A, 14, 0x40, 50]), "{:x?}", &file[..20]);
}
