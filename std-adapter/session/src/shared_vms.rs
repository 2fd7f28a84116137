//! The machines of a buffer's data sources, shared with whoever reads what is kept beside it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tracebuf::vm::RingVms;

/// Locked only where it is shared: to write a state out changes marks in it. A clone is a copy, which takes no patches.
#[derive(Default)]
pub(crate) struct SharedVms(Mutex<RingVms>);

impl SharedVms {
    pub(crate) fn lock(&self) -> MutexGuard<'_, RingVms> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get_mut(&mut self) -> &mut RingVms {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clone for SharedVms {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.lock().copy()))
    }
}
