//! Recording in signal handlers, whatever they interrupt: threads that record, wait, ask for memory, begin or end.
#![cfg(unix)]
#![allow(unsafe_code)] // as installing a handler is

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracebuf::producer::Exhaustion;
use tracebuf_session::{Recorder, Session};
use tracebuf_testing::trace::{Trace, scratch};

static RECORDERS: OnceLock<Relays> = OnceLock::new();
static CALLS: AtomicU64 = AtomicU64::new(0);

struct Relays {
    relay: tracebuf_session::Relay,
    recorder: Recorder,
}

extern "C" fn handler(_: i32) {
    if let Some(relays) = RECORDERS.get()
        && relays.recorder.is_on()
    {
        CALLS.fetch_add(1, Ordering::Relaxed);
        relays.recorder.instant("from a handler");
    }
}

fn set_timer(micros: libc::suseconds_t) {
    let interval = libc::timeval { tv_sec: 0, tv_usec: micros };
    let timer = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: the timer is a valid one, and nothing is to be returned.
    assert_eq!(unsafe { libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut()) }, 0);
}

/// A handler that never comes back would have this test wait for ever.
fn end_at(deadline: Duration) {
    thread::spawn(move || {
        thread::sleep(deadline);
        eprintln!("something waits for ever");
        std::process::abort();
    });
}

#[test]
fn what_handlers_record_is_in_the_trace_or_counted_and_nothing_waits_or_ends_the_process() {
    end_at(Duration::from_secs(120));
    let relays = RECORDERS.get_or_init(|| {
        let relay = tracebuf_session::Relay::new();
        Relays { recorder: relay.recorder(), relay }
    });
    // SAFETY: the handler records only, which is what this is about.
    unsafe { libc::signal(libc::SIGALRM, handler as extern "C" fn(i32) as usize) };
    for (exhaustion, bytes) in
        [(Exhaustion::Drop, 1 << 20), (Exhaustion::Stall, 2 << 20), (Exhaustion::Stall, 4096)]
    {
        CALLS.store(0, Ordering::Relaxed);
        let session = Session::builder().ring(64 << 20).shared_memory(bytes).exhaustion(exhaustion);
        let session = session.start().expect("a session");
        relays.relay.connect(&session.recorder()).expect("it records");
        set_timer(150);
        let (begun, recorder, mut own) = (Instant::now(), &relays.recorder, 0_u64);
        while begun.elapsed() < Duration::from_millis(1500) {
            for _ in 0..50 {
                let _slice = recorder.enter("slice");
                recorder.instant_with("own", |event| event.arg("number", own));
                own += 1;
                drop(std::hint::black_box(vec![own; 100]));
            }
            drop(recorder.packet_writer());
            let thread = thread::spawn(|| RECORDERS.get().expect("set").recorder.instant("own"));
            thread.join().expect("no panic");
            own += 1;
        }
        set_timer(0);
        // One may be under way in another thread.
        thread::sleep(Duration::from_millis(50));
        let mut stopped = session.stop().expect("a stop");
        let lost = stopped.summary().buffers[0].trace_writer_packet_loss;
        let path = scratch("signal_handlers.pftrace");
        stopped.write_to(&path).expect("a file");
        let (there, calls) = (Trace::read(&path).events(3) as u64, CALLS.load(Ordering::Relaxed));
        println!(
            "{exhaustion:?}, {bytes}: {own} events of its own, {calls} of handlers, {there} there, {lost} lost"
        );
        assert!(calls > 500, "{calls}");
        assert!(there + lost >= own + calls, "{there} there and {lost} lost of {own} and {calls}");
        assert!(there <= own + calls, "{there} there of {own} and {calls}");
        assert!(there > own, "most handlers interrupt nothing that they need");
        if bytes > 4096 {
            assert!(lost <= calls, "{lost} lost, {calls} of handlers");
        }
    }
}
