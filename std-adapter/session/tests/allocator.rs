//! Recording from within the program's allocator, which the recorder itself asks for memory.
#![allow(unsafe_code)] // as an allocator is

use tracebuf_testing::trace;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use trace::{Trace, scratch};
use tracebuf::producer::track_event::{Track, Unit};
use tracebuf_session::{Recorder, Session};

static HEAP: Track<'static> = Track::counter("heap", Unit::Bytes);
static RECORDER: OnceLock<Recorder> = OnceLock::new();

#[cfg(any(target_os = "linux", target_os = "android"))]
thread_local! {
    /// What this thread's next request for memory is recorded with.
    static NEXT: std::cell::Cell<Option<&'static Recorder>> = const { std::cell::Cell::new(None) };
}

/// Records, at each change, how many bytes are in use.
struct Counted(AtomicI64);

impl Counted {
    fn change(&self, by: i64) {
        let now = self.0.fetch_add(by, Ordering::Relaxed) + by;
        if let Some(recorder) = RECORDER.get() {
            recorder.count(&HEAP, now);
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if let Some(recorder) = NEXT.try_with(std::cell::Cell::take).ok().flatten() {
            recorder.count(&HEAP, now);
        }
    }
}

// SAFETY: it is the system's allocator; counting does nothing to the memory.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.change(layout.size() as i64);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.change(-(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted(AtomicI64::new(0));

#[test]
fn an_allocator_may_record_also_on_threads_that_have_not() {
    let session = Session::builder().ring(16 << 20).start().expect("a session");
    let (recorder, before) = (session.recorder(), session.recorder());
    // Some chunks that nobody has sent: when the drain thread sends them, it first asks for memory, for a list of them.
    (0..1000).for_each(|_| before.instant("before"));
    let _ = RECORDER.set(recorder);
    session.flush(Duration::from_secs(10)).expect("an answer");
    let threads = (0..8).map(|thread| {
        std::thread::spawn(move || {
            for size in 1..1000 {
                std::hint::black_box(vec![thread; size]);
            }
        })
    });
    threads.for_each(|thread| thread.join().expect("a thread"));
    let path = scratch("allocator.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    // Each of the vectors comes and goes.
    assert!(Trace::read(&path).events(4) >= 8 * 999 * 2);
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn an_allocator_may_begin_to_record_while_a_connection_is_flushed() {
    use std::sync::Arc;
    use tracebuf_ipc::{Connection, ProducerSocket};

    let path = std::env::temp_dir().join(format!("tracebuf-{}-allocator", std::process::id()));
    let session = Arc::new(Session::builder().ring(1 << 20).start().expect("a session"));
    let _socket = ProducerSocket::builder().bind(&session, &path).expect("a socket");
    for _ in 0..20 {
        let connection = Connection::builder().open(&path).expect("a service");
        let recorder: &Recorder = Box::leak(Box::new(connection.recorder()));
        let (tell, told) = std::sync::mpsc::channel();
        // In a thread of its own: otherwise it would wait for itself for ever.
        std::thread::spawn(move || {
            NEXT.set(Some(recorder));
            let flushed = connection.flush(Duration::from_secs(10));
            // What is asked for has room already: it is this that is recorded, if nothing was before.
            drop(std::hint::black_box(vec![0; 100]));
            let was_recorded = NEXT.take().is_none();
            let _ = tell.send((flushed.is_ok(), was_recorded));
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok((true, true)));
    }
}
