//! Where a relay's recorders record.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::recorder_context::RecorderContext;
use super::switch::{BufferId, Connected, NO_BUFFER, Switch};

/// What the recorders of one relay share.
pub(crate) struct Route {
    /// What every event looks at. Changed under the lock of `to`, to where that leads.
    switch: Arc<Switch>,
    to: Mutex<Option<(Arc<RecorderContext>, u16)>>,
}

impl Route {
    /// A route that leads nowhere.
    pub(super) fn new() -> Self {
        Self { switch: Arc::new(Switch::of_relay()), to: Mutex::new(None) }
    }

    pub(super) fn switch(&self) -> &Arc<Switch> {
        &self.switch
    }

    /// Where its recorders record now: a session, and a buffer of it.
    pub(super) fn destination(&self) -> Option<(Arc<RecorderContext>, u16)> {
        // In a child, a thread that does not exist there may hold the lock.
        if self.switch.is_on() { self.to().clone() } else { None }
    }

    /// Leads to a buffer of a session from now on. False if that session does not record.
    pub(super) fn lead(self: &Arc<Self>, context: Arc<RecorderContext>, target: u16) -> bool {
        let switch = context.switch.clone();
        if !switch.is_on() {
            return false;
        }
        let route: Weak<Self> = Arc::downgrade(self);
        switch.tell(route);
        self.change(self.to(), Some((context, target)));
        let is_on = switch.is_on();
        if !is_on {
            // The session has ended meanwhile, and perhaps said so before this led there.
            self.leave(switch.own());
        }
        is_on
    }

    pub(super) fn lead_nowhere(&self) {
        self.change(self.to(), None);
    }

    fn change(&self, mut from: Destination<'_>, to: Option<(Arc<RecorderContext>, u16)>) {
        let buffer = to.as_ref().map_or(NO_BUFFER, |(context, target)| context.buffer_id(*target));
        self.switch.set(buffer);
        let before = std::mem::replace(&mut *from, to);
        drop(from);
        // Not under the lock: this frees memory, which an allocator may record.
        drop(before);
    }

    fn to(&self) -> Destination<'_> {
        self.to.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Destination<'a> = MutexGuard<'a, Option<(Arc<RecorderContext>, u16)>>;

impl Connected for Route {
    fn leave(&self, session: BufferId) {
        let to = self.to();
        if to.as_ref().is_some_and(|(context, _)| context.switch.own() == session) {
            self.change(to, None);
        }
    }
}
