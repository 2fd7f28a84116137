//! How large buffers must be: the command `tracebuf size`.
//!
//! ```
//! use tracebuf_std::size::Sizing;
//!
//! // 2 MB/s: a ring for 8 s, and shared memory for 10 ms without the service.
//! let sizing = Sizing::of_rate(2e6).seconds(8.0).blocked(0.010);
//! assert_eq!(sizing.ring(), Some(16_105_472));
//! assert_eq!(sizing.shared_memory(), 20_480);
//! assert!((Sizing::of_rate(2e6).ring_lasts(16 << 20) - 8.3).abs() < 0.1);
//! ```

use std::fmt;

use crate::figures::{Bytes, Count};
use crate::session::SHARED_MEMORY;

pub use crate::figures::Seconds;

/// What is known of a recording.
///
/// The rules: a ring lasts its size divided by the rate of what all producers write into it; a long trace's ring
/// must last from one write of the file to the next; shared memory must take what one producer writes at its
/// fastest while the service is kept from running. All are the least that will do at this rate: chunks that are
/// sent before they are full, and bursts, take more.
#[derive(Clone, Copy, Debug)]
pub struct Sizing {
    rate: f64,
    seconds: Option<f64>,
    drain_period: Option<f64>,
    blocked: f64,
    chunk: u32,
}

/// Bytes that the ring needs for each chunk beside its payload: header, links and alignment.
const RING_PER_CHUNK: f64 = 26.0;
/// The most shared memory that a session has.
const SESSION_MAX: u64 = *SHARED_MEMORY.end() as u64;
/// Bytes of a chunk of shared memory that are no payload.
const CHUNK_HEADER: u32 = 8;

impl Sizing {
    /// For so many bytes of packets a second, of all producers together. Chunks are of 4 KiB; the service may
    /// be kept from running for 10 ms.
    pub fn of_rate(bytes_per_second: f64) -> Self {
        let rate = if bytes_per_second.is_finite() { bytes_per_second.max(0.0) } else { 0.0 };
        Self { rate, seconds: None, drain_period: None, blocked: 0.010, chunk: 4096 }
    }

    /// The ring is to hold so many seconds.
    #[must_use]
    pub fn seconds(self, seconds: f64) -> Self {
        Self { seconds: Some(seconds.max(0.0)), ..self }
    }

    /// A long trace writes the ring into its file every so many seconds.
    #[must_use]
    pub fn drain_period(self, seconds: f64) -> Self {
        Self { drain_period: Some(seconds.max(0.0)), ..self }
    }

    /// The service may be kept from running for so many seconds.
    #[must_use]
    pub fn blocked(self, seconds: f64) -> Self {
        Self { blocked: seconds.max(0.0), ..self }
    }

    /// Bytes of a chunk of shared memory, header included; what is below 32 counts as 32. Those of a
    /// [session](crate::session) have 2,044, those of the firmware crate 120.
    #[must_use]
    pub fn chunk(self, bytes: u32) -> Self {
        Self { chunk: bytes.max(32), ..self }
    }

    /// Bytes of packets that a chunk has room for; [`chunk`](Self::chunk) sees to it that there are some.
    fn payload(&self) -> f64 {
        f64::from(self.chunk - CHUNK_HEADER)
    }

    /// Bytes of ring that a second takes.
    fn ring_rate(&self) -> f64 {
        self.rate * (1.0 + RING_PER_CHUNK / self.payload())
    }

    /// Bytes for the ring, a multiple of 4 KiB, at least: for the seconds asked for, or from one write of the
    /// file to the next, if that is longer. `None` if neither was said. A ring can have less than 4 GiB: for more there
    /// have to be several.
    pub fn ring(&self) -> Option<u64> {
        let window = self.seconds.unwrap_or(0.0).max(self.drain_period.unwrap_or(0.0));
        let asked = self.seconds.is_some() || self.drain_period.is_some();
        asked.then(|| pages(self.ring_rate() * window))
    }

    /// Bytes for the shared memory of a producer that writes all of the rate, a multiple of 4 KiB.
    pub fn shared_memory(&self) -> u64 {
        pages(self.rate * self.blocked * f64::from(self.chunk) / self.payload()).max(4096)
    }

    /// How many seconds a ring of so many bytes holds; infinity at a rate of zero.
    pub fn ring_lasts(&self, bytes: u64) -> f64 {
        if self.rate > 0.0 { bytes as f64 / self.ring_rate() } else { f64::INFINITY }
    }
}

fn pages(bytes: f64) -> u64 {
    ((bytes / 4096.0).ceil() as u64).saturating_mul(4096)
}

impl fmt::Display for Sizing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rate           {} a second, in chunks of {}", Bytes(self.rate as u64), self.chunk)?;
        if let Some(ring) = self.ring() {
            writeln!(
                f,
                "ring           at least {} ({}), lasts {}",
                Bytes(ring),
                Count(ring, "byte"),
                Seconds(self.ring_lasts(ring))
            )?;
            if ring > u64::from(u32::MAX) {
                writeln!(
                    f,
                    "               a ring is smaller than 4 GiB: several are needed, for parts of what writes"
                )?;
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
            let most = Bytes(SESSION_MAX);
            write!(
                f,
                "\n               a session has {most} at most; its threads can wait for the service instead"
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
    use tracebuf::proto::varint;

    use super::*;

    #[test]
    fn a_ring_that_cannot_be_is_said_to_be_none() {
        for (rate, is_told) in [(70e6, false), (73e6, true)] {
            let text = Sizing::of_rate(rate).seconds(60.0).to_string();
            assert_eq!(text.contains("smaller than 4 GiB"), is_told, "{text}");
        }
    }

    #[test]
    fn shared_memory_that_no_session_has_is_said_to_be_too_much_for_one() {
        // Of 2,000 bytes each 64 MiB have room for 1,992.
        for (rate, is_told) in [(66.8e6, false), (66.9e6, true)] {
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
            // One packet that fills it: of a smaller one the ring would not keep the rest of the chunk.
            let mut payload = vec![7; (chunk - CHUNK_HEADER) as usize];
            let head = if payload.len() > 128 { 2 } else { 1 };
            let size = (payload.len() - head) as u64;
            assert_eq!(varint::encode(size, &mut payload), Some(head));
            let chunks = 1_000_000_u32.div_ceil(chunk - CHUNK_HEADER);
            for chunk_id in 0..chunks {
                let header = ChunkHeader {
                    producer_id: 1,
                    writer_id: 1,
                    chunk_id,
                    fragments: 1,
                    complete: true,
                    ..ChunkHeader::default()
                };
                buffer.copy_chunk_untrusted(&Chunk { header, payload: &payload });
            }
            let stats = buffer.stats();
            assert_eq!((stats.chunks_written, stats.chunks_overwritten), (chunks.into(), 0), "{chunk}");
            let shared = u64::from(chunks) * u64::from(chunk);
            // The last of them is not full.
            assert!((shared - u64::from(chunk)..shared + 4096).contains(&sizing.shared_memory()), "{chunk}");
        }
    }
}
