//! A snapshot of the ring when something happens: part before it, part after, while recording goes on.
//!
//! The condition is a pin, or a flag that a fault handler raises. When it is met, the trigger waits until the ring has
//! taken `after` more bytes (chunk headers included), then copies the ring into memory of its own. So the snapshot
//! holds the `after` bytes after the event, and as much from before it as the rest of the ring holds. The trigger costs
//! one copy ([`TraceBuffer::clone_size`] bytes) and a read of the pin at each poll. What was read before is not in the
//! copy: a trigger goes with a flight recorder, not with a trace that is sent continuously.
//!
//! ```
//! use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
//! use tracebuf_embedded::trigger::{Flag, Trigger};
//!
//! let mut ring = TraceBuffer::new(vec![0u8; 2048], Config::new(FillPolicy::RingBuffer).sequences(4))?;
//! let alarm = Flag::new(); // a static that any priority may raise
//! let mut trigger = Trigger::new(&alarm, 100);
//! let mut memory = Some(vec![0u8; 2048]);
//! assert!(trigger.poll(&ring, &mut memory).unwrap().is_none());
//!
//! alarm.raise();
//! assert!(trigger.poll(&ring, &mut memory).unwrap().is_none(), "100 bytes are to follow");
//! let header = ChunkHeader { producer_id: 1, fragments: 1, ..Default::default() };
//! let payload: Vec<u8> = [&[110][..], &[b'x'; 110]].concat();
//! ring.copy_chunk_untrusted(&Chunk { header, payload: &payload });
//! let mut snapshot = trigger.poll(&ring, &mut memory).unwrap().expect("they have");
//! assert_eq!(snapshot.read().next_packet().unwrap().len(), 110);
//!
//! alarm.lower();
//! memory = Some(snapshot.into_memory()); // when it was sent
//! trigger.arm();
//! # Ok::<(), tracebuf::buffer::RegionError>(())
//! ```

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use embedded_hal::digital::InputPin;
use tracebuf::buffer::{ReadOnlyTraceBuffer, RegionError, TraceBuffer};

/// The condition that a trigger waits for.
pub trait Condition {
    /// What can go wrong when looking at the condition.
    type Error;

    /// Whether the condition is met now.
    ///
    /// # Errors
    /// The condition could not be looked at.
    fn is_met(&mut self) -> Result<bool, Self::Error>;
}

/// A pin that goes high.
#[derive(Debug)]
pub struct High<P>(pub P);

impl<P: InputPin> Condition for High<P> {
    type Error = P::Error;

    fn is_met(&mut self) -> Result<bool, P::Error> {
        self.0.is_high()
    }
}

/// A pin that goes low.
#[derive(Debug)]
pub struct Low<P>(pub P);

impl<P: InputPin> Condition for Low<P> {
    type Error = P::Error;

    fn is_met(&mut self) -> Result<bool, P::Error> {
        self.0.is_low()
    }
}

/// A flag that any priority may raise, for example when a plausibility check fails, a deadline is missed, or an
/// assertion does not hold.
#[derive(Debug, Default)]
pub struct Flag(AtomicBool);

impl Flag {
    /// A flag that is not raised.
    pub const fn new() -> Self {
        Flag(AtomicBool::new(false))
    }

    /// Raises it.
    pub fn raise(&self) {
        self.0.store(true, Relaxed);
    }

    /// Lowers it.
    pub fn lower(&self) {
        self.0.store(false, Relaxed);
    }
}

impl Condition for &Flag {
    type Error = core::convert::Infallible;

    fn is_met(&mut self) -> Result<bool, Self::Error> {
        Ok(self.0.load(Relaxed))
    }
}

/// Why there is no snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriggerError<E> {
    /// The condition cannot be looked at.
    Condition(E),
    /// The memory cannot take the ring. It is gone, and the trigger is no longer armed.
    Memory(RegionError),
}

impl<E: fmt::Debug> fmt::Display for TriggerError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition(error) => write!(f, "the trigger's condition cannot be looked at: {error:?}"),
            Self::Memory(error) => write!(f, "the snapshot's memory cannot be used: {error}"),
        }
    }
}

impl<E: fmt::Debug> core::error::Error for TriggerError<E> {}

/// Takes a snapshot when its condition is met.
#[derive(Debug)]
pub struct Trigger<C> {
    condition: C,
    after: u64,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Armed,
    /// The snapshot is due when the ring has taken so many bytes.
    Fired {
        due: u64,
    },
    Frozen,
}

impl<C: Condition> Trigger<C> {
    /// Makes an armed trigger. The snapshot is taken when the ring has taken `after` bytes since [`poll`](Self::poll)
    /// noticed the event. If `after` is the ring's size or more, nothing from before it is left.
    pub const fn new(condition: C, after: u32) -> Self {
        Trigger { condition, after: after as u64, phase: Phase::Armed }
    }

    /// Whether the condition was met, and the snapshot is waiting for what comes after.
    pub const fn has_fired(&self) -> bool {
        matches!(self.phase, Phase::Fired { .. })
    }

    /// Checks whether it is time: to be called where the ring is drained, after each chunk or a few.
    ///
    /// When the snapshot is taken, the memory moves into it, and the trigger rests until it is armed again. Without
    /// memory it waits, and the ring goes on.
    ///
    /// # Errors
    /// [`TriggerError`].
    pub fn poll<M, N>(
        &mut self,
        ring: &TraceBuffer<M>,
        memory: &mut Option<N>,
    ) -> Result<Option<ReadOnlyTraceBuffer<N>>, TriggerError<C::Error>>
    where
        M: AsRef<[u8]> + AsMut<[u8]>,
        N: AsRef<[u8]> + AsMut<[u8]>,
    {
        let taken = || ring.stats().bytes_written;
        let due = match self.phase {
            Phase::Frozen => return Ok(None),
            Phase::Fired { due } => due,
            Phase::Armed if !self.condition.is_met().map_err(TriggerError::Condition)? => return Ok(None),
            Phase::Armed => taken().saturating_add(self.after),
        };
        self.phase = Phase::Fired { due };
        if taken() < due {
            return Ok(None);
        }
        let Some(memory) = memory.take() else { return Ok(None) };
        self.phase = Phase::Frozen;
        ring.clone_read_only(memory).map(Some).map_err(TriggerError::Memory)
    }

    /// Waits for the condition again.
    pub const fn arm(&mut self) {
        self.phase = Phase::Armed;
    }
}
