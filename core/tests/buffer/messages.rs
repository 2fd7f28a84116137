//! Texts of errors, outcomes and losses, for people and logs.

use crate::bench::{Bench, small_table};
use std::fmt::Write;
use tracebuf::buffer::{
    AttachError, Chunk, ChunkHeader, Commit, Config, DataLoss, FillPolicy, LeaseExpired, Refusal,
    RegionError, TraceBuffer,
};
use tracebuf::proto::{
    Fault, InvalidPacket, MAX_LENGTH, Overflow, PacketValidator, TraceFileError, TraceFileFault, WriteError,
    trace_stats::TraceStats, varint::VarintError,
};

fn says<T: std::fmt::Display, const N: usize>(all: [(T, &str); N]) {
    for (value, text) in all {
        assert_eq!(value.to_string(), text);
    }
}

#[test]
fn a_region_that_cannot_be_used_says_why() {
    says([
        (RegionError::TooSmall { needed: 512 }, "the region is too small: 512 bytes are needed"),
        (RegionError::TooFewSequences, "the sequence table must hold at least 4 sequences"),
        (RegionError::Damaged, "the buffer's memory was changed by somebody else: attach to it again"),
    ]);
    says([
        (AttachError::NoRegion, "there is no region"),
        (AttachError::HeaderDamaged, "the header of the region is damaged"),
        (AttachError::UnknownVersion { found: 9 }, "the region has the unknown layout version 9"),
        (AttachError::TooShort { needed: 512 }, "the region is cut off: it takes 512 bytes"),
        (AttachError::CrcLeftOut, "the region has checksums, which need the feature `crc`"),
        (AttachError::HistogramsLeftOut, "the region has histograms, which need the feature `histograms`"),
    ]);
}

#[test]
fn a_commit_says_what_became_of_the_chunk() {
    says([
        (Commit::Written, "written"),
        (Commit::Rewritten, "rewritten"),
        (Commit::Relocated, "relocated"),
        (Commit::Unchanged, "unchanged"),
        (Commit::Discarded, "discarded"),
        (Commit::Refused(Refusal::TooLarge), "refused: the payload is too large"),
    ]);
    says([
        (Refusal::NullSequence, "producer and writer are both 0"),
        (Refusal::TooLarge, "the payload is too large"),
        (Refusal::Shrinks, "it holds less than is stored"),
        (Refusal::ExceedsReservedRoom, "it holds more than was reserved"),
        (Refusal::ClearsFlags, "it takes flags back"),
        (Refusal::ChangesFragments, "its fragments are not those that were read"),
        (Refusal::TooFarOutOfOrder, "its id is too far from its neighbours'"),
        (Refusal::TableFull, "the sequence table is full"),
        (Refusal::RegionDamaged, "the region is damaged"),
    ]);
}

#[test]
fn losses_name_their_causes() {
    says([
        (DataLoss::empty(), "none"),
        (DataLoss::ANY, "unknown"),
        (DataLoss::ANY | DataLoss::OVERWRITE, "overwrite"),
        (DataLoss::READ_GAP | DataLoss::WRITER_ABORT, "read gap, writer abort"),
    ]);
    says([(LeaseExpired, "the packet was overwritten before it was exported")]);
}

#[test]
fn faults_of_packets_and_trace_files_say_what_and_where() {
    says(
        [
            (Fault::Truncated, "a field that does not end".to_owned()),
            (Fault::TagTooLarge, "a tag above 32 bits or of more than 5 bytes".to_owned()),
            (Fault::FieldNumberZero, "field number 0".to_owned()),
            (Fault::WireType(3), "wire type 3".to_owned()),
            (Fault::VarintTooLong, "a varint above 64 bits or of more than 10 bytes".to_owned()),
            (Fault::LengthTooLarge, format!("a length above {MAX_LENGTH} or of more than 5 bytes")),
            (Fault::ServiceOnlyField(3), "field 3 is the service's to write".to_owned()),
        ]
        .each_ref()
        .map(|(fault, text)| (*fault, text.as_str())),
    );
    says([(
        InvalidPacket { fault: Fault::FieldNumberZero, offset: 7 },
        "field number 0, at byte 7 of the packet",
    )]);
    let at = |fault| TraceFileError { fault, offset: 4 };
    says([
        (at(TraceFileFault::Truncated), "the trace ends within a packet, after 4 bytes of whole packets"),
        (at(TraceFileFault::NotAPacket), "something other than a packet, after 4 bytes of whole packets"),
        (at(TraceFileFault::BadLength), "a packet without a valid length, after 4 bytes of whole packets"),
    ]);
    says([
        (VarintError::Truncated, "the bytes end within a varint"),
        (VarintError::TooLong, "a varint of more than 10 bytes"),
    ]);
}

#[test]
fn what_could_not_be_written_says_why() {
    let too_long = format!("a packet of more than {MAX_LENGTH} bytes");
    says([
        (WriteError::Output("no space"), "cannot write the trace: no space"),
        (WriteError::Stuck, "the trace's output takes no more bytes"),
        (WriteError::TooLong, &too_long),
        (WriteError::AfterFailure, "the trace broke off earlier"),
    ]);
    says([(Overflow, "no room for a protobuf field")]);
}

/// Takes this many bytes of text and no more.
struct Room(usize);

impl Write for Room {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(std::fmt::Error)?;
        Ok(())
    }
}

#[test]
fn text_without_room_is_an_error_wherever_it_breaks_off() {
    let loss = DataLoss::ANY | DataLoss::OVERWRITE | DataLoss::READ_GAP | DataLoss::WRITER_ABORT;
    let mut memory = [0_u64; 128];
    let memory = zerocopy::IntoBytes::as_mut_bytes(&mut memory[..]);
    TraceBuffer::new(&mut *memory, Config::new(FillPolicy::RingBuffer).sequences(4)).unwrap();
    // The first word of the ring, which says what is there.
    memory[1024 - 512..].fill(0x55);
    let (_, salvage) = TraceBuffer::attach(memory).unwrap();
    let (loss_text, salvage_text) = (loss.to_string(), salvage.to_string());
    for room in 0..loss_text.len() {
        assert!(write!(Room(room), "{loss}").is_err(), "{room}");
    }
    for room in 0..salvage_text.len() {
        assert!(write!(Room(room), "{salvage}").is_err(), "{room}");
    }
    assert!(write!(Room(loss_text.len()), "{loss}").is_ok());
    assert!(write!(Room(salvage_text.len()), "{salvage}").is_ok());
}

/// These are written by hand, field by field, so one could be forgotten.
#[test]
fn debug_output_names_every_field_that_matters() {
    let mut buffer = Bench::new(small_table(), 576).buffer;
    let header = ChunkHeader { producer_id: 3, writer_id: 5, fragments: 2, ..Default::default() };
    let offered = format!("{header:?}");
    assert!(offered.starts_with("ChunkHeader { producer_id: 3, writer_id: 5, chunk_id: 0, "), "{offered}");
    assert!(offered.ends_with("complete: true, uid: 4294967295, pid: -1 }"), "{offered}");
    buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x02hi\x03you" });
    let sequence = format!("{:?}", buffer.sequences().next().unwrap());
    assert!(sequence.contains("writer_id: 5") && sequence.ends_with("histogram: None }"), "{sequence}");
    let stats = format!("{:?}", buffer.stats());
    assert!(stats.contains("buffer_size: 576") && stats.contains("bytes_written: 32"), "{stats}");

    let chunk = format!("{:?}", buffer.inspect().items().next().unwrap());
    for text in ["producer_id: 3", "writer_id: 5", "chunk_id: 0", "complete: true", "valid: 7", "packets: 2"]
    {
        assert!(chunk.contains(text), "{text} in {chunk}");
    }
    for text in ["truncated: false", "aborted: false", "read: 0", "room: 7", "flags: "] {
        assert!(chunk.contains(text), "{text} in {chunk}");
    }
    let all = format!("{:?}", TraceStats { invalid_packets: 7, ..TraceStats::default() });
    assert!(all.contains("invalid_packets: 7"), "{all}");
    let mut reader = buffer.read();
    let packet = format!("{:?}", reader.next_packet().unwrap());
    assert!(packet.starts_with("Packet { producer_id: 3, writer_id: 5, len: 2, loss: "), "{packet}");
    let mut validator = PacketValidator::default();
    validator.push(&[0x40, 0x81]).unwrap();
    let validator = format!("{validator:?}");
    assert!(validator.contains("number: 8") && validator.contains("offset: 2"), "{validator}");
}
