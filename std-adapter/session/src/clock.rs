//! Clocks: boot time, how it relates to the time of day, and the clock of a session's events.

mod tsc;

use std::time::SystemTime;

use tracebuf::producer::track_event::Clock;
use tracebuf::proto::fields::builtin_clock;
use tracebuf::proto::{ClockTimes, Message, Sink};

use tracebuf_std::system::{boot_time, steady_time};
use tsc::TscClock;

/// Nanoseconds since the machine started, sleep included: `CLOCK_BOOTTIME`, Perfetto's default trace clock. On Windows
/// it is the performance counter; on Unixes other than Linux, the steady clock, the same for all
/// processes of a machine. Cost: on Linux a call into the vDSO, 20 to 30 ns on x86-64.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl BootClock {
    /// Ticks per second.
    pub const FREQUENCY: u64 = 1_000_000_000;
}

impl Clock for BootClock {
    #[inline]
    fn now(&self) -> u64 {
        boot_time()
    }
}

/// What the system's clocks showed at one moment, in nanoseconds. As a packet of the service it tells readers how boot
/// time, which events have, relates to the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// `CLOCK_BOOTTIME`, as [`BootClock`] reads it.
    pub boottime: u64,
    /// The steady clock, which on Linux stands still while the machine sleeps.
    pub monotonic: u64,
    /// The time of day, since 1970.
    pub realtime: u64,
}

/// Nanoseconds that a reading may take. If it takes longer, the thread was interrupted within it.
const PROMPT: u64 = 5_000;

impl ClockReading {
    /// Reads the clocks. Cost: four readings; up to four times that if the thread is interrupted.
    pub fn now() -> Self {
        let first = Self::read();
        let others = std::iter::repeat_with(Self::read).take(3);
        let mut closest = first;
        for other in others {
            if closest.0 <= PROMPT {
                break;
            }
            closest = if other.0 < closest.0 { other } else { closest };
        }
        closest.1
    }

    /// One reading, and how many nanoseconds it took.
    fn read() -> (u64, Self) {
        let before = BootClock.now();
        let (realtime, monotonic) = (SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(), steady_time());
        let realtime = u64::try_from(realtime.as_nanos()).unwrap_or(u64::MAX);
        let took = BootClock.now().saturating_sub(before);
        // The middle of the two: the error is half of what the readings between them took.
        (took, Self { boottime: before + took / 2, monotonic, realtime })
    }

    /// How far the time of day and the steady clock are ahead of boot time.
    pub(crate) fn offsets(&self) -> [i64; 2] {
        [self.realtime, self.monotonic].map(|clock| clock.wrapping_sub(self.boottime) as i64)
    }
}

impl Message for ClockReading {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let Self { boottime, monotonic, realtime } = *self;
        let clocks = [
            (builtin_clock::BOOTTIME, boottime),
            (builtin_clock::REALTIME, realtime),
            (builtin_clock::MONOTONIC, monotonic),
        ];
        ClockTimes(&clocks).encode(out)
    }
}

/// The clock of a session's events: boot time, read from the system or from the processor's counter.
#[derive(Clone, Copy)]
pub struct SessionClock {
    counter: Option<&'static TscClock>,
    /// How far this process's boot time is ahead of that of the session, modulo 2⁶⁴.
    ahead: u64,
}

impl SessionClock {
    /// The system's clock, or if possible the processor's counter.
    pub fn new(fast: bool) -> Self {
        Self { counter: if fast { TscClock::get().inspect(|clock| clock.resume()) } else { None }, ahead: 0 }
    }

    /// The boot time of a session in another time namespace, where it is behind this process's by so many nanoseconds.
    #[must_use]
    pub fn behind(self, nanoseconds: i64) -> Self {
        Self { ahead: self.ahead.wrapping_add(nanoseconds as u64), ..self }
    }

    /// Compares counter and clock, if it is time: to be called about once a second.
    pub fn steer(self) {
        if let Some(clock) = self.counter {
            clock.steer();
        }
    }
}

debug_fields!(SessionClock);

/// The system's clock, in a place of its own: within every event it would be code that the counter's clock does without.
#[inline(never)]
fn system_time() -> u64 {
    BootClock.now()
}

impl Clock for SessionClock {
    #[inline]
    fn now(&self) -> u64 {
        let now = match self.counter {
            Some(clock) => clock.now(),
            None => system_time(),
        };
        now.wrapping_sub(self.ahead)
    }
}
