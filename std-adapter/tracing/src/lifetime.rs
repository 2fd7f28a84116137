//! The life of a span, from its making to its end, as a slice on a track of its own: how long an async task takes,
//! including its waiting, while its slices on threads are only its polls.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use self_cell::self_cell;
use tracebuf::producer::track_event::Track;

use tracebuf_session::parts::{BufferId, NO_BUFFER, is_one_session};
use tracebuf_session::this_process;

/// Whether there was ever a layer that records lives or measures spans: until then nothing is done when a span ends.
pub(super) static ARE_WANTED: AtomicBool = AtomicBool::new(false);

/// How many nested lives may contain others: deeper ones lie within the last of these, beside their parent. A thread
/// that switches between many tasks describes all tracks above one again, and a chunk that is to be readable by itself
/// must have room for all of them; the core describes 32 with an event.
const DEEPEST: u8 = 8;

self_cell!(
    /// A track, and what keeps those above it alive: a parent's span may be gone when its child ends.
    struct Nested {
        owner: Option<Arc<Life>>,
        #[covariant]
        dependent: Track,
    }
);

/// The recorded life of a span. It contains nothing of the span itself, so that children that outlive their parents
/// keep little.
pub(super) struct Life {
    nested: Nested,
    /// How many lives there are up to the outermost, including itself; 0 for the process's track.
    depth: u8,
    begun: BufferId,
    /// The same, until it has ended.
    open: AtomicU64,
}

impl Life {
    /// This process's track, which contains the lives without a parent.
    pub(super) fn process() -> Self {
        Self::on(Nested::new(None, |_| this_process()), 0)
    }

    pub(super) fn within(parent: Arc<Self>, name: &'static str, number: u64) -> Self {
        let parent = match parent.nested.borrow_owner() {
            Some(above) if parent.depth > DEEPEST => above.clone(),
            _ => parent,
        };
        let depth = parent.depth + 1;
        let nested = Nested::new(Some(parent), |parent| {
            // Lives of spans with the same name overlap, so each has a track.
            let track = Track::custom(name).numbered(number);
            parent.as_ref().map_or(track, |parent| track.within(parent.track()))
        });
        Self::on(nested, depth)
    }

    fn on(nested: Nested, depth: u8) -> Self {
        Self { nested, depth, begun: NO_BUFFER, open: AtomicU64::new(NO_BUFFER) }
    }

    pub(super) fn track(&self) -> &Track<'_> {
        self.nested.borrow_dependent()
    }

    /// Sets the buffer in which its slice has begun; `None` if in none.
    pub(super) fn begun(self, buffer: BufferId) -> Option<Arc<Self>> {
        (buffer != NO_BUFFER).then(|| Arc::new(Self { begun: buffer, open: buffer.into(), ..self }))
    }

    /// Whether it is in this buffer's session: in others nothing is on its track.
    pub(super) fn is_in(&self, buffer: BufferId) -> bool {
        is_one_session(self.begun, buffer)
    }

    /// Returns the buffer in which it is to end, once; none after that.
    pub(super) fn take_open(&self) -> BufferId {
        self.open.swap(NO_BUFFER, Ordering::Relaxed)
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Life").field("track", self.track()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process() -> Arc<Life> {
        Arc::new(Life::process())
    }

    #[test]
    fn a_child_keeps_those_above_it_as_far_as_its_track_lies_within_theirs() {
        let mut lives = Vec::<Arc<Life>>::new();
        for number in 0..1000 {
            let parent = lives.last().cloned().unwrap_or_else(process);
            let life = Life::within(parent, "life", number).begun(1 << 16);
            lives.push(life.expect("a buffer"));
        }
        let deepest = usize::from(DEEPEST);
        for (at, life) in lives.iter().enumerate() {
            assert_eq!(usize::from(life.depth), (at + 1).min(deepest + 1));
            let parent = life.nested.borrow_owner().as_ref().map(|parent| parent.track().uuid());
            let above = at.min(deepest).checked_sub(1).map_or_else(process, |above| lives[above].clone());
            assert_eq!(parent, Some(above.track().uuid()), "{at}");
        }
        let weak: Vec<_> = lives.iter().map(Arc::downgrade).collect();
        let last = lives.pop();
        drop(lives);
        let kept = weak.iter().filter(|life| life.strong_count() > 0).count();
        assert_eq!(kept, deepest + 1, "the last one, and those above it");
        drop(last);
        assert!(weak.iter().all(|life| life.strong_count() == 0));
    }

    #[test]
    fn what_has_begun_nowhere_is_nobody_s_parent_and_what_has_ends_once() {
        assert!(Life::within(process(), "life", 1).begun(NO_BUFFER).is_none());
        let life = Life::within(process(), "life", 1).begun(3 << 16 | 1).expect("a buffer");
        assert!(life.is_in(3 << 16) && !life.is_in(4 << 16) && !life.is_in(NO_BUFFER));
        assert_eq!([life.take_open(), life.take_open()], [3 << 16 | 1, NO_BUFFER]);
    }
}
