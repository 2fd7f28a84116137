//! Observers of what a ring overwrites.

use super::data_loss::DataLoss;
use super::frag_iterator::{Frag, FragIterator, PEEKED};
use super::packet::{Located, Packet};
use super::ring::front;
use super::sequence_state::SequenceState;
use super::words::Le32;

/// Sees the whole packets that a ring overwrites unread, in each sequence's order, just before they go.
///
/// ```
/// use tracebuf::buffer::{OverwriteObserver, Packet};
///
/// /// Counts what it lets go.
/// struct Counter(usize);
/// impl OverwriteObserver for Counter {
///     fn packet(&mut self, _packet: &Packet<'_>) -> bool {
///         self.0 += 1;
///         false
///     }
/// }
/// # let _ = Counter(0);
/// ```
pub trait OverwriteObserver {
    /// Whether anybody looks; if not, evicted chunks are not tokenised again.
    #[doc(hidden)]
    const LOOKS: bool = true;

    /// Whether what it keeps of a packet is only what that means for later ones. Such packets count as overwritten, and
    /// the next packet that is read says so; what else that one says was lost after them. None is shown twice.
    const FOLDS: bool = false;

    /// Returns false while it wants to see nothing: overwriting is then as fast as without an observer.
    fn looks(&self) -> bool {
        Self::LOOKS
    }

    /// Called for each whole packet before it is overwritten. Return true if the observer kept it: then it is not lost,
    /// and the causes that it carries count as reported. One that folds must keep all.
    fn packet(&mut self, packet: &Packet<'_>) -> bool;

    /// Called instead for packets that lie side by side in a chunk, if the observer folds. Those that it does not take
    /// out of the run count as shown.
    fn packets(&mut self, run: &mut PacketRun<'_>) {
        while let Some(packet) = run.next_packet() {
            self.packet(&packet);
        }
    }
}

/// Whole packets of a sequence that lie side by side in a chunk, in their order.
///
/// ```
/// use tracebuf::buffer::{OverwriteObserver, Packet, PacketRun};
///
/// /// Adds up the bytes of what is overwritten.
/// struct Bytes(usize);
/// impl OverwriteObserver for Bytes {
///     const FOLDS: bool = true;
///     fn packet(&mut self, packet: &Packet<'_>) -> bool {
///         self.0 += packet.len();
///         true
///     }
///     fn packets(&mut self, run: &mut PacketRun<'_>) {
///         self.0 += run.map(<[u8]>::len).sum::<usize>();
///     }
/// }
/// # let _ = Bytes(0);
/// ```
pub struct PacketRun<'b> {
    pub(super) ring: &'b [Le32],
    pub(super) sequence: &'b SequenceState,
    pub(super) chunk: u32,
    pub(super) frags: FragIterator<'b>,
    /// Whether the last fragment goes on in the next chunk: then it is not one of these.
    pub(super) goes_on: bool,
    pub(super) loss: DataLoss,
    pub(super) taken: u16,
    /// Where the last one taken ends.
    pub(super) end: u16,
    /// Where that last fragment begins.
    pub(super) begin: Option<u16>,
}

impl<'b> PacketRun<'b> {
    /// The sequence's producer.
    pub fn producer_id(&self) -> u16 {
        self.sequence.producer_id.get()
    }

    /// Its writer.
    pub fn writer_id(&self) -> u16 {
        self.sequence.writer_id.get()
    }

    /// The user that the first commit of the sequence named; `u32::MAX` for none.
    pub fn uid(&self) -> u32 {
        self.sequence.uid.get()
    }

    /// The process that the first commit of the sequence named; −1 for none.
    pub fn pid(&self) -> i32 {
        self.sequence.pid.get() as i32
    }

    /// All bytes of the chunk, in which those of the packets lie.
    pub fn chunk(&self) -> &'b [u8] {
        self.frags.payload()
    }

    /// The chunk's number on its sequence, and where in it the next fragment begins: for an observer that notes how far it
    /// has come.
    #[doc(hidden)]
    pub fn place(&self) -> (u32, u16) {
        let chunk_id = front(self.ring, self.chunk).map_or(0, |front| front.header.chunk_id.get());
        (chunk_id, self.frags.position())
    }

    /// What was lost before the first of those that are left. Between others of a run nothing is lost.
    pub fn loss(&self) -> DataLoss {
        self.loss
    }

    /// The next one.
    pub fn next_packet(&mut self) -> Option<Packet<'b>> {
        let loss = self.loss;
        let frag = self.next_frag()?;
        let located = Located::whole(self.chunk, frag);
        Some(Packet { ring: self.ring, sequence: self.sequence, located, loss })
    }

    /// Takes packets by their first bytes, one after another, until `f` returns false: the quickest way. `f` gets the
    /// size of the next one, which is a byte below 128, with what lies behind it, and where in the chunk that byte is. A
    /// packet for which it returns false is not taken, nor is one of another size, or near the end of the chunk.
    #[inline(always)]
    pub fn take_by_head(&mut self, mut f: impl FnMut(&'b [u8; PEEKED], u16) -> bool) {
        // In registers: the run itself is written to at the end only.
        let (mut frags, mut taken) = (self.frags.clone(), 0u16);
        while let Some((head, after)) = frags.peek()
            && f(head, frags.position())
        {
            frags = after;
            taken = taken.wrapping_add(1);
        }
        if taken > 0 {
            self.taken = self.taken.wrapping_add(taken);
            self.end = frags.position();
            self.loss = DataLoss::empty();
            self.frags = frags;
        }
    }

    #[inline(always)]
    fn next_frag(&mut self) -> Option<Frag> {
        loop {
            let frag = self.frags.next_frag()?;
            if self.goes_on && self.frags.is_at_end() {
                self.begin = Some(frag.start);
                return None;
            }
            if frag.size > 0 {
                self.taken = self.taken.wrapping_add(1);
                self.end = frag.end();
                self.loss = DataLoss::empty();
                return Some(frag);
            }
        }
    }
}

/// The bytes of each.
impl<'b> Iterator for PacketRun<'b> {
    type Item = &'b [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'b [u8]> {
        let frag = self.next_frag()?;
        self.frags.bytes_of(frag)
    }
}

/// The observer of a buffer that nobody observes.
///
/// ```
/// # use tracebuf::buffer::*;
/// let mut buffer = TraceBuffer::new(vec![0u8; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
/// assert!(!buffer.observer().looks());
/// # Ok::<(), RegionError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl OverwriteObserver for Unobserved {
    const LOOKS: bool = false;
    fn packet(&mut self, _packet: &Packet<'_>) -> bool {
        false
    }
}
