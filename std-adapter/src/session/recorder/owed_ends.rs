//! Ends of slices that a thread has lost in one buffer, made up for in another: it has one track in all of them.
//!
//! While one of its tracers in a session owes ends, the others there are put aside: who looks for one does not find it
//! at its place, and has it take over what is owed. So nothing is asked for where nothing is owed.

use std::rc::Rc;

use super::{Entry, Recording, TRACERS};
use crate::session::switch::{Place, is_one_session};

/// In the place of what is put aside; sessions have no such numbers.
const ASIDE: Place = 1 << 63;

impl Entry {
    /// Where its events go, or would.
    fn own_place(&self) -> Place {
        self.place.get() & !ASIDE
    }
}

impl Recording {
    /// Puts the thread's other tracers of this session aside, if this one owes so many ends.
    pub(super) fn owe(&self, ends: usize) {
        if ends == 0 {
            return;
        }
        // In vain where one is being made, which takes over what is owed, or at the thread's end.
        let _ = TRACERS.try_with(|tracers| {
            let tracers = tracers.try_borrow().ok()?;
            let own = tracers.iter().find(|entry| std::ptr::eq(&*entry.recording, self))?;
            put_others_aside(&tracers, own);
            Some(())
        });
    }
}

/// The tracer of a place where events go, which owes from now on what the thread's others of that session have owed:
/// not what one owes that is in use further out, and may be writing such an end just now.
pub(super) fn take_over(tracers: &[Entry], place: Place) -> Option<Rc<Recording>> {
    let entry = tracers.iter().find(|entry| entry.own_place() == place && entry.switch.is_on())?;
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
    entry.place.set(place);
    Some(entry.recording.clone())
}

fn put_others_aside(tracers: &[Entry], of: &Entry) {
    others(tracers, of).for_each(|other| other.place.set(other.place.get() | ASIDE));
}

/// Those in the same session.
fn others<'e>(tracers: &'e [Entry], of: &'e Entry) -> impl Iterator<Item = &'e Entry> {
    let is_other =
        |entry: &&Entry| !std::ptr::eq(*entry, of) && is_one_session(entry.own_place(), of.own_place());
    tracers.iter().filter(is_other)
}
