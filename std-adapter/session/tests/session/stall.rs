//! Threads that wait when shared memory is full: never for a thread that does not come.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracebuf::producer::Exhaustion;
use tracebuf_session::{Recorder, Session, SessionError};
use tracebuf_testing::transport::Does;

/// The time allowed for what takes some milliseconds, or for ever.
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
            // Like a panic, without its words.
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
        // A thread that gives up waiting does so after some 28 s.
        told.recv_timeout(Duration::from_secs(8)).expect("a thread that does not wait");
        let lost = session.summary().expect("an answer").buffers[0].trace_writer_packet_loss;
        assert!((1000..10_000).contains(&lost), "{lost}");
        session.stop().expect("a stop");
    }
}

/// Makes this many threads record one event into each buffer, and keep what they hold of shared memory until the sender
/// is dropped; reports each that has got that far.
fn idle(session: &Arc<Session>, sources: &'static [&str], threads: usize) -> (Sender<()>, Receiver<()>) {
    let (wait, waits) = channel::<()>();
    let (waits, (tell, told)) = (Arc::new(Mutex::new(waits)), channel());
    for _ in 0..threads {
        let (session, waits, tell) = (session.clone(), waits.clone(), tell.clone());
        let work = move || {
            session.recorder().instant("starts");
            let recorders = sources.iter().filter_map(|name| session.recorder_of(name));
            recorders.for_each(|recorder| recorder.instant("starts here too"));
            drop(session);
            let _ = tell.send(());
            let _ = waits.lock().unwrap_or_else(PoisonError::into_inner).recv();
        };
        std::thread::Builder::new().stack_size(256 << 10).spawn(work).expect("a thread");
    }
    (wait, told)
}

/// Makes this many threads begin a packet, and end it when the sender is dropped. Nobody takes their chunks back.
fn writing(session: &Arc<Session>, threads: usize) -> (Sender<()>, Receiver<()>) {
    let (wait, waits) = channel::<()>();
    let (waits, (tell, told)) = (Arc::new(Mutex::new(waits)), channel());
    for _ in 0..threads {
        let (session, waits, tell) = (session.clone(), waits.clone(), tell.clone());
        std::thread::spawn(move || {
            let mut writer = session.recorder().packet_writer().expect("a writer");
            drop(session);
            writer.packet(|packet| {
                packet.varint(8, 1);
                let _ = tell.send(());
                let _ = waits.lock().unwrap_or_else(PoisonError::into_inner).recv();
            });
        });
    }
    (wait, told)
}

#[test]
fn nobody_waits_for_threads_that_are_idle_and_nothing_is_lost() {
    // With this thread's own, as many as the memory has chunks for.
    let builder = Session::builder().ring(4 << 20).ring(4 << 20).ring(4 << 20);
    let builder = builder.data_source("a", 1).data_source("b", 2).exhaustion(Exhaustion::Stall);
    let session = Arc::new(builder.start().expect("a session"));
    let (wait, told) = idle(&session, &["a", "b"], 341);
    for _ in 0..341 {
        told.recv_timeout(PATIENCE).expect("a thread that does not wait");
    }
    // Each goes on over several chunks.
    let (recorder, text) = (session.recorder(), "long".repeat(2000));
    for _ in 0..10 {
        recorder.instant_with("long", |event| event.arg("text", &*text));
    }
    let buffers = session.summary().expect("an answer").buffers;
    assert_eq!(buffers.iter().map(|buffer| buffer.trace_writer_packet_loss).sum::<u64>(), 0);
    drop(wait);
}

#[test]
fn in_shared_memory_that_open_packets_hold_all_of_a_thread_waits_for_a_while_and_drops() {
    let session = Arc::new(small(Exhaustion::Stall));
    let (wait, told) = writing(&session, 2);
    (0..2).for_each(|_| told.recv_timeout(PATIENCE).expect("there are two chunks"));
    let (recorder, start) = (session.recorder(), Instant::now());
    (0..1000).for_each(|_| recorder.instant("in vain"));
    let took = start.elapsed();
    assert!(took > Duration::from_millis(900) && took < PATIENCE, "{took:?}");
    let lost = || session.summary().expect("an answer").buffers[0].trace_writer_packet_loss;
    assert_eq!(lost(), 1000);
    // Their chunks are free when they have ended.
    drop(wait);
    let start = Instant::now();
    loop {
        let before = lost();
        recorder.instant("not in vain");
        if lost() == before {
            break;
        }
        assert!(start.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = lost();
    (0..10_000).for_each(|_| recorder.instant("not in vain"));
    assert_eq!(lost(), before);
}

#[test]
fn threads_that_begin_keep_nobody_waiting_for_threads_that_end_no_packet() {
    let session = Arc::new(small(Exhaustion::Stall));
    let (wait, told) = writing(&session, 2);
    (0..2).for_each(|_| told.recv_timeout(PATIENCE).expect("there are two chunks"));
    // More threads come in a second than chunks are free, of which there are none.
    let (begin, begun) = (Arc::new(AtomicBool::new(true)), session.clone());
    let begins = begin.clone();
    let beginning = std::thread::spawn(move || {
        let mut threads = Vec::new();
        while begins.load(Ordering::Relaxed) {
            let recorder = begun.recorder();
            threads.push(std::thread::spawn(move || recorder.instant("in vain")));
            std::thread::sleep(Duration::from_millis(100));
        }
        threads
    });
    let (recorder, (tell, ended)) = (session.recorder(), channel());
    std::thread::spawn(move || {
        recorder.instant("in vain");
        let _ = tell.send(());
    });
    let ended = ended.recv_timeout(PATIENCE);
    begin.store(false, Ordering::Relaxed);
    let threads = beginning.join().expect("no panic");
    drop(wait);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    ended.expect("a thread that does not wait for ever");
}
