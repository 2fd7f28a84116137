//! What the service knows of a producer's writers.

use heapless::Vec;

/// The registered writers of one producer.
pub(super) struct Writers<const N: usize>(Vec<Writer, N>);

pub(super) struct Writer {
    id: u16,
    target: u16,
    /// The chunks that scrapes have shown whole, of those shown last: the first one's id, and how many follow each
    /// other.
    first_shown: u32,
    shown: u32,
}

impl Writer {
    pub(super) fn id(&self) -> u16 {
        self.id
    }

    /// The buffer that it writes to.
    pub(super) fn target(&self) -> u16 {
        self.target
    }

    /// Whether a scrape has shown the whole of a chunk.
    pub(super) fn has_shown(&self, chunk_id: u32) -> bool {
        chunk_id.wrapping_sub(self.first_shown) < self.shown
    }
}

impl<const N: usize> Writers<N> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// False if there is no room for one more.
    pub(super) fn add(&mut self, id: u16, target: u16) -> bool {
        self.0.push(Writer { id, target, first_shown: 0, shown: 0 }).is_ok()
    }

    pub(super) fn remove(&mut self, id: u16) {
        self.0.retain(|writer| writer.id != id);
    }

    /// A writer, if it is registered.
    pub(super) fn get(&self, id: u16) -> Option<&Writer> {
        self.0.iter().find(|writer| writer.id == id)
    }

    /// A scrape has shown the whole of a chunk.
    pub(super) fn show(&mut self, id: u16, chunk_id: u32) {
        let Some(writer) = self.0.iter_mut().find(|writer| writer.id == id) else { return };
        if writer.has_shown(chunk_id) {
            return;
        }
        if chunk_id != writer.first_shown.wrapping_add(writer.shown) {
            (writer.first_shown, writer.shown) = (chunk_id, 0);
        }
        writer.shown = writer.shown.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_shown_are_known_as_far_as_they_follow_each_other() {
        let mut writers = Writers::<2>::new();
        assert!(writers.add(1, 0) && writers.add(2, 0) && !writers.add(3, 0));
        let has_shown = |writers: &Writers<2>, id, chunk_id| {
            writers.get(id).is_some_and(|writer| writer.has_shown(chunk_id))
        };
        for chunk_id in [0, 1, u32::MAX] {
            assert!(!has_shown(&writers, 1, chunk_id), "none was");
        }
        writers.show(1, u32::MAX);
        writers.show(1, 0);
        let known = |writers: &Writers<2>| [u32::MAX - 1, u32::MAX, 0, 1].map(|id| has_shown(writers, 1, id));
        assert_eq!(known(&writers), [false, true, true, false]);
        assert!(!has_shown(&writers, 2, 0), "another's");
        writers.show(1, u32::MAX);
        assert_eq!(known(&writers), [false, true, true, false], "shown again");
        // With a hole between them, those before it are not known any more.
        writers.show(1, 2);
        assert_eq!(known(&writers), [false; 4]);
        assert!(has_shown(&writers, 1, 2));
        // Who takes the number next has shown nothing.
        writers.remove(1);
        assert!(writers.add(1, 0) && !has_shown(&writers, 1, 2));
    }
}
