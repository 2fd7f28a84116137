//! What only the recorder's own parts can show.

use std::sync::Arc;

use super::{FlightRecorder, FlightStatus};
use crate::fork::tests::in_child;
use crate::session::{Session, SessionError};

#[test]
fn a_child_does_not_wait_for_the_thread_that_had_the_recorder_s_lock() {
    let session = Arc::new(Session::builder().start().expect("a session"));
    let mut recorder = FlightRecorder::new(&session, std::env::temp_dir()).ok();
    let inner = recorder.as_ref().expect("a recorder").inner.clone();
    let held = inner.state();
    assert!(in_child(|| {
        let recorder = recorder.take().expect("the parent's").keep(1);
        // What the hook for panics does.
        recorder.inner.report("panic", None);
        matches!(recorder.snapshot("child"), Err(SessionError::Forked))
            && recorder.on_signals(&[libc::SIGUSR2]).is_err()
            && recorder.status() == FlightStatus::default()
    }));
    drop(held);
    assert_eq!(inner.state().status, FlightStatus::default());
}
