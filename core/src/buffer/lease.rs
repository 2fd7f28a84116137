//! Leases, for an exporter that is slower than the writers.
//!
//! A [`Reader`] borrows the buffer, so nothing can be committed while one of its packets is held. The driver of a UART
//! that takes milliseconds per packet takes a lease instead: the packet is consumed, and its bytes stay where they are
//! until the write cursor comes round to them, which is one comparison.

use super::data_loss::DataLoss;
use super::overwrite::OverwriteObserver;
use super::packet::{Located, Packet};
use super::reader::Reader;
use super::region::{RegionLayout, State};
use super::ring::front;
use super::sequence_state::SequenceState;
use super::sequence_table::lookup;
use super::trace_buffer::TraceBuffer;
use core::fmt;

/// A packet that was read, but whose bytes are still to be fetched. It holds no borrow.
///
/// ```
/// use tracebuf::buffer::{Chunk, ChunkHeader, Config, DataLoss, FillPolicy, LeaseExpired, TraceBuffer};
///
/// let mut buffer = TraceBuffer::new(vec![0u8; 1024], Config::new(FillPolicy::RingBuffer).sequences(4))?;
/// let mut header = ChunkHeader { producer_id: 1, fragments: 1, ..Default::default() };
/// buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello" });
///
/// let lease = buffer.read().lease_packet().unwrap();
/// header.chunk_id = 1;
/// buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05world" }); // recording goes on
/// assert_eq!(buffer.leased(&lease).unwrap().slices().next(), Some(&b"hello"[..]));
///
/// for chunk_id in 2..30 {
///     header.chunk_id = chunk_id;
///     buffer.copy_chunk_untrusted(&Chunk { header, payload: &[0u8; 64] });
/// }
/// assert_eq!(buffer.leased(&lease).unwrap_err(), LeaseExpired);
/// // No other lease is held: the next packet of its sequence that is read says so.
/// buffer.give_up(lease, DataLoss::OVERWRITE, []);
/// # Ok::<(), tracebuf::buffer::RegionError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a packet that is not exported is to be given up, or nobody hears of its loss"]
pub struct Lease {
    located: Located,
    whose: Identity,
    loss: DataLoss,
    /// The position of the write cursor, all laps counted, up to which the packet's bytes are there.
    expires: u64,
}

/// A sequence, and who wrote it: once the table has forgotten it, another sequence can have the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    producer_id: u16,
    writer_id: u16,
    uid: u32,
    pid: u32,
}

impl Identity {
    fn of(sequence: &SequenceState) -> Self {
        Self {
            producer_id: sequence.producer_id.get(),
            writer_id: sequence.writer_id.get(),
            uid: sequence.uid.get(),
            pid: sequence.pid.get(),
        }
    }

    /// Its place in the table, if it is still there.
    fn lookup(self, table: &[SequenceState]) -> Option<u16> {
        let slot = lookup(table, self.producer_id, self.writer_id)?;
        (Self::of(table.get(usize::from(slot))?) == self).then_some(slot)
    }
}

/// The packet was overwritten before it was exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct LeaseExpired;

impl fmt::Display for LeaseExpired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the packet was overwritten before it was exported")
    }
}

impl core::error::Error for LeaseExpired {}

impl Lease {
    /// Bytes in the packet.
    #[allow(clippy::len_without_is_empty, reason = "packets are never empty")]
    pub fn len(&self) -> usize {
        self.located.size as usize
    }

    /// What was lost on its sequence before it.
    pub fn loss(&self) -> DataLoss {
        self.loss
    }
}

impl Reader<'_> {
    /// The next packet as a lease, consumed like any other. Cost: a look at each of its chunks.
    pub fn lease_packet(&mut self) -> Option<Lease> {
        let (state, slot, located, loss) = self.advance()?;
        let whose = Identity::of(state.sequence(slot)?);
        let expires = state.header.position.get().saturating_add(state.distance_to(located)?);
        Some(Lease { located, whose, loss, expires })
    }
}

impl State<'_> {
    /// How far the write cursor may still move before it touches a chunk of a packet.
    fn distance_to(&self, located: Located) -> Option<u64> {
        let (write, size) = (self.header.write.get(), u64::from(self.header.ring_size()));
        let mut at = located.chunk;
        let mut nearest = u64::MAX;
        for _ in 0..=located.chunks {
            let behind = if at < write { size } else { 0 };
            nearest = nearest.min((u64::from(at) + behind).saturating_sub(u64::from(write)));
            // The chunks are erased already, but keep their links.
            at = front(self.ring.words, at)?.links.next.get();
        }
        Some(nearest)
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>, O: OverwriteObserver> TraceBuffer<M, O> {
    /// The packet of a lease of this buffer, while it is still there.
    ///
    /// # Errors
    /// [`LeaseExpired`] once one of its chunks has been overwritten, or its sequence forgotten, or gone on with by
    /// another process.
    pub fn leased(&self, lease: &Lease) -> Result<Packet<'_>, LeaseExpired> {
        find(&self.layout, self.memory(), lease).ok_or(LeaseExpired)
    }

    /// Ends a lease whose packet was not exported. The next packet of its sequence carries `cause` and those that this
    /// one carried, as after [`Reader::reject_packet`].
    ///
    /// `later` are the leases still held that were taken after it, in that order; one of them may be that next packet.
    /// Cost: a look at each of them.
    pub fn give_up<'l>(
        &mut self,
        lease: Lease,
        cause: DataLoss,
        later: impl IntoIterator<Item = &'l mut Lease>,
    ) {
        let Some(state) = self.state() else { return };
        let Some(slot) = lease.whose.lookup(state.table) else { return };
        let Some(entry) = state.table.get_mut(usize::from(slot)) else { return };
        entry.evicted.saturating_add(u32::from(cause.contains(DataLoss::OVERWRITE)));
        let loss = (lease.loss | cause).of_unused_packet();
        match later.into_iter().find(|later| later.whose == lease.whose) {
            Some(next) => next.loss |= loss.marked(),
            None => entry.lose(loss),
        }
    }
}

fn find<'b>(layout: &RegionLayout, memory: &'b [u8], lease: &Lease) -> Option<Packet<'b>> {
    let header = layout.header(memory)?;
    if header.position.get().max(header.touched.get()) > lease.expires {
        return None;
    }
    let (table, _) = layout.table(memory)?;
    let sequence = table.get(usize::from(lease.whose.lookup(table)?))?;
    Some(Packet { ring: layout.ring(memory)?, sequence, located: lease.located, loss: lease.loss })
}
