//! Sizes of buffers for a rate: the command `tracebuf size`.
//!
//! ```
//! use tracebuf_analysis::size::Sizing;
//!
//! // 2 MB/s in packets of 40 bytes: a ring for 8 s, and shared memory for 10 ms without the service.
//! let sizing = Sizing::of_rate(2e6).packet(40).seconds(8.0).blocked(0.010);
//! assert_eq!(sizing.ring(), Some(16_687_104));
//! assert_eq!(sizing.shared_memory(), 45_056);
//! assert!((sizing.ring_lasts(16 << 20) - 8.04).abs() < 0.01);
//! ```

use std::fmt;

use tracebuf_session::limits::{LAYOUT, PAGE, SHARED_MEMORY};
use tracebuf_std::display::{Bytes, Count, tenths};

/// A time in seconds.
///
/// ```
/// use tracebuf_analysis::size::Seconds;
///
/// let times = [8.04, 0.010, 0.0247, 0.0004, f64::INFINITY].map(|time| Seconds(time).to_string());
/// assert_eq!(times, ["8 s", "10 ms", "24.7 ms", "400 µs", "for ever"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seconds(pub f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(seconds) = *self;
        match seconds {
            0.0 => f.write_str("0 s"),
            f64::INFINITY => f.write_str("for ever"),
            ..0.001 => write!(f, "{:.0} µs", seconds * 1e6),
            ..1.0 => write!(f, "{} ms", tenths(seconds * 1e3)),
            _ => write!(f, "{} s", tenths(seconds)),
        }
    }
}

/// Figures of a recording, from which sizes follow.
///
/// ```
/// use tracebuf_analysis::size::Sizing;
///
/// // A device that writes 20 kB/s in packets of 12 bytes, with chunks of 120 bytes and a ring of 16 KiB.
/// let device = Sizing::of_rate(20e3).packet(12).chunk(120);
/// assert!(device.ring_lasts(16 << 10) > 0.5 && device.ring_fault(16 << 10).is_none());
/// ```
///
/// The rules: a ring lasts as long as all producers together take to fill the chunks that it has room for; a long
/// trace's ring must last from one write of the file to the next; shared memory must take what one producer writes at
/// its fastest while the service cannot run, and as much again, because chunks are sent when half of it is complete.
/// Each takes at least one chunk.
///
/// These are minimum sizes for this rate. Bursts, and chunks that are sent before they are full, need more; each thread
/// that records keeps a chunk of shared memory; and in a ring that has overwritten something, the oldest quarter cannot
/// be read, see [`BufferConfig::ring`](tracebuf_session::BufferConfig::ring). The rate is that of packets as producers
/// write them: a trace file has more bytes for each, which say who wrote it.
#[derive(Clone, Copy, Debug)]
pub struct Sizing {
    rate: f64,
    seconds: Option<f64>,
    drain_period: Option<f64>,
    blocked: f64,
    packet: u32,
    chunk: u32,
}

/// Bytes that the ring needs for each chunk besides its payload: header and links.
const RING_PER_CHUNK: u64 = 24;
/// The smallest possible ring, and the largest.
const RING_MIN: u64 = 64;
const RING_MAX: u64 = u32::MAX as u64;
/// The most shared memory that a session has.
const SESSION_MAX: u64 = *SHARED_MEMORY.end() as u64;
/// Bytes of a chunk of shared memory that are not payload.
const CHUNK_HEADER: u32 = 8;
/// The longest packet whose size takes one byte.
const SHORT: u32 = 127;
/// Bytes of a longer packet's size, which writers fill in when the packet ends.
const LONG_SIZE: f64 = 4.0;
/// Bytes at a chunk's end that may stay empty: writers begin no packet in so few. A packet that begins before them and
/// continues in the next chunk needs fewer, 4 bytes, for its sizes.
const UNUSED: u32 = 11;

impl Sizing {
    /// Bytes of a chunk of a [session](tracebuf_session)'s shared memory, including the header.
    pub const SESSION_CHUNK: u32 = LAYOUT.chunk_size(PAGE);

    /// Makes a sizing for a rate of packets in bytes a second, of all producers together. By default packets have 16
    /// bytes, slightly more than events without arguments, chunks are a session's, and the service may be kept from
    /// running for 10 ms.
    pub fn of_rate(bytes_per_second: f64) -> Self {
        let rate = if bytes_per_second.is_finite() { bytes_per_second.max(0.0) } else { 0.0 };
        let (packet, chunk) = (16, Self::SESSION_CHUNK);
        Self { rate, seconds: None, drain_period: None, blocked: 0.010, packet, chunk }
    }

    /// Sets how many seconds the ring is to hold.
    #[must_use]
    pub fn seconds(self, seconds: f64) -> Self {
        Self { seconds: Some(seconds.max(0.0)), ..self }
    }

    /// Sets the period, in seconds, at which a long trace writes the ring into its file.
    #[must_use]
    pub fn drain_period(self, seconds: f64) -> Self {
        Self { drain_period: Some(seconds.max(0.0)), ..self }
    }

    /// Sets how many seconds the service may be kept from running.
    #[must_use]
    pub fn blocked(self, seconds: f64) -> Self {
        Self { blocked: seconds.max(0.0), ..self }
    }

    /// Sets the average packet size in bytes; zero counts as one.
    #[must_use]
    pub fn packet(self, bytes: u32) -> Self {
        Self { packet: bytes.max(1), ..self }
    }

    /// Sets the bytes of a chunk of shared memory, including the header; less than 32 counts as 32. A session's chunks
    /// have [2,044](Self::SESSION_CHUNK), those of the firmware crate 120.
    #[must_use]
    pub fn chunk(self, bytes: u32) -> Self {
        Self { chunk: bytes.max(32), ..self }
    }

    /// Bytes of packets that a chunk has room for; [`chunk`](Self::chunk) ensures that there are some.
    fn packets_in_chunk(&self) -> f64 {
        let (room, packet) = (f64::from(self.chunk - CHUNK_HEADER - UNUSED), f64::from(self.packet));
        let size = if self.packet <= SHORT { 1.0 } else { LONG_SIZE };
        room * packet / (packet + size)
    }

    /// Chunks that are filled in so many seconds, at least one.
    fn chunks(&self, seconds: f64) -> u64 {
        ((self.rate * seconds / self.packets_in_chunk()).ceil() as u64).max(1)
    }

    /// The least bytes for the ring, a multiple of 4 KiB: for the seconds asked for or, if longer, from one write of
    /// the file to the next. `None` if neither was given. A ring must be smaller than 4 GiB: for more there must be
    /// several.
    pub fn ring(&self) -> Option<u64> {
        let window = self.seconds.into_iter().chain(self.drain_period).reduce(f64::max)?;
        Some(pages(self.chunks(window), ring_chunk(self.chunk)))
    }

    /// Bytes for the shared memory of a producer that writes at the whole rate, a multiple of 4 KiB.
    pub fn shared_memory(&self) -> u64 {
        pages(self.chunks(2.0 * self.blocked), self.chunk.into())
    }

    /// The demand that no number of bytes below 2⁶⁴ meets, if any: the sizes above are `u64::MAX` then.
    pub fn beyond(&self) -> Option<&'static str> {
        if self.rate >= u64::MAX as f64 {
            Some("nothing can write so fast")
        } else if self.ring() == Some(u64::MAX) {
            Some("no ring can be so large, nor several together")
        } else if self.shared_memory() == u64::MAX {
            Some("no shared memory can be so large")
        } else {
            None
        }
    }

    /// The reason why a ring of this size is useless, if there is one.
    pub fn ring_fault(&self, bytes: u64) -> Option<String> {
        const SEVERAL: &str = "a ring is smaller than 4 GiB: several are needed, for parts of what writes";
        if bytes > RING_MAX {
            return Some(SEVERAL.to_owned());
        }
        let least = ring_chunk(self.chunk).max(RING_MIN);
        (bytes < least).then(|| format!("too small for a chunk of {}, which takes {least}", self.chunk))
    }

    /// Seconds that a ring of this size holds; infinity at a rate of zero, and zero if it has no room for a
    /// chunk.
    pub fn ring_lasts(&self, bytes: u64) -> f64 {
        let chunks = bytes / ring_chunk(self.chunk);
        match chunks {
            0 => 0.0,
            _ if self.rate > 0.0 => chunks as f64 * self.packets_in_chunk() / self.rate,
            _ => f64::INFINITY,
        }
    }
}

/// Bytes of the ring that a chunk of so many bytes of shared memory takes.
pub fn ring_chunk(chunk: u32) -> u64 {
    u64::from(chunk - CHUNK_HEADER).next_multiple_of(4) + RING_PER_CHUNK
}

/// The bytes of so many chunks of so many bytes, in whole pages.
fn pages(chunks: u64, bytes: u64) -> u64 {
    chunks.saturating_mul(bytes).div_ceil(4096).saturating_mul(4096)
}

impl fmt::Display for Sizing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rate, packet, chunk, .. } = self;
        f.write_str("rate           ")?;
        // A device may write less than a byte a second.
        match *rate < 1024.0 && rate.fract() > 0.0 {
            true => write!(f, "{rate} bytes")?,
            false => write!(f, "{}", Bytes(*rate as u64))?,
        }
        let [packet, chunk] = [*packet, *chunk].map(|bytes| Count(bytes.into(), "byte"));
        writeln!(f, " a second, in packets of {packet} and chunks of {chunk}")?;
        if let Some(beyond) = self.beyond() {
            return f.write_str(beyond);
        }
        if let Some(ring) = self.ring() {
            let (size, bytes, time) = (Bytes(ring), Count(ring, "byte"), Seconds(self.ring_lasts(ring)));
            writeln!(f, "ring           at least {size} ({bytes}), lasts {time}")?;
            if let Some(fault) = self.ring_fault(ring) {
                writeln!(f, "               {fault}")?;
            }
        }
        let shared = self.shared_memory();
        write!(
            f,
            "shared memory  at least {} ({shared} bytes) for each producer that writes so fast, if the service is kept \
             from running for {}",
            Bytes(shared),
            Seconds(self.blocked)
        )?;
        if shared > SESSION_MAX {
            write!(f, "\n               a session has {} at most", Bytes(SESSION_MAX))?;
            f.write_str("; its threads can wait for the service instead")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
    use tracebuf::proto::varint;

    use super::*;

    /// A chunk of one packet.
    fn whole(chunk_id: u32) -> ChunkHeader {
        let (fragments, complete) = (1, true);
        ChunkHeader { producer_id: 1, writer_id: 1, chunk_id, fragments, complete, ..ChunkHeader::default() }
    }

    /// One packet that fills a chunk: after a smaller one, the ring would not keep the rest.
    fn full(chunk: u32) -> Vec<u8> {
        let mut payload = vec![7; (chunk - CHUNK_HEADER) as usize];
        let head = [128, 16_384].iter().filter(|least| payload.len() > **least).count() + 1;
        let size = (payload.len() - head) as u64;
        assert_eq!(varint::encode(size, &mut payload), Some(head));
        payload
    }

    #[test]
    fn a_ring_that_cannot_be_is_said_to_be_none() {
        for (rate, is_told) in [(66e6, false), (68e6, true)] {
            let text = Sizing::of_rate(rate).seconds(60.0).to_string();
            assert_eq!(text.contains("smaller than 4 GiB"), is_told, "{text}");
        }
    }

    #[test]
    fn shared_memory_that_no_session_has_is_said_to_be_too_much_for_one() {
        // Of each chunk's 2,000 bytes, packets have 1,981; of every 17 of those, one is a packet's size.
        for (rate, is_told) in [(31.25e6, false), (31.3e6, true)] {
            let text = Sizing::of_rate(rate).chunk(2000).blocked(1.0).to_string();
            assert_eq!(text.contains("a session has 64 MiB at most"), is_told, "{text}");
        }
    }

    #[test]
    fn what_comes_in_the_time_asked_for_has_room_in_chunks_of_any_size() {
        for chunk in [32, 120, 2044, 4096] {
            // For ten seconds in a ring, and as long without the service.
            let sizing = Sizing::of_rate(100_000.0).seconds(10.0).blocked(10.0).chunk(chunk);
            let bytes = sizing.ring().expect("a ring") as u32;
            let config = Config::new(FillPolicy::RingBuffer);
            let memory = vec![0u8; config.region_size(bytes) as usize];
            let mut buffer = TraceBuffer::new(memory, config).expect("a buffer");
            let payload = full(chunk);
            // With the sizes of packets of 16 bytes, and what may stay empty of each chunk.
            let chunks = 1_062_500_u32.div_ceil(chunk - CHUNK_HEADER - UNUSED);
            for chunk_id in 0..chunks {
                buffer.copy_chunk_untrusted(&Chunk { header: whole(chunk_id), payload: &payload });
            }
            let stats = buffer.stats();
            assert_eq!((stats.chunks_written, stats.chunks_overwritten), (chunks.into(), 0), "{chunk}");
            // The same amount was there before. The last chunk is not full.
            let shared = 2 * u64::from(chunks) * u64::from(chunk);
            let least = shared - 2 * u64::from(chunk);
            assert!((least..shared + 4096).contains(&sizing.shared_memory()), "{chunk}");
        }
    }

    #[test]
    fn what_writers_write_in_the_time_asked_for_is_in_the_ring_at_its_end() {
        use tracebuf::producer::Exhaustion;
        use tracebuf_session::Session;

        for (bytes, field) in [(10, 8), (100, 98), (300, 297), (5000, 4997)] {
            let sizing = Sizing::of_rate(10e6).seconds(1.0).packet(bytes);
            let ring = sizing.ring().expect("a ring");
            // The session writes a chunk of its own.
            let ring = ring + ring_chunk(sizing.chunk);
            let session = Session::builder().ring(ring).exhaustion(Exhaustion::Stall).start();
            let session = session.expect("a session");
            let mut writer = session.recorder().packet_writer().expect("a writer");
            let content = vec![7; field];
            (0..10_000_000 / bytes).for_each(|_| writer.packet(|packet| packet.bytes(1, &content)));
            drop(writer);
            let stats = session.stop().expect("a stop").summary().buffers[0];
            assert_eq!(stats.chunks_overwritten, 0, "{bytes}");
            // Nor is it much more than that.
            assert!(stats.bytes_written + ring / 200 > ring, "{bytes}: {stats:?}");
        }
    }

    #[test]
    fn the_least_that_is_recommended_has_room_for_a_chunk() {
        for chunk in [32, 2044, 4096, 65_536] {
            for (rate, seconds) in [(1000.0, 1.0), (0.0, 1.0), (1000.0, 0.0)] {
                let sizing = Sizing::of_rate(rate).seconds(seconds).blocked(seconds).chunk(chunk);
                let config = Config::new(FillPolicy::RingBuffer);
                let ring = sizing.ring().expect("a ring");
                let memory = vec![0u8; config.region_size(ring as u32) as usize];
                let mut buffer = TraceBuffer::new(memory, config).expect("a buffer");
                buffer.copy_chunk_untrusted(&Chunk { header: whole(0), payload: &full(chunk) });
                assert_eq!(buffer.stats().chunks_written, 1, "{chunk}");
                assert!(sizing.shared_memory() >= chunk.into() && sizing.ring_lasts(ring) > 0.0, "{chunk}");
            }
        }
        assert_eq!(Sizing::of_rate(0.0).ring_lasts(2048), 0.0);
    }

    #[test]
    fn a_ring_that_is_of_no_use_has_a_fault_and_takes_no_chunk() {
        for (chunk, least) in [(32, 64), (2044, 2060), (4096, 4112)] {
            let sizing = Sizing::of_rate(1000.0).chunk(chunk);
            let faults =
                [0, least - 1, least, 4 << 20, RING_MAX, RING_MAX + 1].map(|bytes| sizing.ring_fault(bytes));
            assert_eq!(
                faults.each_ref().map(Option::is_some),
                [true, true, false, false, false, true],
                "{faults:?}"
            );
            let config = Config::new(FillPolicy::RingBuffer);
            for (bytes, fits) in [(least - 4, 0), (least, 1)] {
                let memory = vec![0u8; config.region_size(bytes as u32) as usize];
                let Ok(mut buffer) = TraceBuffer::new(memory, config) else {
                    assert_eq!((fits, chunk), (0, 32));
                    continue;
                };
                buffer.copy_chunk_untrusted(&Chunk { header: whole(0), payload: &full(chunk) });
                assert_eq!(buffer.stats().chunks_written, fits, "{chunk} {bytes}");
            }
        }
    }

    #[test]
    fn a_rate_of_less_than_a_byte_is_one() {
        let text = Sizing::of_rate(0.5).seconds(10.0).to_string();
        assert!(
            text.starts_with("rate           0.5 bytes a second, ") && !text.contains("for ever"),
            "{text}"
        );
    }
}
