//! What the recorders of one session have in common.

use std::sync::Arc;

use tracebuf::producer::Exhaustion;

use super::producer_cell::ProducerCell;
use super::session_clock::SessionClock;
use super::switch::{BufferId, Switch};

/// What the recorders of one session share.
pub struct RecorderContext {
    pub switch: Arc<Switch>,
    pub producer: Arc<ProducerCell>,
    pub exhaustion: Exhaustion,
    pub clock: SessionClock,
    /// For each buffer, after how many bytes a writer repeats its state.
    pub state_every: Vec<u32>,
    /// Tells a service in another process of a new writer.
    pub announce: Option<Box<dyn Fn() + Send + Sync>>,
}

impl RecorderContext {
    /// The id of its buffer of this number.
    pub(super) fn buffer_id(&self, target: u16) -> BufferId {
        self.switch.own() | u64::from(target)
    }

    pub(super) fn announce(&self) {
        if let Some(announce) = &self.announce {
            announce();
        }
    }
}
