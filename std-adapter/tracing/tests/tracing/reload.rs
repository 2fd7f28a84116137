//! Layers that are taken away while threads are in spans, and come back.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use tracebuf::producer::Exhaustion;
use tracebuf_session::Session;
use tracebuf_tracing::TraceLayer;
use tracing::Dispatch;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, registry, reload};

use crate::trace::{Trace, scratch};
use crate::transport::Does;

type Handle = reload::Handle<Option<TraceLayer>, Registry>;

/// Hands `work` a function that takes the layer away and puts it back.
fn story(name: &str, work: impl Fn(&dyn Fn(bool))) -> String {
    let session = Session::builder().start().expect("a session");
    let layer = || TraceLayer::new(session.recorder());
    let (reloaded, handle): (_, Handle) = reload::Layer::new(Some(layer()));
    let reload = |is_there: bool| handle.reload(is_there.then(layer)).expect("a subscriber");
    tracing::subscriber::with_default(registry().with(reloaded), || work(&reload));
    drop(handle);
    let path = scratch(&format!("reload-{name}.pftrace"));
    session.stop().expect("a stop").write_to(&path).expect("a file");
    Trace::read(&path).story()
}

#[test]
fn a_layer_that_is_taken_away_ends_the_slices_of_its_thread() {
    let told = story("away", |reload| {
        let _outer = tracing::info_span!("outer").entered();
        let _inner = tracing::info_span!("inner").entered();
        reload(false);
    });
    assert_eq!(told, "+outer +inner - -");
}

#[test]
fn spans_that_are_left_while_there_is_no_layer_are_no_part_of_what_comes_when_there_is_one_again() {
    let told = story("back", |reload| {
        let outer = tracing::info_span!("outer").entered();
        let inner = tracing::info_span!("inner").entered();
        reload(false);
        drop(inner);
        tracing::info_span!("not recorded").in_scope(|| ());
        reload(true);
        drop(outer);
        tracing::info_span!("next").in_scope(|| ());
    });
    assert_eq!(told, "+outer +inner - - +next -");
}

#[test]
fn on_other_threads_they_end_before_the_next_span_begins_or_ends() {
    for ends in [false, true] {
        let told = story("other", |reload| {
            std::thread::scope(|scope| {
                let (tell, told) = std::sync::mpsc::channel();
                let (go, gone) = std::sync::mpsc::channel();
                let dispatch = tracing::dispatcher::get_default(Clone::clone);
                scope.spawn(move || {
                    let _guard = tracing::dispatcher::set_default(&dispatch);
                    let outer = tracing::info_span!("outer").entered();
                    let inner = tracing::info_span!("inner").entered();
                    let _ = tell.send(());
                    let _ = gone.recv();
                    drop(inner);
                    if ends {
                        drop(outer);
                        tracing::info_span!("next").in_scope(|| ());
                    } else {
                        tracing::info_span!("next").in_scope(|| ());
                        drop(outer);
                    }
                });
                told.recv().expect("it is in both");
                reload(false);
                reload(true);
                let _ = go.send(());
            });
        });
        assert_eq!(told, "+outer +inner - - +next -", "{ends}");
    }
}

#[test]
fn a_layer_that_is_replaced_by_another_goes_on_with_the_slices_of_the_first() {
    let told = story("replaced", |reload| {
        let outer = tracing::info_span!("outer").entered();
        tracing::info_span!("before").in_scope(|| reload(true));
        tracing::info_span!("behind").in_scope(|| ());
        drop(outer);
    });
    assert_eq!(told, "+outer +before - +behind - -");
}

/// Two layers, of two sessions: one is taken away while the thread is in spans of both.
#[test]
fn what_another_layer_has_entered_since_does_not_hide_what_is_left() {
    let (session, other) = [(); 2].map(|()| Session::builder().start().expect("a session")).into();
    let layer = || TraceLayer::new(session.recorder());
    let (reloaded, handle): (_, Handle) = reload::Layer::new(Some(layer()));
    let dispatch = Dispatch::new(registry().with(reloaded).with(TraceLayer::new(other.recorder())));
    tracing::dispatcher::with_default(&dispatch, || {
        let outer = tracing::info_span!("outer").entered();
        let around = tracing::info_span!("around").entered();
        std::thread::scope(|scope| {
            scope.spawn(|| handle.reload(None).expect("a subscriber"));
        });
        let within = tracing::info_span!("within").entered();
        handle.reload(Some(layer())).expect("a subscriber");
        tracing::info_span!("next").in_scope(|| ());
        drop((within, around, outer));
    });
    let told = |session: Session, name: &str| {
        let path = scratch(&format!("reload-hidden-{name}.pftrace"));
        session.stop().expect("a stop").write_to(&path).expect("a file");
        Trace::read(&path).story()
    };
    assert_eq!(told(other, "other"), "+outer +around +within +next - - - -");
    assert_eq!(told(session, "own"), "+outer +around - - +next -");
}

/// While its place is locked, dropping a layer waits for nobody who enters spans.
#[test]
fn a_layer_that_is_taken_away_does_not_wait_for_the_drain_thread() {
    let session = Session::builder().ring(64 << 20).shared_memory(8 << 10).exhaustion(Exhaustion::Stall);
    // If it waits, it waits for ever.
    let session = ManuallyDrop::new(session.start().expect("a session"));
    let (reloaded, handle): (_, Handle) = reload::Layer::new(Some(TraceLayer::new(session.recorder())));
    let dispatch = Dispatch::new(registry().with(reloaded));
    let (stand, go_on) = [(); 2].map(|()| Arc::<AtomicBool>::default()).into();
    let (stands, standing) = channel();
    let drain = {
        let (stand, go_on, dispatch) = (Arc::clone(&stand), Arc::clone(&go_on), dispatch.clone());
        Does::new(move |_| {
            if stand.swap(false, Ordering::Relaxed) {
                let _ = stands.send(());
                while !go_on.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                // The other is at it by now.
                std::thread::sleep(Duration::from_millis(300));
                tracing::dispatcher::with_default(&dispatch, || tracing::info_span!("drain").in_scope(|| ()));
            }
            true
        })
    };
    session.attach(drain).expect("it is there");
    let (tell, told) = channel();
    let thread = std::thread::spawn(move || {
        tracing::dispatcher::with_default(&dispatch, || {
            // Their ends fill more than a chunk. They have no parents: a registry closes children in nested calls, for
            // which a sanitizer needs more stack than there is.
            let spans: Vec<_> =
                (0..1000).map(|_| tracing::info_span!(parent: None, "span").entered()).collect();
            let _ = tell.send(());
            // The filler has filled it by then.
            std::thread::sleep(Duration::from_millis(500));
            go_on.store(true, Ordering::Relaxed);
            handle.reload(None).expect("a subscriber");
            let _ = tell.send(());
            drop(spans);
        });
    });
    told.recv().expect("it is in all of them");
    stand.store(true, Ordering::Relaxed);
    let recorder = session.recorder();
    std::thread::spawn(move || (0..10_000).for_each(|_| recorder.instant("filler")));
    standing.recv().expect("it stands");
    told.recv_timeout(Duration::from_secs(20)).expect("a thread that does not wait");
    // What was lost is made up for.
    thread.join().expect("a thread");
    let path = scratch("reload-stall.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    let trace = Trace::read(&path);
    assert_eq!((trace.events(1), trace.events(2)), (1000, 1000));
    drop(ManuallyDrop::into_inner(session));
}
