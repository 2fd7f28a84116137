//! The gate that every event passes: open while its session records, in the session's process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tracebuf_std::fork;

/// A session's buffer, in which events are recorded: the session's number, and in the lower 16 bits the buffer's in it.
pub type BufferId = u64;

/// In place of a buffer's id when nothing is recorded. Sessions' numbers begin with 1.
pub const NO_BUFFER: BufferId = 0;

/// Returns true if two buffers are in the same session.
pub fn is_one_session(buffer: BufferId, other: BufferId) -> bool {
    buffer >> 16 == other >> 16
}

/// Something that is on only as long as a session is.
pub(crate) trait Connected: Send + Sync {
    /// That session, given by its first buffer, is off.
    fn leave(&self, session: BufferId);
}

/// Says whether threads may write: the session records, and this is its process.
pub struct RecordingGate {
    /// The first buffer while the session is on; in a relay's gate, the buffer that it is connected to.
    buffer: AtomicU64,
    /// What identifies it: the first buffer, or for a relay a number that no session has.
    own: BufferId,
    stopping: AtomicBool,
    /// Nobody sends the drain thread a stop: it is to end by itself.
    ending: AtomicBool,
    forks: u32,
    connected: Mutex<Vec<Weak<dyn Connected>>>,
}

impl RecordingGate {
    /// The gate of a session that records.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let gate = Self::of_relay();
        gate.buffer.store(gate.own, Ordering::Relaxed);
        gate
    }

    /// A relay's gate, which is off.
    pub(crate) fn of_relay() -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        fork::watch();
        Self {
            buffer: AtomicU64::new(NO_BUFFER),
            own: NUMBERS.fetch_add(1, Ordering::Relaxed) << 16,
            stopping: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            forks: fork::forks(),
            connected: Mutex::default(),
        }
    }

    /// The buffer that events go to; none in a child.
    #[inline(always)]
    pub(crate) fn buffer_id(&self) -> BufferId {
        let buffer = self.buffer.load(Ordering::Relaxed);
        if self.is_here() { buffer } else { NO_BUFFER }
    }

    /// Whether events for buffer number `target` still go to `buffer`, where earlier ones went.
    #[inline(always)]
    pub(crate) fn leads_to(&self, buffer: BufferId, target: u16) -> bool {
        self.buffer.load(Ordering::Relaxed) | u64::from(target) == buffer && self.is_here()
    }

    pub(crate) fn own(&self) -> BufferId {
        self.own
    }

    /// Returns true if events are recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.buffer_id() != NO_BUFFER
    }

    /// Returns true in the process that began the session.
    #[inline]
    pub fn is_here(&self) -> bool {
        fork::forks() == self.forks
    }

    /// Sets where a relay's gate leads: it is on as long as the relay is connected.
    pub(crate) fn set(&self, buffer: BufferId) {
        self.buffer.store(buffer, Ordering::Relaxed);
    }

    /// Ends recording, for good.
    pub fn off(&self) {
        self.set(NO_BUFFER);
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

    /// The same, and the drain thread ends by itself once it is woken.
    pub(crate) fn end(&self) {
        self.stop();
        self.ending.store(true, Ordering::Release);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
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

debug_fields!(RecordingGate, buffer);

/// Turns recording off when the drain thread ends, even by a panic: threads that stall would wait for ever.
pub(crate) struct OffAtEnd(pub(crate) Arc<RecordingGate>);

impl Drop for OffAtEnd {
    fn drop(&mut self) {
        self.0.off();
    }
}
