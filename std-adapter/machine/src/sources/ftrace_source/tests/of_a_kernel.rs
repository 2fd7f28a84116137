//! Tests with the events of this kernel. As root: `mount -t tracefs nodev /sys/kernel/tracing`, then
//! `cargo test -p tracebuf-machine --lib of_a_kernel -- --ignored --test-threads 1`.

use std::time::Instant;

use super::super::*;
use crate::linux::tests::machine::Recording;
use crate::sources::SourceThread;
use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::{
    compact_sched, ftrace_event_bundle, ftrace_phase, ftrace_stats, process_tree, process_tree_thread,
    trace_packet,
};
use tracebuf::proto::reader::{Fields, message, messages, number};

fn packets(trace: &[u8]) -> Vec<&[u8]> {
    TracePackets::new(trace).map(|packet| packet.expect("a packet")).collect()
}

#[test]
#[ignore = "needs root and a tracefs"]
fn what_runs_is_in_the_trace_with_names_and_without_what_the_source_does_itself() {
    let recording = Recording::new();
    let named = ThreadNumbers::default();
    let options = FtraceOptions::new([
        "sched/sched_switch",
        "sched/sched_waking",
        "task/*",
        "raw_syscalls/*",
        "no/such",
    ]);
    let source = FtraceSource::new(options.tell_threads(&named).buffer_kib(32 << 10)).expect("a tracefs");
    let (status, folder) = (source.status(), source.instance.as_ref().expect("it").pipes().len());
    assert_eq!(folder, 0, "nothing is read yet");
    assert!(source.has_events());
    let (recorder, side) = (recording.recorder(), recording.session().side_packets());
    let tree = crate::sources::ProcessTreeSource::new(named);
    let sources = SourceThread::start("sources", &recorder, &side, vec![Box::new(source), Box::new(tree)]);
    let sources = sources.expect("a thread");
    assert!(sources.failed().is_empty(), "{:?}", sources.failed());
    let thread = std::thread::Builder::new().name("sleeps-often".into()).spawn(|| {
        let until = Instant::now() + Duration::from_millis(400);
        while Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        thread_id()
    });
    let tid = thread.expect("a thread").join().expect("its end");
    sources.flush(Duration::from_secs(5)).expect("a flush");
    sources.stop().expect("a stop");
    let status = status.lock().expect("it").clone();
    assert!(status.events > 1000 && status.lost.is_empty() && status.faults == 0, "{status:?}");
    assert_eq!((status.unknown, status.failed), (vec!["no/such".to_owned()], vec![]));
    assert!(status.buffer_kib >= 32 << 10);
    let trace = recording.trace();
    let packets = packets(&trace);
    let bundles: Vec<_> =
        packets.iter().filter_map(|packet| message(packet, trace_packet::FTRACE_EVENTS)).collect();
    let events = || bundles.iter().flat_map(|bundle| messages(bundle, ftrace_event_bundle::EVENT));
    // Each processor's first switch is in full, the others are in lists.
    let cpus =
        bundles.iter().filter_map(|bundle| number(bundle, ftrace_event_bundle::CPU)).max().expect("one") + 1;
    let of_kind =
        |kind: u32| events().filter(move |event| Fields::of(event).any(|field| field.number == kind));
    let switches = of_kind(4).count() as u64;
    assert!((1..=cpus).contains(&switches), "{switches} of {cpus}");
    let names: Vec<_> = bundles
        .iter()
        .filter_map(|bundle| message(bundle, ftrace_event_bundle::COMPACT_SCHED))
        .flat_map(|lists| messages(lists, compact_sched::INTERN_TABLE))
        .collect();
    assert!(names.contains(&&b"sleeps-often"[..]));
    // Calls of that thread, and none of the source's: its reads would be more than all others.
    let callers: Vec<u64> = of_kind(329).filter_map(|event| number(event, 2)).collect();
    assert!(callers.contains(&tid.into()));
    let trees: Vec<_> =
        packets.iter().filter_map(|packet| message(packet, trace_packet::PROCESS_TREE)).collect();
    let threads: Vec<_> = trees.iter().flat_map(|tree| messages(tree, process_tree::THREADS)).collect();
    let sources =
        threads.iter().filter(|thread| message(thread, process_tree_thread::NAME) == Some(b"sources"));
    let reader =
        sources.filter_map(|thread| number(thread, process_tree_thread::TID)).next().expect("it was met");
    assert!(!callers.contains(&reader), "{callers:?}");
    let phases = packets.iter().filter_map(|packet| message(packet, trace_packet::FTRACE_STATS));
    let phases: Vec<_> = phases.filter_map(|stats| number(stats, ftrace_stats::PHASE)).collect();
    let (start, end) = (ftrace_phase::START_OF_TRACE, ftrace_phase::END_OF_TRACE);
    assert_eq!(phases, [start, start, end, start, end]);
}

#[test]
#[ignore = "needs root and a tracefs"]
fn what_a_small_buffer_loses_is_told_of_each_processor() {
    let recording = Recording::new();
    // Nobody reads meanwhile: not even when it is half full.
    let options = FtraceOptions::new(["raw_syscalls/*"]).buffer_kib(16).period(Duration::from_secs(60));
    let mut source = FtraceSource::new(options).expect("a tracefs");
    let (status, mut out) = (source.status(), recording.output());
    source.start(&mut out).expect("a start");
    let work = std::thread::spawn(|| (0..20_000).for_each(|_| drop(std::fs::metadata("/"))));
    work.join().expect("its end");
    source.stop(&mut out);
    let status = status.lock().expect("it").clone();
    assert!(status.lost.iter().map(crate::ftrace::CpuStats::lost).sum::<u64>() > 10_000, "{status:?}");
    drop(out);
    let trace = recording.trace();
    let packets = packets(&trace);
    let mut bundles = packets.iter().filter_map(|packet| message(packet, trace_packet::FTRACE_EVENTS));
    assert!(bundles.any(|bundle| number(bundle, ftrace_event_bundle::LOST_EVENTS) == Some(1)));
}

#[test]
#[ignore = "needs root and a tracefs"]
fn a_source_that_is_dropped_or_panics_leaves_nothing_behind() {
    let top = Instance::find().expect("a tracefs");
    let count = || std::fs::read_dir(top.join("instances")).expect("a folder").count();
    let before = count();
    drop(FtraceSource::new(FtraceOptions::new(["sched/*"])).expect("a tracefs"));
    assert_eq!(count(), before);
    let panics = || {
        let recording = Recording::new();
        let mut source = FtraceSource::new(FtraceOptions::new(["sched/*"])).expect("a tracefs");
        source.start(&mut recording.output()).expect("a start");
        assert_eq!(count(), before + 1);
        std::panic::resume_unwind(Box::new("in the midst of it"));
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).expect_err("a panic");
    assert_eq!(count(), before);
}

#[test]
#[ignore = "needs root and a tracefs"]
fn only_the_threads_that_are_chosen_are_recorded_and_what_the_kernel_refuses_is_named() {
    let recording = Recording::new();
    let busy = || (0..2000).for_each(|_| drop(std::fs::metadata("/")));
    let (ready, chosen) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        ready.send(thread_id()).expect("it is heard");
        gone.recv().expect("a word");
        busy();
    });
    let tid = chosen.recv().expect("a number");
    let options =
        FtraceOptions::new(["raw_syscalls/*"]).tell("linux.ftrace does without kprobe_events".into());
    let only = options.clone().set("set_event_pid".into(), tid.to_string());
    let mut source = FtraceSource::new(only).expect("a tracefs");
    let mut out = recording.output();
    source.start(&mut out).expect("a start");
    go.send(()).expect("it is there");
    busy();
    thread.join().expect("its end");
    std::thread::spawn(busy).join().expect("its end");
    source.stop(&mut out);
    let refused = options.set("tracing_cpumask".into(), "no mask".into());
    let error = FtraceSource::new(refused).expect("a tracefs").start(&mut out).expect_err("no mask");
    assert!(error.to_string().starts_with("tracing_cpumask: "), "{error}");
    drop(out);
    let trace = recording.trace();
    let packets = packets(&trace);
    let bundles = packets.iter().filter_map(|packet| message(packet, trace_packet::FTRACE_EVENTS));
    let events = bundles.flat_map(|bundle| messages(bundle, ftrace_event_bundle::EVENT));
    let callers: Vec<u64> = events.filter_map(|event| number(event, 2)).collect();
    assert!(callers.len() > 4000 && callers.iter().all(|caller| *caller == tid.into()), "{}", callers.len());
    let told = packets.iter().filter_map(|packet| message(packet, trace_packet::FTRACE_STATS));
    let told: Vec<_> =
        told.filter(|told| !told.is_empty()).map(|told| message(told, ftrace_stats::ATRACE_ERRORS)).collect();
    assert_eq!(told[0], Some(&b"linux.ftrace does without kprobe_events"[..]));
}
