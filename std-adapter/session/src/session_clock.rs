//! The clock of a session's events.

use std::fmt;

use tracebuf::producer::track_event::Clock;

use super::clock::BootClock;
use super::tsc::TscClock;

/// The clock of a session's events: boot time, read from the system or from the processor's counter.
///
/// ```
/// use tracebuf_session::Session;
///
/// let session = Session::builder().fast_clock().start()?;
/// session.recorder().instant("at a time that took 10 ns to read");
/// # Ok::<(), tracebuf_session::SessionError>(())
/// ```
#[derive(Clone, Copy)]
pub struct SessionClock(Option<&'static TscClock>);

impl SessionClock {
    pub fn new(fast: bool) -> Self {
        Self(if fast { TscClock::get().inspect(|clock| clock.resume()) } else { None })
    }

    pub fn steer(self) {
        if let Some(clock) = self.0 {
            clock.steer();
        }
    }
}

impl fmt::Debug for SessionClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionClock").field("fast", &self.0.is_some()).finish_non_exhaustive()
    }
}

/// The system's clock, in a place of its own: within every event it would be code that the counter's clock does without.
#[inline(never)]
fn system_time() -> u64 {
    BootClock.now()
}

impl Clock for SessionClock {
    #[inline]
    fn now(&self) -> u64 {
        match self.0 {
            Some(clock) => clock.now(),
            None => system_time(),
        }
    }
}
