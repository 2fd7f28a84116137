//! `cargo bench -p tracebuf-tracing --bench spans`: what a span takes, begin and end, in each way there is: ours, with
//! `--features compare` others', and what they all build on. `-- --slack F` multiplies the limits by F.

use std::hint::black_box;
use std::process::ExitCode;

use tracebuf_session::{Recorder, Session};
use tracebuf_testing::budget::{Sheet, nanoseconds};
use tracebuf_tracing::{TraceLayer, TraceSubscriber};
use tracing::{Dispatch, Span};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;

/// A layer that does nothing.
struct Empty;

impl<S: tracing::Subscriber> Layer<S> for Empty {}

fn span() {
    let _span = tracing::info_span!("work").entered();
    black_box(());
}

fn with(subscriber: impl tracing::Subscriber + Send + Sync + 'static, work: fn()) -> f64 {
    tracing::subscriber::with_default(subscriber, || nanoseconds(work))
}

fn main() -> ExitCode {
    Sheet::run(&[("spans", spans)])
}

/// A session with the quick clock, and its recorder.
fn quick() -> (Session, Recorder) {
    let builder = Session::builder().ring(16 << 20).shared_memory(4 << 20).fast_clock();
    let session = builder.start().expect("a session");
    let recorder = session.recorder();
    (session, recorder)
}

fn spans(sheet: &mut Sheet) {
    let print = |name: &str, time: f64| println!("span, {name}: {time:.1} ns");
    let clock = Session::builder().fast_clock();
    let session = clock.start().expect("a session");
    let clocks = nanoseconds(|| {
        black_box((session.now(), session.now()));
    });
    print("two readings of the counter clock", clocks);

    let (_session, recorder) = quick();
    let own = with(TraceSubscriber::new(recorder), span);
    print("our subscriber", own);
    sheet.at_most("span-subscriber", own, 60.0, "ns");

    let empty = with(tracing_subscriber::registry().with(Empty), span);
    print("an empty layer", empty);
    let (_session, recorder) = quick();
    let layer = with(tracing_subscriber::registry().with(TraceLayer::new(recorder)), span);
    print("our layer", layer);
    sheet.at_most("span-layer", layer - empty - clocks, 60.0, "ns-above");

    let (session, recorder) = quick();
    session.stop().expect("a stop");
    print("our subscriber, session over", with(TraceSubscriber::new(recorder), span));
    let (_session, recorder) = quick();
    let filtered = TraceSubscriber::new(recorder).max_level(tracing::Level::INFO);
    print(
        "our subscriber, filtered out",
        with(filtered, || drop(black_box(tracing::debug_span!("x").entered()))),
    );
    let (_session, recorder) = quick();
    let fields = || drop(black_box(tracing::info_span!("work", size = 7, name = "x").entered()));
    print("our subscriber, two fields", with(TraceSubscriber::new(recorder), fields));
    let (_session, recorder) = quick();
    print("our subscriber, flows", with(TraceSubscriber::new(recorder).flows(true), span));

    let (_session, recorder) = quick();
    print("our subscriber, origins", with(TraceSubscriber::new(recorder).origins(true), span));
    lifetimes(&print);

    #[cfg(feature = "compare")]
    others();

    // Last, because it stays: for a whole program's subscriber, no handle is counted with each span.
    let (_session, recorder) = quick();
    tracing::subscriber::set_global_default(TraceSubscriber::new(recorder)).expect("the first");
    print("our subscriber, of the whole program", nanoseconds(span));
}

/// Also with a slice for its whole life: within no others, within some, and in many tasks with some each.
fn lifetimes(print: &dyn Fn(&str, f64)) {
    let in_turn = |dispatch: Dispatch, tasks: usize, around: usize| {
        tracing::dispatcher::with_default(&dispatch, || {
            let mut spans = Vec::new();
            let mut innermost = vec![Span::none(); tasks];
            for _ in 0..around {
                for span in &mut innermost {
                    let within = tracing::info_span!(parent: &*span, "around");
                    spans.push(std::mem::replace(span, within));
                }
            }
            let mut tasks = innermost.iter().cycle();
            nanoseconds(|| {
                let parent = tasks.next().expect("a task");
                drop(black_box(tracing::info_span!(parent: parent, "work").entered()));
            })
        })
    };
    for (what, flows, tasks, around) in [
        ("lifetimes", false, 1, 0),
        ("lifetimes and flows", true, 1, 0),
        ("lifetimes, within eight", false, 1, 8),
        ("lifetimes, within four, in 200 tasks in turn", false, 200, 4),
    ] {
        let (_session, recorder) = quick();
        let subscriber = TraceSubscriber::new(recorder).lifetimes(true).flows(flows);
        print(&format!("our subscriber, {what}"), in_turn(subscriber.into(), tasks, around));
        let (_session, recorder) = quick();
        let layer = TraceLayer::new(recorder).lifetimes(true).flows(flows);
        let subscriber = tracing_subscriber::registry().with(layer);
        print(&format!("our layer, {what}"), in_turn(subscriber.into(), tasks, around));
    }
}

/// What others take, on this machine, now.
#[cfg(feature = "compare")]
fn others() {
    use perfetto_recorder::scope;

    let recorded = std::thread::spawn(|| {
        perfetto_recorder::start().expect("a recording");
        nanoseconds(|| {
            scope!("work");
            black_box(());
        })
    });
    println!("span, perfetto-recorder, to be converted later: {:.1} ns", recorded.join().expect("a thread"));
    let layer = tracing_perfetto::PerfettoLayer::new(std::io::sink);
    println!(
        "span, tracing-perfetto, into nothing: {:.1} ns",
        with(tracing_subscriber::registry().with(layer), span)
    );
}
