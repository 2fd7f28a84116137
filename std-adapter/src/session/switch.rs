//! Whether a session records.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::fork;

/// Where events go: a session's number, and in the lower 16 bits that of one of its buffers.
pub(crate) type Place = u64;

/// Where events go when nothing is recorded. Sessions' numbers begin with 1.
pub(crate) const NOWHERE: Place = 0;

/// Whether two places are in the same session.
pub(crate) fn is_one_session(place: Place, other: Place) -> bool {
    place >> 16 == other >> 16
}

/// Something that is on only as long as a session is.
pub(crate) trait Connected: Send + Sync {
    /// That session, given by its first buffer's place, is off.
    fn leave(&self, session: Place);
}

/// Whether threads may write: the session records, and this is its process.
pub(crate) struct Switch {
    /// The first buffer's place while the session is on; in a relay's switch, the place of the buffer that it is
    /// connected to.
    place: AtomicU64,
    /// What identifies it: the first buffer's place, or for a relay a number that no session has.
    own: Place,
    stopping: AtomicBool,
    forks: u32,
    connected: Mutex<Vec<Weak<dyn Connected>>>,
}

impl Switch {
    /// A session's switch, which is on.
    pub(crate) fn new() -> Self {
        let switch = Self::of_relay();
        switch.place.store(switch.own, Ordering::Relaxed);
        switch
    }

    /// A relay's switch, which is off.
    pub(crate) fn of_relay() -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        fork::watch();
        Self {
            place: AtomicU64::new(NOWHERE),
            own: NUMBERS.fetch_add(1, Ordering::Relaxed) << 16,
            stopping: AtomicBool::new(false),
            forks: fork::forks(),
            connected: Mutex::default(),
        }
    }

    /// Where events go; nowhere in a child.
    #[inline(always)]
    pub(crate) fn place(&self) -> Place {
        let place = self.place.load(Ordering::Relaxed);
        if self.is_here() { place } else { NOWHERE }
    }

    /// Whether events for a buffer go to this place, where some went before.
    #[inline(always)]
    pub(crate) fn leads_to(&self, place: Place, target: u16) -> bool {
        self.place.load(Ordering::Relaxed) | u64::from(target) == place && self.is_here()
    }

    pub(crate) fn own(&self) -> Place {
        self.own
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.place() != NOWHERE
    }

    /// Whether this process is the one that began the session.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        fork::forks() == self.forks
    }

    /// Sets where a relay's switch leads: it is on as long as the relay is connected.
    pub(crate) fn set(&self, place: Place) {
        self.place.store(place, Ordering::Relaxed);
    }

    pub(crate) fn off(&self) {
        self.set(NOWHERE);
        // Not under the lock: this frees memory, which an allocator may record.
        let connected = std::mem::take(&mut *self.connected());
        for connected in connected.iter().filter_map(Weak::upgrade) {
            connected.leave(self.own);
        }
    }

    /// Turns it off; somebody waits for the session's end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.off();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Has something told when the session is off.
    pub(crate) fn tell(&self, other: Weak<dyn Connected>) {
        let mut connected = self.connected();
        connected.retain(|known| known.strong_count() > 0 && !known.ptr_eq(&other));
        connected.push(other);
    }

    fn connected(&self) -> MutexGuard<'_, Vec<Weak<dyn Connected>>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Turns recording off when the drain thread ends, even by a panic, perhaps of a transport: threads that stall would
/// wait for it for ever.
pub(crate) struct OffAtEnd(pub(crate) Arc<Switch>);

impl Drop for OffAtEnd {
    fn drop(&mut self) {
        self.0.off();
    }
}
