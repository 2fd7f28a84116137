//! Spans from within the program's allocator, which the subscriber itself asks for memory.
#![allow(unsafe_code)] // as an allocator is

use tracebuf_testing::trace;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::time::Duration;

use trace::{Trace, scratch};
use tracebuf_session::Session;
use tracebuf_tracing::TraceSubscriber;
use tracing::Span;
use tracing::field::Empty;

thread_local! {
    /// Whether this thread's requests for memory are traced. They are not within the tracing itself.
    static IS_TRACED: Cell<bool> = const { Cell::new(false) };
}

/// One in each of the places where the subscriber keeps spans.
static SPANS: OnceLock<Vec<Span>> = OnceLock::new();

/// Enters spans.
fn trace() {
    if !IS_TRACED.try_with(|is_traced| is_traced.replace(false)).unwrap_or(false) {
        return;
    }
    for span in SPANS.get().into_iter().flatten() {
        span.in_scope(|| drop(Span::current()));
        span.record("late", 1);
        span.follows_from(Span::current());
    }
    tracing::info_span!("request").in_scope(|| tracing::info_span!("bytes", field = 1).in_scope(|| ()));
    IS_TRACED.set(true);
}

struct Traced;

// SAFETY: it is the system's allocator; tracing does nothing to the memory.
unsafe impl GlobalAlloc for Traced {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        trace();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        trace();
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Traced = Traced;

fn work() {
    let span = |text: &str| tracing::info_span!("work", text, late = Empty);
    let within = |spans: &[Span], next: &dyn Fn()| {
        let entered: Vec<_> = spans.iter().map(Span::enter).collect();
        next();
        // The one that was entered first goes first.
        drop(black_box(entered));
    };
    let spans: Vec<_> = (0..100).map(|number| span(&"x".repeat(number))).collect();
    within(&spans, &|| {
        for (span, follower) in SPANS.get().into_iter().flatten().zip(&spans) {
            span.record("late", "recorded");
            follower.record("late", 2);
            span.follows_from(follower);
            follower.follows_from(span);
        }
        tracing::info!(field = "value", "event");
    });
    spans.iter().rev().for_each(|span| span.in_scope(|| ()));
}

#[test]
fn an_allocator_may_enter_spans() {
    let session = Session::builder().ring(64 << 20).shared_memory(16 << 20).start().expect("a session");
    let subscriber = TraceSubscriber::new(session.recorder()).flows(true).lifetimes(true).logs(true);
    // For all threads: `tracing` discards what comes from within a thread's own subscriber.
    tracing::subscriber::set_global_default(subscriber).expect("the only one");
    let _ = SPANS.set((0..16).map(|number| tracing::info_span!("kept", number, late = Empty)).collect());
    // In another thread: when something is used for the first time, `tracing` takes locks of its own.
    IS_TRACED.set(true);
    trace();
    IS_TRACED.set(false);
    work();
    let (tell, told) = channel();
    let thread = std::thread::spawn(move || {
        for _ in 0..2 {
            IS_TRACED.set(true);
            work();
            IS_TRACED.set(false);
        }
        let _ = tell.send(());
    });
    told.recv_timeout(Duration::from_secs(60)).expect("a thread that waits for nobody, and does not panic");
    thread.join().expect("a thread");
    let path = scratch("allocator.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    let trace = Trace::read(&path);
    let open = SPANS.get().map_or(0, Vec::len);
    assert_eq!(
        trace.events(1),
        trace.events(2) + open,
        "as many ends as begins, but of the lives that go on"
    );
    let story = trace.story();
    let slices = |name: &str| story.split(' ').filter(|event| *event == name).count();
    assert_eq!(story.split(' ').filter(|event| *event == "!event").count(), 3);
    assert!(
        slices("+work") >= 3 * 200 && slices("+kept") > 1000 && slices("+bytes") > 100,
        "{}",
        story.len()
    );
}
