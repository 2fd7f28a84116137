//! Packets that contain others, compressed.

use std::io::{self, Read};

use flate2::bufread::ZlibDecoder;
use ruzstd::decoding::StreamingDecoder;
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::{Field, FieldValue, Fields};

/// Reads to the end; `None` if there is more than `room`.
pub(crate) fn all_of(packed: impl Read, room: usize) -> io::Result<Option<Vec<u8>>> {
    let mut unpacked = Vec::new();
    packed.take((room as u64).saturating_add(1)).read_to_end(&mut unpacked)?;
    Ok(Some(unpacked).filter(|unpacked| unpacked.len() <= room))
}

/// The packets in a field of a packet, as they would lie in a trace; `None` for a field that contains none.
pub(crate) fn unpacked(field: &Field<'_>, room: usize) -> Option<io::Result<Option<Vec<u8>>>> {
    let FieldValue::Bytes(packed) = field.value else { return None };
    match field.number {
        trace_packet::COMPRESSED_PACKETS => Some(all_of(ZlibDecoder::new(packed), room)),
        trace_packet::ZSTD_COMPRESSED_PACKETS => {
            let decoder = StreamingDecoder::new(packed).map_err(io::Error::other);
            Some(decoder.and_then(|decoder| all_of(decoder, room)))
        }
        _ => None,
    }
}

/// The most that one packet's may unpack to where it is looked at by itself: Perfetto's have less than 512 KiB before
/// they are unpacked, this crate's unpack to 256 KiB or to one long packet.
const PACKET_MAX: usize = 64 << 20;

/// The packets in a packet that begins with them, as they would lie in a trace; `None` for one that does not, or that
/// cannot be unpacked.
pub(crate) fn within(packet: &[u8]) -> Option<Vec<u8>> {
    unpacked(&Fields::of(packet).next()?, PACKET_MAX)?.ok()?
}
