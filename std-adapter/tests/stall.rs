//! Threads that wait when shared memory is full: never for a thread that does not come.

#[path = "support/transport.rs"]
mod transport;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use tracebuf::producer::Exhaustion;
use tracebuf_std::session::{Recorder, Session, SessionError};
use transport::Does;

/// For what takes some milliseconds, or for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// A session with two chunks of shared memory.
fn small(exhaustion: Exhaustion) -> Session {
    Session::builder().shared_memory(4096).exhaustion(exhaustion).start().expect("a session")
}

/// Tells, when it is dropped, whether the session still records.
struct Tells(Recorder, Sender<bool>);

impl Drop for Tells {
    fn drop(&mut self) {
        let _ = self.1.send(self.0.is_on());
    }
}

#[test]
fn nobody_waits_for_a_drain_thread_that_has_panicked() {
    let session = small(Exhaustion::Stall);
    let (end, ended) = channel();
    for _ in 0..2 {
        let (recorder, end) = (session.recorder(), end.clone());
        std::thread::spawn(move || {
            while recorder.is_on() {
                recorder.instant("waits");
            }
            end.send(())
        });
    }
    let (is_time, (tell, told)) = (Arc::new(AtomicBool::new(false)), channel());
    let (panics, held) = (is_time.clone(), Tells(session.recorder(), tell));
    let transport = Does::new(move |_| {
        let _held = &held;
        if panics.load(Ordering::Relaxed) {
            // As a panic, without its words.
            resume_unwind(Box::new("a transport's defect"));
        }
        true
    });
    session.attach(transport).expect("an answer");
    is_time.store(true, Ordering::Relaxed);
    session.waker().wake();
    // What a transport owns may wait for those who record.
    assert_eq!(told.recv_timeout(PATIENCE), Ok(false));
    for _ in 0..2 {
        ended.recv_timeout(PATIENCE).expect("a thread that does not wait");
    }
    assert!(matches!(session.summary(), Err(SessionError::Stopped)));
    assert!(matches!(session.stop(), Err(SessionError::Stopped)));
}

#[test]
fn the_drain_thread_drops_and_counts_what_it_records_itself_when_shared_memory_is_full() {
    for exhaustion in [Exhaustion::Stall, Exhaustion::StallThenDrop] {
        let session = small(exhaustion);
        let (recorder, (tell, told)) = (session.recorder(), channel());
        let mut is_done = false;
        let transport = Does::new(move |_| {
            if !std::mem::replace(&mut is_done, true) {
                (0..10_000).for_each(|_| recorder.instant("own"));
                let _ = tell.send(());
            }
            true
        });
        session.attach(transport).expect("an answer");
        session.waker().wake();
        // A thread that gives waiting up does so after some 28 s.
        told.recv_timeout(Duration::from_secs(8)).expect("a thread that does not wait");
        let lost = session.summary().expect("an answer").buffers[0].trace_writer_packet_loss;
        assert!((1000..10_000).contains(&lost), "{lost}");
        session.stop().expect("a stop");
    }
}
