//! Traces unpacked: gzipped files, and packets that contain others, compressed.

use std::borrow::Cow;
use std::io;

use flate2::bufread::MultiGzDecoder;
use tracebuf::proto::TracePackets;
use tracebuf::proto::reader::Fields;

use super::fault::TraceError;
use crate::compressed::{self, all_of};

/// The first bytes of a gzipped file.
const GZIP: &[u8] = &[0x1F, 0x8B];

/// What was unpacked, if it is not more than there was room for.
fn checked(unpacked: io::Result<Option<Vec<u8>>>, at: u64) -> Result<Vec<u8>, TraceError> {
    unpacked.map_err(|error| TraceError::Compressed { at, error })?.ok_or(TraceError::TooLarge)
}

/// The trace without any compression, of at most `most` bytes.
pub(super) fn unpacked(file: &[u8], most: usize) -> Result<Cow<'_, [u8]>, TraceError> {
    let trace = if file.starts_with(GZIP) {
        Cow::Owned(checked(all_of(MultiGzDecoder::new(file), most), 0)?)
    } else {
        Cow::Borrowed(file)
    };
    let (mut out, mut done) = (Vec::new(), 0);
    let mut packets = TracePackets::new(&trace);
    let mut begin = 0;
    while let Some(Ok(packet)) = packets.next() {
        let at = begin as u64;
        for field in Fields::of(packet) {
            let room = most.saturating_sub(out.len());
            let Some(inner) = compressed::unpacked(&field, room) else { continue };
            let inner = checked(inner, at)?;
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
