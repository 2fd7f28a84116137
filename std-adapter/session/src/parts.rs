//! The parts of a session, for crates that bring in producers of other processes, have recorders behind a front end of
//! their own, or write what a session left. Programs that record need none of them.
//!
//! | for | parts |
//! |---|---|
//! | a producer in this process for a service elsewhere | [`ProducerCell`] over [`words`], with its [`Queue`]; [`RecorderContext`], from which [`Recorder::new`](crate::Recorder::new) makes recorders; [`RecordingGate`] |
//! | the service's end of a producer elsewhere | [`endpoint`] over [`shared_memory`]; [`ProcessTree`] for programs in containers; [`Refusals`] |
//! | a front end of recorders | [`BufferId`], [`NO_BUFFER`], [`is_one_session`]; [`without_waiting`], [`process_track`], [`interned`] |
//! | a trace from what was left | [`Piece`], [`BufferReport`], [`Totals`], [`whole_within`], [`PIECE`] |
//! | threads of one's own | [`join`], [`made_by`], [`Wait`], and how long to wait: [`PATIENCE`], [`MAX_SLEEP`], [`FOR_EVER`] |

pub use crate::export::{BufferReport, PIECE, Piece, whole_within};
pub use crate::interned::interned;
pub use crate::process_tree::{Presence, ProcessTree, TreeProcess, TreeThread};
pub use crate::producer_cell::{
    Endpoint, ProducerCell, RecorderContext, Words, endpoint, shared_memory, words,
};
pub use crate::queue::Queue;
pub use crate::recording_gate::{BufferId, NO_BUFFER, RecordingGate, is_one_session};
pub use crate::refusals::Refusals;
pub use crate::this_process::process_track;
pub use crate::totals::{Dropped, Totals};
pub use crate::waits::{FOR_EVER, MAX_SLEEP, PATIENCE, Wait, join, made_by, without_waiting};
