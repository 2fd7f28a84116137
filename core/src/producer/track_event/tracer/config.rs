//! `TracerConfig` and `TracerStats`: a tracer's settings and counts.

use crate::proto::fields::builtin_clock;

/// How a [`Tracer`](super::Tracer) tells the time, and how often it starts its state anew.
///
/// ```
/// use tracebuf::producer::track_event::TracerConfig;
///
/// // A 168 MHz cycle counter, times to the microsecond, into a ring of 16 KiB.
/// const CONFIG: TracerConfig = TracerConfig::new(168_000_000).unit_ns(1_000).state_every(16 * 1024 / 4);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TracerConfig {
    frequency: u64,
    /// Units per tick, in 2⁻³².
    factor: u64,
    pub(super) unit_ns: u32,
    pub(super) clock_id: u32,
    state_bytes: u32,
}

const SECOND: u64 = 1_000_000_000;

impl TracerConfig {
    /// For a clock of `frequency` ticks a second, with times to the nanosecond on the trace's boot time clock. The state
    /// starts anew every 64 KiB, a quarter of a ring of 256 KiB.
    ///
    /// **For a smaller ring, call [`TracerConfig::state_every`]**: a ring that has overwritten all its states cannot be
    /// decoded. For a larger one, that saves the space of states. Make it a constant: the divisions are in it. With a
    /// frequency of 0 all times are 0.
    pub const fn new(frequency: u64) -> Self {
        let clock_id = builtin_clock::BOOTTIME as u32;
        TracerConfig { frequency, factor: 0, unit_ns: 1, clock_id, state_bytes: 64 << 10 }.unit_ns(1)
    }

    /// Times in steps of `unit_ns` nanoseconds: distances below 2¹⁴ steps take two bytes, below 2²¹ three.
    ///
    /// Use the same for all tracers of a producer: readers take their sequences for one when an id is used again.
    ///
    /// A tick's length is rounded to 2⁻³² steps, so that times are off by at most frequency × steps in seconds
    /// ÷ 2³³ of what the clock reads: by 0.02 parts in a billion at 168 MHz and 1 ns, 3 at 24 MHz and 1 µs. So let a
    /// clock begin with the program, not in 1970.
    pub const fn unit_ns(self, unit_ns: u32) -> Self {
        let unit_ns = if unit_ns == 0 { 1 } else { unit_ns };
        let ticks = self.frequency.saturating_mul(unit_ns as u64);
        let factor = match (SECOND << 32).saturating_add(ticks / 2).checked_div(ticks) {
            Some(factor) => factor,
            None => 0,
        };
        TracerConfig { unit_ns, factor, ..self }
    }

    /// Units per tick, in 2⁻³².
    pub(in crate::producer::track_event) const fn factor(&self) -> u64 {
        self.factor
    }

    /// The number of the builtin clock that the ticks are times of: 1 realtime, 3 monotonic, 6 boot time. A
    /// target that knows none of them leaves it at boot time: all its times agree with each other.
    ///
    /// Readers show boot time, so a trace with another clock must tell what both showed at some moments. Sessions do;
    /// who exports alone calls [`TraceExporter::clocks`](crate::service::TraceExporter::clocks). Of a device of which
    /// nobody tells, `tracebuf receive` and `recover` say that the clock shows boot time.
    pub const fn clock_id(self, clock_id: u32) -> Self {
        TracerConfig { clock_id, ..self }
    }

    /// Starts the state anew whenever the producer has written this many bytes of shared memory: a quarter of the ring,
    /// or less. What was written before the oldest state that the ring holds cannot be decoded.
    ///
    /// All of the producer's chunks count in full, however little is in them. When several producers share the ring,
    /// divide by their number, or have the service ask all of them for
    /// [`clear_incremental_state`](crate::producer::Producer::clear_incremental_state) with each quarter that is filled.
    ///
    /// With 0, each chunk begins with a state, so that the last chunk of a thread that hangs can be decoded however late
    /// a scrape finds it. That takes about 80 bytes a chunk and the names that it uses; a chunk must have room for that,
    /// the descriptions of its tracks, and 40 bytes more, and many times as much where details are long.
    #[doc(alias = "incremental_state_clear_period")]
    #[doc(alias = "incremental_state_config")]
    pub const fn state_every(self, bytes: u32) -> Self {
        TracerConfig { state_bytes: bytes, ..self }
    }

    /// How many chunks of `chunk_size` bytes a state may last; 0: to the end of the writer's chunk.
    pub(super) fn lifetime(&self, chunk_size: u32) -> u32 {
        match self.state_bytes {
            0 => 0,
            bytes if cfg!(target_has_atomic = "32") => bytes.checked_div(chunk_size).unwrap_or(0).max(1),
            // Cores without a compare-and-swap mostly have no division either, and the compiler's is 400 bytes of code.
            bytes => bit_by_bit(bytes, chunk_size).max(1),
        }
    }
}

/// Divides by a divisor that is not 0.
fn bit_by_bit(mut dividend: u32, divisor: u32) -> u32 {
    let mut quotient = 0;
    for bit in (0..32).rev() {
        if dividend >> bit >= divisor {
            dividend -= divisor << bit;
            quotient |= 1 << bit;
        }
    }
    quotient
}

/// What a tracer has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TracerStats {
    /// Packets of the writer: events, states and track descriptions.
    pub writer: crate::producer::TraceWriterStats,
    /// Times that the incremental state was written, modulo 2³².
    pub states: u32,
    /// Events not written because the state could not be written, or because they came inside the writing of another
    /// one; each of the two modulo 2³² on targets of 32 bits.
    pub skipped: u64,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_to_last_less_than_a_chunk_lasts_for_one() {
        let lifetime = |bytes, chunk_size| TracerConfig::new(1).state_every(bytes).lifetime(chunk_size);
        let lifetimes = [0, 1, 1023, 1024, 2047, 2048].map(|bytes| lifetime(bytes, 1024));
        assert_eq!(lifetimes, [0, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn what_is_divided_bit_by_bit_is_divided() {
        for divisor in [1, 2, 3, 24, 248, 4088, 65_528, 1 << 31, u32::MAX] {
            for dividend in [0, 1, 23, 24, 25, 65_536, 1 << 31, u32::MAX - 1, u32::MAX] {
                assert_eq!(bit_by_bit(dividend, divisor), dividend / divisor);
            }
        }
    }
}
