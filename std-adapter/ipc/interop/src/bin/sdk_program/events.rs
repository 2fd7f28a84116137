//! Track events.

use std::ffi::CString;
use std::ops::Range;
use std::sync::mpsc;
use std::time::Duration;

use perfetto_sdk::track_event::{
    EventContext, TraceContext, TrackEvent, TrackEventCounter, TrackEventDebugArg, TrackEventFlow,
    TrackEventTrack, TrackEventType,
};
use perfetto_sdk::{
    trace_for_category, track_event, track_event_begin, track_event_categories, track_event_counter,
    track_event_end, track_event_instant,
};
use tracebuf_interop::{INNER_NAMES, double, flow, integer, text, text_len};

use crate::{PATIENCE, on_threads};

track_event_categories! {
    pub mod categories {
        ( "work", "Slices and counters", [] ),
        ( "net.send", "One of two with the same beginning", [] ),
        ( "net.receive", "The other", [] ),
        ( "noise", "Left out by its tag", [ "debug" ] ),
    }
}

use categories as perfetto_te_ns;

pub(crate) fn register() {
    TrackEvent::init();
    categories::register().expect("once");
}

pub(crate) fn is_enabled(category: &str) -> bool {
    categories::is_category_enabled(categories::category_index(category))
}

/// Records rounds on some threads, which then end, or on this one, which goes on, if `threads` is 0.
pub(crate) fn record(threads: u64, rounds: Range<u64>, pace: u64) {
    on_threads(threads, |thread, wait| Rounds::new(thread).record(rounds.clone(), pace, |_| wait()));
}

/// Goes on until the program is killed, and says which rounds the service has.
pub(crate) fn record_endlessly(threads: u64, pace: u64) {
    for thread in 0..threads {
        let said = move |number| {
            println!("flushed {thread} {number}");
            // No more than a ring holds while it is being read, which takes seconds on a slow machine.
            std::thread::sleep(Duration::from_millis(10));
        };
        std::thread::spawn(move || Rounds::new(thread).record(0..u64::MAX, pace, said));
    }
}

/// What a thread records its rounds with.
struct Rounds {
    thread: u64,
    names: Vec<CString>,
    items: TrackEventTrack,
    level: TrackEventTrack,
}

impl Rounds {
    fn new(thread: u64) -> Self {
        let process = TrackEventTrack::process_track_uuid();
        let name = |number: u64| CString::new(format!("inner {number}")).expect("no zero");
        Self {
            thread,
            names: (0..INNER_NAMES).map(name).collect(),
            items: TrackEventTrack::register_counter_track("items", process).expect("a track"),
            level: TrackEventTrack::register_counter_track("level", process).expect("a track"),
        }
    }

    fn record(&self, rounds: Range<u64>, pace: u64, in_service: impl Fn(u64)) {
        for number in rounds.clone() {
            self.round(number);
            if pace > 0 && ((number + 1) % pace == 0 || number + 1 == rounds.end) && flush() {
                in_service(number);
            }
        }
    }

    fn round(&self, number: u64) {
        let of = |event: &mut EventContext| {
            event.add_debug_arg("thread", TrackEventDebugArg::Uint64(self.thread));
            event.add_debug_arg("number", TrackEventDebugArg::Uint64(number));
        };
        let flow = TrackEventFlow::process_scoped_flow(flow(self.thread, number));
        track_event_begin!("work", "outer", of);
        let inner = self.names[(number % INNER_NAMES) as usize].as_ptr();
        track_event!("work", TrackEventType::SliceBegin(inner), |event: &mut EventContext| {
            event.set_flow(&flow);
            of(event);
        });
        track_event_instant!("net.send", "send", of);
        track_event_instant!("net.receive", "receive", |event: &mut EventContext| {
            event.set_named_track("remote", self.thread, TrackEventTrack::process_track_uuid());
            event.set_terminating_flow(&flow);
            of(event);
        });
        track_event_instant!("noise", "noise", of);
        if let Some(len) = text_len(number) {
            track_event_instant!("work", "long", |event: &mut EventContext| {
                of(event);
                event.add_debug_arg("text", TrackEventDebugArg::String(&text(number, len)));
            });
        }
        track_event_counter!("work", |event: &mut EventContext| {
            event.set_track(&self.items).set_counter(TrackEventCounter::Int64(integer(number)));
        });
        track_event_counter!("work", |event: &mut EventContext| {
            event.set_track(&self.level).set_counter(TrackEventCounter::Double(double(number)));
        });
        track_event_end!("work", |event: &mut EventContext| {
            of(event);
            event.add_debug_arg("inner", TrackEventDebugArg::Uint64(1));
        });
        track_event_end!("work", of);
    }
}

/// Waits until the service has everything that this thread has recorded; does not wait if no category is enabled.
fn flush() -> bool {
    let (done, is_done) = mpsc::channel();
    let mut flushes = false;
    let mut ask = |context: &mut TraceContext| {
        let done = done.clone();
        // One is enough: events of all categories come from one writer.
        if !std::mem::replace(&mut flushes, true) {
            context.flush(move || {
                // If it comes too late, nobody waits for it any more.
                let _ = done.send(());
            });
        }
    };
    trace_for_category!("work", &mut ask);
    trace_for_category!("net.send", &mut ask);
    trace_for_category!("net.receive", &mut ask);
    trace_for_category!("noise", &mut ask);
    if flushes {
        is_done.recv_timeout(PATIENCE).expect("the service has it");
    }
    flushes
}
