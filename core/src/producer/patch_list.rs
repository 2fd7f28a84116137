//! `PatchList`: size fields in chunks that were given away.

use super::atomics::{AtomicU32, Ordering, const_fn};

/// Whether writers fill size fields in chunks that they gave away: the feature `patches`. Without it, none of their
/// requests has [`chunks_to_patch`](super::CommitRequest::chunks_to_patch).
pub const PATCHES: bool = cfg!(feature = "patches");

/// Four bytes that a size field gets after its chunk was given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ChunkPatch {
    /// The chunk, in its writer's sequence.
    pub chunk_id: u32,
    /// Bytes from the start of the chunk's payload.
    pub offset: u16,
    /// What to write there.
    pub data: [u8; 4],
}

/// The size fields of one writer that wait for their messages' ends, or for somebody to send them. The writer adds
/// fields and makes them ready; senders, one at a time, take the ready ones.
pub(crate) struct PatchList {
    fields: [Field; PatchList::CAPACITY],
}

/// `place` has the state in its low bits and the offset in its high half. The writer changes it from [`FREE`] to
/// [`WAITING`] to [`READY`], the sender back to [`FREE`].
struct Field {
    place: AtomicU32,
    chunk_id: AtomicU32,
    data: AtomicU32,
}

const FREE: u32 = 0;
const WAITING: u32 = 1;
const READY: u32 = 2;
const STATE: u32 = 3;

/// A size of 0, redundantly encoded: what a field gets whose packet was given up.
const EMPTY: [u8; 4] = [0x80, 0x80, 0x80, 0];

impl PatchList {
    /// Enough for every level of nesting to lie in a chunk of its own, and some that are being sent.
    pub(crate) const CAPACITY: usize = if PATCHES { 16 } else { 0 };

    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        PatchList { fields: [const { Field::new() }; Self::CAPACITY] }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        PatchList { fields: core::array::from_fn(|_| Field::new()) }
    }

    /// Waits for a field's message to end. False when the list is full.
    pub(crate) fn wait_for(&self, chunk_id: u32, offset: u16) -> bool {
        let Some(field) = self.fields.iter().find(|f| f.state() == FREE) else { return false };
        field.chunk_id.store(chunk_id, Ordering::Relaxed);
        field.data.store(u32::from_ne_bytes(EMPTY), Ordering::Relaxed);
        field.place.store(u32::from(offset) << 16 | WAITING, Ordering::Release);
        true
    }

    /// The fields that another thread may look at, each with whether it is ready.
    #[cfg(all(test, not(loom), feature = "patches"))]
    pub(crate) fn fields_not_free(&self) -> impl Iterator<Item = (bool, ChunkPatch)> {
        let there = self.fields.iter().filter(|field| field.state() != FREE);
        there.map(|field| (field.state() == READY, field.patch()))
    }

    /// Makes a field ready whose message has ended. False if no such field waits.
    pub(crate) fn set(&self, chunk_id: u32, offset: u16, data: [u8; 4]) -> bool {
        let place = u32::from(offset) << 16 | WAITING;
        let is_it = |f: &&Field| f.place.load(Ordering::Relaxed) == place && f.is_in(chunk_id);
        let Some(field) = self.fields.iter().find(is_it) else { return false };
        field.data.store(u32::from_ne_bytes(data), Ordering::Relaxed);
        field.make_ready();
        true
    }

    /// Makes all fields ready, as their packet was given up: they will not get better, and no reader may wait for them.
    pub(crate) fn set_all(&self) {
        self.fields.iter().filter(|f| f.state() == WAITING).for_each(Field::make_ready);
    }

    /// Hands a ready patch to `send`, and whether its chunk needs more than this one. False when none is ready.
    ///
    /// Its place becomes free only once it is sent: until then, the writer does not go on
    /// [further](Self::has_ready_of_before) than a patch can reach back.
    pub(crate) fn send_ready(&self, send: impl FnOnce(ChunkPatch, bool)) -> bool {
        let Some(field) = self.fields.iter().find(|f| f.state() == READY) else { return false };
        let patch = field.patch();
        let is_other = |f: &&Field| !core::ptr::eq(*f, field) && f.state() != FREE;
        // All of a chunk's fields were here before the chunk was sent.
        let has_more = self.fields.iter().filter(is_other).any(|f| f.is_in(patch.chunk_id));
        send(patch, has_more);
        field.place.store(FREE, Ordering::Release);
        true
    }

    /// Whether a ready patch that is not sent yet is for a chunk at least `chunks` before this one.
    pub(crate) fn has_ready_of_before(&self, chunk_id: u32, chunks: u32) -> bool {
        let age = |f: &Field| chunk_id.wrapping_sub(f.chunk_id.load(Ordering::Relaxed));
        self.fields.iter().any(|f| f.state() == READY && age(f) >= chunks)
    }
}

impl Field {
    const_fn! {
        const fn new() -> Self {
            Field { place: AtomicU32::new(FREE), chunk_id: AtomicU32::new(0), data: AtomicU32::new(0) }
        }
    }

    /// Acquire: what the other side wrote before it changed the state is there.
    fn state(&self) -> u32 {
        self.place.load(Ordering::Acquire) & STATE
    }

    fn is_in(&self, chunk_id: u32) -> bool {
        self.chunk_id.load(Ordering::Relaxed) == chunk_id
    }

    fn make_ready(&self) {
        let place = self.place.load(Ordering::Relaxed);
        self.place.store(place & !STATE | READY, Ordering::Release);
    }

    fn patch(&self) -> ChunkPatch {
        ChunkPatch {
            chunk_id: self.chunk_id.load(Ordering::Relaxed),
            offset: (self.place.load(Ordering::Relaxed) >> 16) as u16,
            data: self.data.load(Ordering::Relaxed).to_ne_bytes(),
        }
    }
}

#[cfg(all(test, not(loom), feature = "patches"))]
mod tests {
    use super::*;

    fn patch(chunk_id: u32, offset: u16, data: u8) -> ChunkPatch {
        ChunkPatch { chunk_id, offset, data: [data; 4] }
    }

    fn sent(list: &PatchList) -> Option<(ChunkPatch, bool)> {
        let mut sent = None;
        assert_eq!(list.send_ready(|patch, has_more| sent = Some((patch, has_more))), sent.is_some());
        sent
    }

    #[test]
    fn patches_come_out_when_their_messages_end_and_the_last_of_a_chunk_says_so() {
        let list = PatchList::new();
        assert!(list.wait_for(1, 10) && list.wait_for(1, 20) && list.wait_for(2, 30));
        assert_eq!(sent(&list), None);
        assert!(list.set(1, 20, [1; 4]));
        assert_eq!(sent(&list), Some((patch(1, 20, 1), true)));
        assert_eq!(sent(&list), None);
        assert!(list.set(2, 30, [3; 4]) && list.set(1, 10, [2; 4]));
        assert!(!list.set(1, 10, [4; 4]), "it has ended already");
        assert_eq!(sent(&list), Some((patch(1, 10, 2), false)));
        assert_eq!(sent(&list), Some((patch(2, 30, 3), false)));
        assert_eq!(sent(&list), None);
    }

    #[test]
    fn a_full_list_takes_no_more_until_some_are_sent() {
        let list = PatchList::new();
        for i in 0..PatchList::CAPACITY {
            assert!(list.wait_for(i as u32, 0));
        }
        assert!(!list.wait_for(99, 0));
        list.set_all();
        assert!(!list.wait_for(99, 0));
        let given_up = ChunkPatch { chunk_id: 0, offset: 0, data: EMPTY };
        assert_eq!(sent(&list), Some((given_up, false)));
        assert!(list.wait_for(99, 0));
    }

    #[test]
    fn a_patch_keeps_its_place_until_it_is_sent() {
        let list = PatchList::new();
        assert!(list.wait_for(u32::MAX, 0) && !list.has_ready_of_before(9, 10), "it is open");
        list.set_all();
        assert!(list.has_ready_of_before(9, 10) && !list.has_ready_of_before(8, 10));
        assert!(list.send_ready(|_, _| assert!(list.has_ready_of_before(9, 10))));
        assert!(!list.has_ready_of_before(9, 10));
    }
}
