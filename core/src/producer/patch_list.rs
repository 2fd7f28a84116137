use heapless::Vec;

/// Four bytes that a size field gets after its chunk was given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Patch {
    /// The chunk, in its writer's sequence.
    pub chunk_id: u32,
    /// Bytes from the start of the chunk's payload.
    pub offset: u16,
    /// What to write there.
    pub data: [u8; 4],
}

#[derive(Clone, Copy)]
struct Pending {
    patch: Patch,
    ready: bool,
}

/// The size fields of one writer that wait for their messages' ends, oldest first.
pub(crate) struct PatchList {
    list: Vec<Pending, { PatchList::CAPACITY }>,
}

impl PatchList {
    /// Enough for every level of nesting to lie in a chunk of its own, and some that are ready to be sent.
    pub(crate) const CAPACITY: usize = 16;

    pub(crate) const fn new() -> Self {
        PatchList { list: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Waits for a field's message to end. False when the list is full.
    pub(crate) fn wait_for(&mut self, chunk_id: u32, offset: u16) -> bool {
        let patch = Patch { chunk_id, offset, data: [0x80, 0x80, 0x80, 0] };
        self.list.push(Pending { patch, ready: false }).is_ok()
    }

    /// A field's message has ended.
    pub(crate) fn set(&mut self, chunk_id: u32, offset: u16, data: [u8; 4]) {
        let found = self.list.iter_mut().find(|p| p.patch.chunk_id == chunk_id && p.patch.offset == offset);
        if let Some(pending) = found {
            pending.patch.data = data;
            pending.ready = true;
        }
    }

    /// The packet was given up: its fields will not get better, and no reader may wait for them.
    pub(crate) fn set_all(&mut self) {
        self.list.iter_mut().for_each(|p| p.ready = true);
    }

    pub(crate) fn any_ready(&self) -> bool {
        self.list.iter().any(|p| p.ready)
    }

    /// Takes the oldest ready patch, and says whether the chunk needs more than this one.
    pub(crate) fn take_ready(&mut self) -> Option<(Patch, bool)> {
        let index = self.list.iter().position(|p| p.ready)?;
        let patch = self.list.get(index)?.patch;
        let mut at = 0;
        self.list.retain(|_| {
            at += 1;
            at != index + 1
        });
        Some((patch, self.list.iter().any(|p| p.patch.chunk_id == patch.chunk_id)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_come_out_when_their_messages_end_and_the_last_of_a_chunk_says_so() {
        let mut list = PatchList::new();
        let patch = |chunk_id, offset, data| Patch { chunk_id, offset, data: [data; 4] };
        assert!(list.wait_for(1, 10) && list.wait_for(1, 20) && list.wait_for(2, 30));
        assert_eq!(list.take_ready(), None);
        list.set(1, 20, [1; 4]);
        assert_eq!(list.take_ready(), Some((patch(1, 20, 1), true)));
        list.set(2, 30, [3; 4]);
        list.set(1, 10, [2; 4]);
        assert_eq!(list.take_ready(), Some((patch(1, 10, 2), false)));
        assert_eq!(list.take_ready(), Some((patch(2, 30, 3), false)));
        assert!(list.is_empty());
    }

    #[test]
    fn a_full_list_takes_no_more() {
        let mut list = PatchList::new();
        for i in 0..PatchList::CAPACITY {
            assert!(list.wait_for(i as u32, 0));
        }
        assert!(!list.wait_for(99, 0));
        list.set_all();
        assert!(list.any_ready());
        assert_eq!(list.take_ready().unwrap().0.chunk_id, 0);
    }
}
