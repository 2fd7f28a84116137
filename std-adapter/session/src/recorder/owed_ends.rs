//! Ends of slices that a thread has lost in one buffer, made up for in another: it has one track in all of them.
//!
//! While one of the thread's tracers in a session owes ends, the others there are put aside: a search by their
//! buffer does not find one, and makes it take over what is owed. So nothing need be asked where nothing is owed.

use std::rc::Rc;

use super::{Entry, Recording, TRACERS};
use crate::switch::{BufferId, is_one_session};

/// Set in the buffer's id of a tracer that is put aside; no session has such a number.
const ASIDE: BufferId = 1 << 63;

impl Entry {
    /// The buffer that its events go to, or would.
    fn own_buffer(&self) -> BufferId {
        self.buffer.get() & !ASIDE
    }
}

impl Recording {
    /// Puts the thread's other tracers of this session aside, if this one owes any ends.
    pub(super) fn owe(&self, ends: usize) {
        if ends == 0 {
            return;
        }
        // Without effect while a tracer is being made, which takes over what is owed, or at the thread's end.
        let _ = TRACERS.try_with(|tracers| {
            let tracers = tracers.try_borrow().ok()?;
            let own = tracers.iter().find(|entry| std::ptr::eq(&*entry.recording, self))?;
            put_others_aside(&tracers, own);
            Some(())
        });
    }
}

/// The tracer of a buffer that events go to. From now on it owes what the thread's others of that session owed, except
/// for one that is in use further out, and may be writing such an end just now.
pub(super) fn take_over(tracers: &[Entry], buffer: BufferId) -> Option<Rc<Recording>> {
    let entry = tracers.iter().find(|entry| entry.own_buffer() == buffer && entry.switch.is_on())?;
    let is_idle = |entry: &&Entry| Rc::strong_count(&entry.recording) == 1;
    let taken_from =
        |entry: &Entry| entry.recording.tracer.with_dependent(|_, tracer| tracer.replace_owed_ends(0));
    let owed = others(tracers, entry).filter(is_idle).map(taken_from).sum::<usize>();
    if owed > 0 {
        entry.recording.tracer.with_dependent(|_, tracer| {
            tracer.replace_owed_ends(tracer.owed_ends().saturating_add(owed));
        });
        put_others_aside(tracers, entry);
    }
    entry.buffer.set(buffer);
    Some(entry.recording.clone())
}

fn put_others_aside(tracers: &[Entry], of: &Entry) {
    others(tracers, of).for_each(|other| other.buffer.set(other.buffer.get() | ASIDE));
}

/// The thread's other tracers in the same session.
fn others<'e>(tracers: &'e [Entry], of: &'e Entry) -> impl Iterator<Item = &'e Entry> {
    let is_other =
        |entry: &&Entry| !std::ptr::eq(*entry, of) && is_one_session(entry.own_buffer(), of.own_buffer());
    tracers.iter().filter(is_other)
}
