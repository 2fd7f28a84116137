//! What people get to read: errors, outcomes and contents as text.

use std::fmt::{Debug, Display};
use tracebuf::buffer::*;
use tracebuf::proto::{
    Fault, InvalidPacket, Overflow, PacketValidator, TraceFileError, TraceFileFault, WriteError,
    varint::VarintError,
};

fn say(what: impl Display, text: &str) {
    assert_eq!(what.to_string(), text);
}

#[test]
fn outcomes_of_a_commit_say_what_became_of_the_chunk() {
    say(Commit::Written, "written");
    say(Commit::Rewritten, "rewritten");
    say(Commit::Relocated, "relocated");
    say(Commit::Unchanged, "unchanged");
    say(Commit::Discarded, "discarded");
    say(Commit::Refused(Refusal::Shrinks), "refused: it holds less than is stored");
}

#[test]
fn refusals_say_why() {
    say(Refusal::NullSequence, "producer and writer are both 0");
    say(Refusal::TooLarge, "the payload is too large");
    say(Refusal::ExceedsReservedRoom, "it holds more than was reserved");
    say(Refusal::ClearsFlags, "it takes flags back");
    say(Refusal::ChangesFragments, "its fragments are not those that were read");
    say(Refusal::TooFarOutOfOrder, "its id is too far from its neighbours'");
    say(Refusal::TableFull, "the sequence table is full");
    say(Refusal::RegionDamaged, "the region is damaged");
}

#[test]
fn errors_about_regions_name_the_sizes() {
    say(RegionError::TooSmall { needed: 77 }, "the region is too small: 77 bytes are needed");
    say(RegionError::TooFewSequences, "the sequence table must hold at least 4 sequences");
    say(AttachError::NoRegion, "there is no region");
    say(AttachError::UnknownVersion { found: 9 }, "the region has the unknown layout version 9");
    say(AttachError::HeaderDamaged, "the header of the region is damaged");
    say(AttachError::TooShort { needed: 300 }, "the region is cut off: it takes 300 bytes");
    say(AttachError::CrcLeftOut, "the region has checksums, which need the feature `crc`");
    say(AttachError::HistogramsLeftOut, "the region has histograms, which need their feature");
    say(LeaseExpired, "the packet was overwritten before it was exported");
}

#[test]
fn what_was_lost_is_named_cause_by_cause() {
    say(DataLoss::empty(), "none");
    say(DataLoss::ANY, "unknown");
    say(DataLoss::ANY | DataLoss::OVERWRITE | DataLoss::READ_GAP, "read gap, overwrite");
}

#[test]
fn what_is_wrong_with_packets_and_files_is_said_with_the_place() {
    let invalid = InvalidPacket { fault: Fault::WireType(3), offset: 12 };
    say(invalid, "wire type 3, at byte 12 of the packet");
    say(Fault::Truncated, "a field that does not end");
    say(Fault::VarintTooLong, "a varint of more than 10 bytes");
    say(VarintError::Truncated, "the bytes end within a varint");
    say(VarintError::TooLong, "a varint of more than 10 bytes");
    say(Overflow, "no room for a protobuf field");
    let cut = TraceFileError { fault: TraceFileFault::Truncated, offset: 4 };
    say(cut, "the trace ends within a packet, after 4 bytes of whole packets");
    say(WriteError::Output("disk full"), "cannot write the trace: disk full");
    say(WriteError::<&str>::Stuck, "the trace's output takes no more bytes");
}

#[cfg(not(loom))]
#[test]
fn memory_that_cannot_be_shared_is_refused_with_the_reason() {
    use tracebuf::producer::MemoryError;
    say(MemoryError::PageSize, "the page size is not a multiple of 4 from 64 to 65536");
    say(MemoryError::Storage, "the storage has fewer entries than the buffer has chunks");
}

fn shows(what: &dyn Debug, parts: &[&str]) {
    let text = format!("{what:?}");
    for part in parts {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn contents_are_shown_field_by_field() {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4).histograms(true);
    let mut buffer = TraceBuffer::new(vec![0u8; config.region_size(256) as usize], config).expect("room");
    let header =
        ChunkHeader { producer_id: 7, writer_id: 8, fragments: 1, complete: true, ..ChunkHeader::default() };
    shows(&header, &["ChunkHeader", "producer_id: 7", "writer_id: 8", "complete: true", "pid: -1"]);
    buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x02hi" });
    shows(&buffer.stats(), &["BufferStats", "buffer_size: 256", "chunks_written: 1"]);
    let sequence = buffer.sequences().next().expect("one");
    shows(&sequence, &["SequenceInfo", "writer_id: 8", "packets_evicted: 0", "histogram: Some"]);
    for item in buffer.inspect().items() {
        shows(&item, &["RingChunk", "writer_id: 8", "valid: 3", "packets: 1"]);
    }
    shows(&buffer.read().next_packet(), &["Packet", "producer_id: 7", "len: 2", "loss: DataLoss"]);
    shows(&PacketValidator::new(), &["PacketValidator", "state: Tag", "fault: None"]);
}

#[test]
fn statistics_for_a_trace_are_shown_field_by_field() {
    use tracebuf::proto::trace_stats::{BufferStats, TraceStats};
    let buffer = BufferStats { chunks_written: 3, ..BufferStats::default() };
    shows(&buffer, &["BufferStats", "chunks_written: 3", "chunks_relocated: 0"]);
    let stats =
        TraceStats { buffers: core::slice::from_ref(&buffer), producers_seen: 5, ..TraceStats::default() };
    shows(&stats, &["TraceStats", "chunks_written: 3", "producers_seen: 5"]);
}
