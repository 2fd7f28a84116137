//! Tests of the `TraceStats` packet, against the bytes of an independent encoder.

use super::*;
use crate::proto::{Encoder, Overflow, PacketValidator, TraceFileWriter, TracePackets, TrustedFields};
use std::vec::Vec;

/// What the Python package `protobuf` makes of [`sample`]'s values and Perfetto's descriptors.
const EXPECTED: &str = "\
    40cb89ec8ff7239a02eb010a4108e80710e90718ea0720eb0728ec0730ed0738ee0740ef0748f00750f10758f20760f3\
    0768f40770f50778f6078001f7078801f8079001f9079801fa07a001fb070a3608ffffffffffffffffff011000180020\
    0028003000380040004800500058006000680070007800800100880100900100980100a00100100218034004480550ac\
    026006680770087801880108880120880180018801800488018008880180108801802088018040880180608801808001\
    9201280802120b000102030405060708090a1a1500e807d00fb817a01f8827f02ed836c03ea846904e200092010808ff\
    ffffff0f2001";

fn sample_buffers() -> [BufferStats; 2] {
    let first = BufferStats {
        bytes_written: 1000,
        chunks_written: 1001,
        chunks_overwritten: 1002,
        write_wrap_count: 1003,
        patches_succeeded: 1004,
        patches_failed: 1005,
        readaheads_succeeded: 1006,
        readaheads_failed: 1007,
        abi_violations: 1008,
        chunks_rewritten: 1009,
        chunks_committed_out_of_order: 1010,
        buffer_size: 1011,
        bytes_overwritten: 1012,
        bytes_read: 1013,
        padding_bytes_written: 1014,
        padding_bytes_cleared: 1015,
        chunks_read: 1016,
        chunks_discarded: 1000,
        chunks_refused: 17,
        trace_writer_packet_loss: 1018,
        chunks_relocated: 1019,
        ..BufferStats::default()
    };
    [first, BufferStats { bytes_written: u64::MAX, ..BufferStats::default() }]
}

fn sample(buffers: &[BufferStats]) -> TraceStatsPacket<'_, impl Iterator<Item = WriterStats> + Clone> {
    let histogram = ChunkHistogram {
        counts: core::array::from_fn(|bucket| bucket as u64),
        sums: core::array::from_fn(|bucket| bucket as u64 * 1000),
    };
    let stats = TraceStats {
        buffers,
        producers_connected: 2,
        producers_seen: 3,
        chunks_discarded: 4,
        patches_discarded: 5,
        invalid_packets: 300,
        flushes_requested: 6,
        flushes_succeeded: 7,
        flushes_failed: 8,
        final_flush: FinalFlush::Succeeded,
        ..TraceStats::default()
    };
    let writers = [
        WriterStats { sequence_id: SequenceId::FIRST_WRITER, buffer: 0, histogram: Some(histogram) },
        WriterStats { sequence_id: SequenceId::new(u32::MAX).unwrap(), buffer: 1, histogram: None },
    ];
    TraceStatsPacket { timestamp: Some(1_234_567_890_123), stats: stats.with_writers(writers) }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap() as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[test]
fn every_field_is_written_as_an_independent_encoder_does() {
    let buffers = sample_buffers();
    let mut memory = [0; 512];
    let mut out = Encoder::new(&mut memory);
    sample(&buffers).encode(&mut out).unwrap();
    assert_eq!(out.finish().unwrap(), bytes(EXPECTED));
    assert_eq!(sample(&buffers).encoded_len(), bytes(EXPECTED).len());
}

#[test]
fn without_histograms_there_are_no_bounds() {
    let writers = [WriterStats { sequence_id: SequenceId::SERVICE, buffer: 3, histogram: None }];
    let mut memory = [0; 64];
    let mut out = Encoder::new(&mut memory);
    TraceStats::default().with_writers(writers).encode(&mut out).unwrap();
    let expected =
        [16, 0, 24, 0, 64, 0, 72, 0, 80, 0, 96, 0, 104, 0, 112, 0, 120, 0, 0x92, 1, 4, 8, 1, 32, 3];
    assert_eq!(out.finish().unwrap(), expected);
}

#[test]
fn as_many_writers_as_a_table_holds_need_no_memory() {
    let writer = |id: u32| WriterStats {
        sequence_id: SequenceId::new(id + 2).unwrap(),
        buffer: 0,
        histogram: Some(ChunkHistogram { counts: [u64::MAX; 11], sums: [u64::MAX; 11] }),
    };
    let count = if cfg!(miri) { 3 } else { 65_535_u32 };
    let stats = TraceStats::default().with_writers((0..count).map(writer));
    let packet = TraceStatsPacket { timestamp: None, stats };
    let mut file = std::vec![0; count as usize * 250 + 100];
    let mut out = TraceFileWriter::new(&mut file[..]);
    let len = out.message(&packet, &TrustedFields::new(0, SequenceId::SERVICE)).unwrap();
    let packets: Vec<_> = TracePackets::new(&file[..len]).collect();
    assert!(matches!(packets[..], [Ok(packet)] if packet.len() > count as usize * 220));
}

#[test]
fn an_output_that_is_too_small_is_an_overflow() {
    let buffers = sample_buffers();
    let step = if cfg!(miri) { 31 } else { 1 };
    for room in (0..bytes(EXPECTED).len()).step_by(step) {
        let mut memory = [0; 512];
        let mut out = Encoder::new(&mut memory[..room]);
        assert_eq!(sample(&buffers).encode(&mut out), Err(Overflow));
    }
}

#[test]
fn a_producer_cannot_pass_its_own_statistics_for_the_services() {
    let packet = bytes(EXPECTED);
    assert!(PacketValidator::check([&packet[..]]).is_err());
}
