//! Traces read: one that a session records, and others made packet by packet.

use std::io::Write;

use tracebuf::proto::fields::*;
use tracebuf_session::{LogMessage, LogPriority, Session, Unit};
use tracebuf_testing::mix::mix;

use super::*;
use packets::*;

mod packets;

const BEGIN: u64 = track_event_type::SLICE_BEGIN;
const END: u64 = track_event_type::SLICE_END;
const INSTANT: u64 = track_event_type::INSTANT;

fn faults(trace: &Trace) -> Vec<FaultKind> {
    trace.faults().iter().map(|fault| fault.kind).collect()
}

#[test]
fn what_a_session_records_is_told_with_names_times_tracks_and_arguments() {
    let session = Session::builder().start().expect("a session");
    let recorder = session.recorder();
    let (process, queue) =
        (tracebuf_session::this_process(), tracebuf_session::Track::counter("queue", Unit::Bytes));
    let requests = tracebuf_session::Track::custom("requests").within(&process).numbered(17);
    let worker = std::thread::Builder::new().name("worker".into());
    std::thread::scope(|scope| {
        let work = || {
            let _outer =
                recorder.enter_with("outer", |event| event.category("net").arg("peer", "10.0.0.1").flow(5));
            drop(recorder.enter("inner"));
            recorder.instant_with("mark", |event| event.arg("number", -3).arg("share", 0.5).arg("is", true));
            recorder.log("disk", LogMessage::new(LogPriority::Warn, "slow").source_location("disk.rs", 7));
            recorder.count(&queue, 3);
            recorder.measure(&queue, 4.5);
            recorder.on(&requests).begin("request");
        };
        worker.spawn_scoped(scope, work).expect("a thread").join().expect("no panic");
    });
    recorder.instant_with("there", |event| event.end_flow(5));
    let mut bytes = Vec::new();
    session.snapshot().expect("a snapshot").write(&mut bytes).expect("memory");
    let trace = Trace::of(&bytes).expect("a trace");

    assert_eq!((trace.faults(), trace.losses().has_losses()), (&[][..], false));
    let names: Vec<_> = trace.slices().map(|slice| slice.name()).collect();
    assert_eq!(names, ["outer", "inner", "request"]);
    let [outer, inner, request] =
        ["outer", "inner", "request"].map(|name| trace.slice(name).expect("a slice"));
    assert_eq!((outer.category(), outer.depth(), outer.parent()), ("net", 0, None));
    assert_eq!(outer.argument("peer").and_then(Value::as_str), Some("10.0.0.1"));
    assert_eq!((inner.parent(), inner.depth()), (Some(outer), 1));
    assert!(outer.begin() <= inner.begin() && inner.end() <= outer.end());
    assert_eq!((request.duration(), request.track().name()), (None, "requests"));
    let pid = i64::from(std::process::id());
    assert_eq!((request.track().pid(), request.track().tid()), (Some(pid), None));
    assert_eq!((outer.track().thread_name(), outer.track().pid()), (Some("worker"), Some(pid)));
    let mark = trace.instants().find(|instant| instant.name() == "mark").expect("an instant");
    let arguments: Vec<_> = mark.arguments().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!((arguments.join(" "), mark.parent()), ("number=-3 share=0.5 is=true".into(), Some(outer)));
    assert_eq!(outer.children().count(), 3);

    let queue = trace.counter("queue").expect("a counter");
    assert_eq!((queue.unit(), queue.values().collect::<Vec<_>>()), ("bytes", vec![3.0, 4.5]));
    let line = trace.logs().next().expect("a line");
    assert_eq!((line.text(), line.priority(), line.track()), ("slow", 5, outer.track()));
    assert_eq!(line.source().map(|source| (&*source.file, source.line)), Some(("disk.rs", 7)));
    let flow = trace.flows().next().expect("an arrow");
    assert_eq!((flow.id(), flow.from(), flow.to().name()), (5, outer, "there"));
    let day = trace.time_of_day(outer.begin()).expect("clocks");
    assert!(day.elapsed().expect("not in the future") < Duration::from_secs(60));
}

#[test]
fn times_that_count_from_the_one_before_begin_anew_with_each_state_and_are_each_sequences_own() {
    let state = |sequence, time| snapshot(sequence, &[(6, time, None), (64, 0, Some(1000))]);
    let bytes = [
        state(2, 1_000_000),
        event(2, 5, INSTANT, named("a")),
        state(3, 2_000_000),
        event(3, 1, INSTANT, named("b")),
        event(2, 2, INSTANT, named("c")),
        // Times also count if nothing is read of their packets, and if it is another clock's.
        packet(2, |content| put(content, trace_packet::TIMESTAMP, 10u64)),
        packet(2, |content| {
            put(content, trace_packet::TIMESTAMP, 4_000_000u64);
            put(content, trace_packet::TIMESTAMP_CLOCK_ID, 6u64);
            put_bytes(
                content,
                trace_packet::TRACK_EVENT,
                &message(|event| put(event, track_event::TYPE, INSTANT)),
            );
        }),
        event(2, 1, INSTANT, named("d")),
        state(2, 3_000_000),
        event(2, 1, INSTANT, named("e")),
    ];
    let trace = Trace::of(&bytes.concat()).expect("a trace");
    let times: Vec<_> = trace.instants().map(|event| (event.name(), event.begin())).collect();
    let expected = [("a", 1_005_000), ("c", 1_007_000), ("d", 1_018_000), ("b", 2_001_000), ("e", 3_001_000)];
    assert_eq!(times, [&expected[..], &[("", 4_000_000)]].concat());
    assert_eq!(faults(&trace), []);
}

#[test]
fn of_several_clock_snapshots_the_last_before_a_time_counts_and_nothing_counts_back_from_the_first() {
    let clocks = |boot, real, mono| snapshot(1, &[(6, boot, None), (1, real, None), (3, mono, None)]);
    let bytes = [
        packet(2, |content| {
            put(content, trace_packet::TIMESTAMP, 50u64);
            put(content, trace_packet::TIMESTAMP_CLOCK_ID, 3u64);
            put_bytes(
                content,
                trace_packet::TRACK_EVENT,
                &message(|event| put(event, track_event::TYPE, INSTANT)),
            );
        }),
        clocks(100, 1_000, 90),
        clocks(200, 5_000, 150),
    ];
    let trace = Trace::of(&bytes.concat()).expect("a trace");
    assert_eq!(
        trace.instants().map(|event| event.begin()).collect::<Vec<_>>(),
        [60],
        "it waits for its clock"
    );
    let day =
        |time| trace.time_of_day(time).unwrap().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    assert_eq!([50, 100, 199, 200, 210].map(day), [1_000, 1_000, 1_099, 5_000, 5_010]);
    // The monotonic clock stood still between the two.
    assert_eq!([50, 120, 199, 210].map(|time| trace.monotonic(time)), [90, 110, 150, 160].map(Some));
    // A clock of a sequence's own that nobody relates to another, and the trace's clock going back.
    let bytes = [bytes.concat(), event(3, 1, INSTANT, named("lost")), clocks(150, 9_000, 300)].concat();
    let trace = Trace::of(&bytes).expect("a trace");
    assert_eq!(faults(&trace), [FaultKind::InvalidClocks], "and what needs a state has none");
    assert_eq!(
        (trace.time_of_day(210), trace.losses().sequences[&3].unreadable),
        (Trace::of(&bytes).unwrap().time_of_day(210), 1)
    );
}

#[test]
fn after_a_loss_nothing_is_read_until_a_state_begins_and_names_are_not_taken_from_before() {
    let names = |sequence, text: &'static str, flags: u64| {
        packet(sequence, move |content| {
            put(content, trace_packet::SEQUENCE_FLAGS, flags);
            let entry = message(|entry| {
                put(entry, interned_string::IID, 1u64);
                put_bytes(entry, interned_string::NAME, text.as_bytes());
            });
            let data = message(|data| put_bytes(data, interned_data::EVENT_NAMES, &entry));
            put_bytes(content, trace_packet::INTERNED_DATA, &data);
        })
    };
    let by_number = |event: &mut Vec<u8>| put(event, track_event::NAME_IID, 1u64);
    let state = |time| snapshot(2, &[(6, time, None), (64, time, Some(1))]);
    let lost = packet(2, |content| put(content, trace_packet::PREVIOUS_PACKET_DROPPED, 1u64));
    let bytes = [
        event(2, 1, INSTANT, by_number),
        state(100),
        event(2, 1, INSTANT, by_number),
        names(2, "one", 2),
        names(2, "not this", 2),
        event(2, 1, INSTANT, by_number),
        lost,
        event(2, 1, INSTANT, by_number),
        names(2, "nor this", 2),
        state(200),
        names(2, "two", 2),
        event(2, 1, INSTANT, by_number),
    ];
    let trace = Trace::of(&bytes.concat()).expect("a trace");
    let times: Vec<_> = trace.instants().map(|event| (event.name(), event.begin())).collect();
    assert_eq!(times, [("", 101), ("one", 102), ("two", 201)]);
    assert_eq!((faults(&trace), trace.losses().sequences[&2].unreadable), (vec![FaultKind::UnknownName], 3));
}

#[test]
fn slices_end_by_name_or_the_innermost_first_and_what_outlives_its_parent_ends_with_it() {
    let state = snapshot(2, &[(6, 0, None), (64, 0, Some(1))]);
    let at = |kind, name: &'static str| event(2, 10, kind, named(name));
    let plain = |kind| event(2, 10, kind, |_| ());
    let bytes = [
        state,
        plain(END),
        at(BEGIN, "a"),
        at(BEGIN, "b"),
        at(BEGIN, "c"),
        at(END, "b"),
        plain(INSTANT),
        plain(END),
        at(BEGIN, "d"),
        at(END, "x"),
    ];
    let trace = Trace::of(&bytes.concat()).expect("a trace");
    let told: Vec<_> = trace
        .slices()
        .map(|slice| (slice.name(), slice.begin(), slice.end(), slice.parent().map(|parent| parent.name())))
        .collect();
    // `c` is still open when the next event comes after the end of `b`.
    let expected = [
        ("a", 20, Some(70), None),
        ("b", 30, Some(50), Some("a")),
        ("c", 40, Some(50), Some("b")),
        ("d", 80, None, None),
    ];
    assert_eq!(told, expected);
    let said = [FaultKind::EndWithoutBegin, FaultKind::Misplaced, FaultKind::EndWithoutBegin];
    assert_eq!(faults(&trace), said);
    assert_eq!(said[1].stat(), "misplaced_end_event");
}

#[test]
fn a_compressed_trace_is_the_same_and_one_that_unpacks_to_too_much_is_refused() {
    let state = snapshot(2, &[(6, 0, None), (64, 0, Some(1))]);
    let packets = [event(2, 1, BEGIN, named("a")), event(2, 4, END, |_| ())].concat();
    let zlib = |bytes: &[u8]| {
        let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).and_then(|()| packed.finish()).expect("memory")
    };
    let zstd =
        |bytes: &[u8]| ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest);
    let within = |field, packed: &[u8]| packet(1, |content| put_bytes(content, field, packed));
    let files = [
        [state.clone(), packets.clone()].concat(),
        [state.clone(), within(trace_packet::COMPRESSED_PACKETS, &zlib(&packets))].concat(),
        within(trace_packet::ZSTD_COMPRESSED_PACKETS, &zstd(&[state.clone(), packets.clone()].concat())),
    ];
    let gzip = |bytes: &[u8]| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).and_then(|()| packed.finish()).expect("memory")
    };
    for file in files.iter().cloned().chain(files.iter().map(|file| gzip(file))) {
        let trace = Trace::of(&file).expect("a trace");
        let slice = trace.slice("a").expect("a slice");
        assert_eq!(
            (slice.begin(), slice.duration(), slice.track().uuid()),
            (1, Some(Duration::from_nanos(4)), 7)
        );
        assert_eq!(trace.losses().compressed, 0);
    }
    let bomb = within(trace_packet::COMPRESSED_PACKETS, &zlib(&vec![0; 100_000]));
    for file in [bomb.clone(), [bomb.clone(), packets.clone()].concat(), gzip(&vec![10; 100_000])] {
        assert!(matches!(unpack::unpacked(&file, 99_999), Err(TraceError::TooLarge)));
    }
    let mut wrong = files[1].clone();
    let last = wrong.len() - 10;
    wrong[last] ^= 0xFF;
    let error = Trace::of(&wrong).expect_err("wrong bytes");
    assert!(
        error.to_string().starts_with(&format!("the packet at byte {} does not unpack: ", state.len())),
        "{error}"
    );
}

#[test]
fn a_cut_trace_is_read_as_far_as_it_goes_and_damage_and_other_files_are_errors() {
    let state = snapshot(2, &[(6, 0, None), (64, 0, Some(1))]);
    let whole = [state, event(2, 1, BEGIN, named("a")), event(2, 4, END, |_| ())].concat();
    for len in 0..whole.len() {
        let trace = Trace::of(&whole[..len]).expect("as far as it goes");
        assert!(trace.slice("a").is_none_or(|slice| slice.duration().is_none()));
        assert_eq!(trace.losses().bytes + trace.losses().rest, len as u64);
    }
    let damaged = Trace::of(&[&whole[..], b"no packet"].concat()).expect_err("damage");
    assert_eq!(damaged.to_string(), format!("damaged at byte {}: NotAPacket", whole.len()));
    let malformed = Trace::of(&[&whole[..], &[0x0A, 1, 0xFF]].concat()).expect_err("no fields");
    assert!(matches!(malformed, TraceError::Malformed { at } if at == whole.len() as u64), "{malformed}");
    let nowhere = Trace::open("nowhere.pftrace").expect_err("no file");
    assert!(nowhere.to_string().starts_with("nowhere.pftrace: "), "{nowhere}");
}

#[test]
fn tracks_that_are_in_a_ring_or_below_nothing_lose_their_events_and_say_so() {
    let on = |uuid: u64| event(2, 1, INSTANT, move |event| put(event, track_event::TRACK_UUID, uuid));
    let state = snapshot(2, &[(6, 0, None), (64, 0, Some(1))]);
    let deep = (100..300).map(|uuid| track(uuid, if uuid == 100 { 0 } else { uuid - 1 }, |_| ()));
    let thread = |tid: u64| {
        move |track: &mut Vec<u8>| {
            let thread = message(|thread| {
                put(thread, thread_descriptor::PID, 5u64);
                put(thread, thread_descriptor::TID, tid);
                put_bytes(thread, thread_descriptor::THREAD_NAME, b"main");
            });
            put_bytes(track, track_descriptor::THREAD, &thread);
        }
    };
    let bytes = [
        deep.collect::<Vec<_>>().concat(),
        [track(10, 11, |_| ()), track(11, 10, |_| ()), track(12, 13, |_| ())].concat(),
        [track(20, 0, thread(6)), track(20, 0, thread(8)), track(21, 20, |_| ()), track(0, 0, |_| ())]
            .concat(),
        [state, on(10), on(12), on(199), on(200), on(21), on(22)].concat(),
    ];
    let trace = Trace::of(&bytes.concat()).expect("a trace");
    let tracks: Vec<_> = trace.instants().map(|event| event.track().uuid()).collect();
    assert_eq!(tracks, [199, 21, 22]);
    let said = [FaultKind::OtherTrack, FaultKind::TrackLoop, FaultKind::NoParentTrack, FaultKind::TrackLoop];
    assert_eq!(faults(&trace), said);
    let below = trace.instants().find(|event| event.track().uuid() == 21).expect("an event").track();
    assert_eq!((below.tid(), below.pid(), below.thread_name()), (Some(6), Some(5), Some("main")));
    assert_eq!(below.parents().collect::<Vec<_>>(), ["main"]);
}

#[test]
fn numbers_within_a_namespace_are_told_as_those_outside_of_it() {
    let listed = |number: u64, outer: &[u64], pid: Option<u64>| {
        message(|listed| {
            put(listed, process_tree_process::PID, number);
            for inside in outer {
                put(
                    listed,
                    if pid.is_some() { process_tree_thread::NSTID } else { process_tree_process::NSPID },
                    *inside,
                );
            }
            if let Some(pid) = pid {
                put(listed, process_tree_thread::TGID, pid);
            }
        })
    };
    let tree = packet(1, |content| {
        let tree = message(|tree| {
            put_bytes(tree, process_tree::PROCESSES, &listed(4000, &[3, 1], None));
            put_bytes(tree, process_tree::THREADS, &listed(4001, &[4, 2], Some(4000)));
        });
        put_bytes(content, trace_packet::PROCESS_TREE, &tree);
    });
    let thread = packet(2, |content| {
        let thread = message(|thread| {
            put(thread, thread_descriptor::PID, 1u64);
            put(thread, thread_descriptor::TID, 2u64);
        });
        let track = message(|track| {
            put(track, track_descriptor::UUID, 7u64);
            put_bytes(track, track_descriptor::THREAD, &thread);
        });
        put_bytes(content, trace_packet::TRACK_DESCRIPTOR, &track);
        put(content, trace_packet::TRUSTED_PID, 4000u64);
    });
    let trace = Trace::of(&[tree, thread].concat()).expect("a trace");
    let track = trace.tracks().next().expect("a track");
    assert_eq!((track.pid(), track.tid()), (Some(4000), Some(4001)));
}

#[test]
fn values_of_counters_are_added_up_multiplied_or_refused_as_their_tracks_say() {
    let counter = |uuid, fields: &'static [(u32, u64)]| {
        track(uuid, 0, move |track| {
            let counter =
                message(|counter| fields.iter().for_each(|(field, value)| put(counter, *field, *value)));
            put_bytes(track, track_descriptor::COUNTER, &counter);
        })
    };
    let count = |uuid: u64, value: i64| {
        event(2, 1, track_event_type::COUNTER, move |event| {
            put(event, track_event::TRACK_UUID, uuid);
            put(event, track_event::COUNTER_VALUE, value as u64);
        })
    };
    let bytes = [
        snapshot(2, &[(6, 0, None), (64, 0, Some(1))]),
        counter(40, &[(counter_descriptor::IS_INCREMENTAL, 1), (counter_descriptor::UNIT_MULTIPLIER, 10)]),
        [count(40, 3), count(40, -1), count(41, 1)].concat(),
        counter(41, &[(counter_descriptor::UNIT, counter_unit::TIME_NS)]),
        count(41, -9),
        event(2, 1, track_event_type::COUNTER, |event| put(event, track_event::TRACK_UUID, 41u64)),
    ];
    let trace = Trace::of(&bytes.concat()).expect("a trace");
    let told: Vec<_> = trace.counters().map(|counter| (counter.unit(), counter.points().to_vec())).collect();
    assert_eq!(told, [("", vec![(1, 30.0), (2, 20.0)]), ("ns", vec![(4, -9.0)])]);
    assert_eq!(faults(&trace), [FaultKind::NoCounter; 2], "one is described too late, one has no value");
}

#[test]
fn whatever_a_trace_contains_it_is_read_or_refused() {
    let session = Session::builder().start().expect("a session");
    let recorder = session.recorder();
    drop(recorder.enter_with("slice", |event| event.category("net").arg("key", "text").flow(5)));
    recorder.count(&tracebuf_session::Track::counter("queue", Unit::Named("°C")), -3);
    recorder.log("disk", LogMessage::new(LogPriority::Warn, "slow"));
    let mut bytes = Vec::new();
    session.snapshot().expect("a snapshot").write(&mut bytes).expect("memory");
    let mut read = 0;
    for round in 0..3_000u64 {
        let mut changed = bytes.clone();
        for of in 0..3 {
            let random = mix(round * 3 + of);
            changed[(random >> 8) as usize % bytes.len()] = random as u8;
        }
        let all_told = |trace: Trace| trace.events().all(|event| !format!("{event:?}").is_empty());
        read += u32::from(Trace::of(&changed).is_ok_and(all_told));
    }
    assert!(read > 100, "{read}");
}
