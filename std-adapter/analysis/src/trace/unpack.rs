//! Traces unpacked: gzipped files, and packets that contain others, compressed.

use std::borrow::Cow;
use std::io::{self, Read};

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::StreamingDecoder;
use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::{FieldValue, Fields};

use super::fault::TraceError;

/// The first bytes of a gzipped file.
const GZIP: &[u8] = &[0x1F, 0x8B];

/// Reads to the end, or says that there is more than `room`.
fn all_of(packed: impl Read, room: usize, at: u64) -> Result<Vec<u8>, TraceError> {
    let mut unpacked = Vec::new();
    let read = packed.take(room as u64 + 1).read_to_end(&mut unpacked);
    read.map_err(|error| TraceError::Compressed { at, error })?;
    if unpacked.len() > room { Err(TraceError::TooLarge) } else { Ok(unpacked) }
}

/// The trace without any compression, of at most `most` bytes.
pub(super) fn unpacked(file: &[u8], most: usize) -> Result<Cow<'_, [u8]>, TraceError> {
    let trace = if file.starts_with(GZIP) {
        Cow::Owned(all_of(MultiGzDecoder::new(file), most, 0)?)
    } else {
        Cow::Borrowed(file)
    };
    let (mut out, mut done) = (Vec::new(), 0);
    let mut packets = TracePackets::new(&trace);
    let mut begin = 0;
    while let Some(Ok(packet)) = packets.next() {
        let at = begin as u64;
        for field in Fields::of(packet) {
            let FieldValue::Bytes(packed) = field.value else { continue };
            let room = most.saturating_sub(out.len());
            let inner = match field.number {
                trace_packet::COMPRESSED_PACKETS => all_of(ZlibDecoder::new(packed), room, at)?,
                trace_packet::ZSTD_COMPRESSED_PACKETS => {
                    let wrong = |error| TraceError::Compressed { at, error: io::Error::other(error) };
                    all_of(StreamingDecoder::new(packed).map_err(wrong)?, room, at)?
                }
                _ => continue,
            };
            // What lies before it, and then what is in it instead of itself.
            out.extend_from_slice(trace.get(done..begin).unwrap_or_default());
            out.extend_from_slice(&inner);
            done = packets.offset();
        }
        begin = packets.offset();
    }
    if done == 0 {
        return Ok(trace);
    }
    out.extend_from_slice(trace.get(done..).unwrap_or_default());
    if out.len() > most { Err(TraceError::TooLarge) } else { Ok(Cow::Owned(out)) }
}
