//! Packets of a long trace, compressed: many in one, as readers of traces know them.

use std::io;

use tracebuf::proto::TracePackets;
#[cfg(any(feature = "deflate", feature = "zstd"))]
use tracebuf::proto::{
    Message, Sink,
    fields::{trace, trace_packet},
};

/// How the packets of a long trace are compressed, on the thread that writes the file.
///
/// ```
/// use tracebuf_session::{Compression, LongTrace};
///
/// let trace = LongTrace::to("long.pftrace");
/// #[cfg(feature = "deflate")]
/// let trace = trace.compress(Compression::Deflate);
/// # let _ = trace;
/// ```
///
/// Up to 256 KiB of packets become one, so a file that breaks off can be read up to its last whole one, and compressing
/// takes a mebibyte of memory. What would not become smaller stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// None.
    #[default]
    None,
    /// Deflate, which all readers of Perfetto's traces know. Slices become a tenth or less, at some 400 MB/s; a
    /// machine's record a quarter to a third, as much of it is moments, at some 120.
    #[cfg(feature = "deflate")]
    Deflate,
    /// Zstandard, which Perfetto's readers know since 2026. Slices become about a twentieth, at some
    /// 1,000 MB/s; a machine's record as much as with deflate, at some 450.
    #[cfg(feature = "zstd")]
    Zstd,
}

/// Bytes of packets that become one: Perfetto asks for less than 512 KiB.
const BLOCK: usize = 256 << 10;

/// Makes compressed packets.
pub(super) struct Packer {
    codec: Codec,
    #[cfg(any(feature = "deflate", feature = "zstd"))]
    block: Vec<u8>,
    packed: Vec<u8>,
}

enum Codec {
    #[cfg(feature = "deflate")]
    Deflate(flate2::Compress),
    #[cfg(feature = "zstd")]
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Packer {
    /// `None` without compression.
    pub(super) fn new(compression: Compression) -> io::Result<Option<Self>> {
        match compression {
            Compression::None => Ok(None),
            #[cfg(feature = "deflate")]
            Compression::Deflate => {
                Ok(Self::of(Codec::Deflate(flate2::Compress::new(flate2::Compression::new(5), true))))
            }
            #[cfg(feature = "zstd")]
            Compression::Zstd => Ok(Self::of(Codec::Zstd(zstd::bulk::Compressor::new(3)?))),
        }
    }

    #[cfg(any(feature = "deflate", feature = "zstd"))]
    fn of(codec: Codec) -> Option<Self> {
        Some(Self { codec, block: Vec::new(), packed: Vec::new() })
    }

    /// Whole packets, as packets of compressed ones; as they are if they cannot be compressed.
    pub(super) fn pack(&mut self, packets: &[u8]) -> &[u8] {
        self.packed.clear();
        // Otherwise one large packet's memory would be kept.
        self.packed.shrink_to(4 * BLOCK);
        let mut rest = packets;
        while !rest.is_empty() {
            let (block, behind) = rest.split_at(block_of(rest));
            if !self.add(block) {
                self.packed.extend_from_slice(block);
            }
            rest = behind;
        }
        &self.packed
    }

    /// Adds these packets, if they become smaller.
    #[cfg(any(feature = "deflate", feature = "zstd"))]
    fn add(&mut self, packets: &[u8]) -> bool {
        self.block.clear();
        self.block.shrink_to(4 * BLOCK);
        let field = match &mut self.codec {
            #[cfg(feature = "deflate")]
            Codec::Deflate(deflate) => {
                deflate.reset();
                // More than deflate adds to what it cannot compress.
                self.block.reserve(packets.len() + packets.len() / 1000 + 64);
                match deflate.compress_vec(packets, &mut self.block, flate2::FlushCompress::Finish) {
                    Ok(flate2::Status::StreamEnd) => trace_packet::COMPRESSED_PACKETS,
                    _ => return false,
                }
            }
            #[cfg(feature = "zstd")]
            Codec::Zstd(zstd) => {
                self.block.reserve(zstd::zstd_safe::compress_bound(packets.len()));
                match zstd.compress_to_buffer(packets, &mut self.block) {
                    Ok(_) => trace_packet::ZSTD_COMPRESSED_PACKETS,
                    Err(_) => return false,
                }
            }
        };
        let packet = Compressed { field, packets: &self.block };
        if packet.encoded_len() >= packets.len() {
            return false;
        }
        let Ok(()) = self.packed.message(trace::PACKET, &packet);
        true
    }

    #[cfg(not(any(feature = "deflate", feature = "zstd")))]
    fn add(&mut self, _: &[u8]) -> bool {
        match self.codec {}
    }
}

#[cfg(any(feature = "deflate", feature = "zstd"))]
struct Compressed<'b> {
    field: u32,
    packets: &'b [u8],
}

#[cfg(any(feature = "deflate", feature = "zstd"))]
impl Message for Compressed<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.bytes(self.field, self.packets)
    }
}

/// Bytes of the packets that become one; a long one is alone.
fn block_of(packets: &[u8]) -> usize {
    let (mut each, mut end) = (TracePackets::new(packets), 0);
    while each.next().is_some_and(|packet| packet.is_ok()) && (each.offset() <= BLOCK || end == 0) {
        end = each.offset();
    }
    if end == 0 { packets.len() } else { end }
}

#[cfg(all(test, feature = "deflate"))]
mod tests {
    use super::*;

    #[test]
    fn packets_are_compressed_by_the_block_and_stay_as_they_are_where_that_saves_nothing() {
        let packet = |len: usize, byte: fn(usize) -> u8| {
            let mut bytes = Vec::new();
            let content: Vec<u8> = (0..len).map(byte).collect();
            let Ok(()) = bytes.bytes(trace::PACKET, &content);
            bytes
        };
        let mut packer = Packer::new(Compression::Deflate).expect("a packer").expect("one");
        let even = packet(1000, |_| 7);
        let packed = packer.pack(&even.repeat(600)).to_vec();
        // 600 KB in blocks of 256 KiB.
        assert_eq!(TracePackets::new(&packed).flatten().count(), 3);
        assert!(packed.len() < 10_000, "{}", packed.len());
        let noise = packet(1000, |at| ((at as u64 * at as u64 * 2_654_435_761) >> 13) as u8);
        assert_eq!(packer.pack(&noise[..]), noise);
        // A packet of more than a block is alone.
        let long = packet(2 * BLOCK, |_| 7);
        let packed = packer.pack(&[&even[..], &long, &even].concat()).to_vec();
        assert_eq!(TracePackets::new(&packed).flatten().count(), 3);
        assert!(packer.packed.capacity() <= 5 * BLOCK && packer.block.capacity() <= 5 * BLOCK);
    }
}
