//! Tests of open slices: on tracks of several sequences, deep, many, large, and after losses.

use tracebuf::proto::fields::{builtin_clock, debug_annotation, trace_packet, track_event};

use super::*;

const BEGIN: u64 = 1;
const END: u64 = 2;

/// An event that needs no state: at a time, of a sequence, on a track.
fn at(time: u64, sequence: u64, kind: u64, track: u64, name: &str) -> Vec<u8> {
    with_argument(time, sequence, kind, track, name, 0)
}

/// The same with an argument of so many bytes.
fn with_argument(time: u64, sequence: u64, kind: u64, track: u64, name: &str, len: usize) -> Vec<u8> {
    let (mut packet, mut event, mut argument) = (Vec::new(), Vec::new(), Vec::new());
    let Ok(()) = packet.varint(trace_packet::TIMESTAMP, time);
    let Ok(()) = packet.varint(trace_packet::TIMESTAMP_CLOCK_ID, builtin_clock::BOOTTIME);
    let Ok(()) = event.varint(track_event::TYPE, kind);
    let Ok(()) = event.varint(track_event::TRACK_UUID, track);
    if kind == BEGIN {
        let Ok(()) = event.string(track_event::NAME, name);
    }
    if len > 0 {
        let Ok(()) = argument.string(debug_annotation::NAME, "text");
        let Ok(()) = argument.string(debug_annotation::STRING_VALUE, &"x".repeat(len));
        let Ok(()) = event.bytes(track_event::DEBUG_ANNOTATIONS, &argument);
    }
    let Ok(()) = packet.bytes(trace_packet::TRACK_EVENT, &event);
    let Ok(()) = packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, sequence);
    packet
}

fn fold(carried: &mut CarryOver, packets: &[Vec<u8>]) {
    carried.fold(&framed(&packets.iter().map(Vec::as_slice).collect::<Vec<_>>()));
}

/// Names, begins and ends of the slices of a file that begins now and has these packets.
fn slices(carried: &CarryOver, packets: &[Vec<u8>]) -> Vec<(String, u64, Option<u64>)> {
    let mut carried = carried.clone();
    let mut out = framed(&[&[0x32, 7, 0x0A, 5, 0x08, 6, 0x10, 0xE8, 0x07, 0x50, 1]]);
    carried.begin_file(&mut out);
    carried.pass(&framed(&packets.iter().map(Vec::as_slice).collect::<Vec<_>>()), None, &mut out);
    let trace = Trace::of(&out).expect("a trace");
    assert_eq!(trace.faults(), []);
    trace.slices().map(|slice| (slice.name().to_owned(), slice.begin(), slice.end())).collect()
}

fn told(slices: &[(&str, u64, Option<u64>)]) -> Vec<(String, u64, Option<u64>)> {
    slices.iter().map(|(name, begin, end)| (name.to_string(), *begin, *end)).collect()
}

#[test]
fn an_end_that_leaves_before_its_begin_is_told_with_that() {
    let begin = at(1000, 2, BEGIN, 7, "life");
    let mut carried = CarryOver::default();
    fold(&mut carried, &[at(1500, 3, END, 7, "")]);
    assert_eq!(slices(&carried, std::slice::from_ref(&begin)), told(&[("life", 1000, Some(1500))]));
    // An end does not end what begins after it, and of several the first ends it.
    fold(&mut carried, &[at(1200, 3, END, 7, "")]);
    let later = at(1300, 2, BEGIN, 7, "later");
    let expected = told(&[("life", 1000, Some(1200)), ("later", 1300, Some(1500))]);
    assert_eq!(slices(&carried, &[begin.clone(), later]), expected);
    // Once the begins have left as well, nothing is open.
    fold(&mut carried, &[begin, at(1300, 2, BEGIN, 7, "later")]);
    assert_eq!(slices(&carried, &[]), []);
    // Ends without begins are not kept for ever.
    let ends: Vec<_> = (0..10_000).map(|track| at(1500, 3, END, 100 + track, "")).collect();
    fold(&mut carried, &ends);
    assert_eq!(slices(&carried, &[at(1000, 2, BEGIN, 100, "old")]), told(&[("old", 1000, None)]));
    let last = told(&[("new", 1000, Some(1500))]);
    assert_eq!(slices(&carried, &[at(1000, 2, BEGIN, 10_099, "new")]), last);
}

#[test]
fn begins_that_leave_late_lie_around_those_that_came_after_them() {
    let mut carried = CarryOver::default();
    fold(&mut carried, &[at(1200, 3, BEGIN, 7, "inner"), at(1000, 2, BEGIN, 7, "outer")]);
    let all = told(&[("outer", 1000, None), ("inner", 1200, None)]);
    assert_eq!(slices(&carried, &[]), all);
    let ended = [at(1300, 3, END, 7, "")];
    assert_eq!(slices(&carried, &ended), told(&[("outer", 1000, None), ("inner", 1200, Some(1300))]));
    // What ended before the inner one began ended the outer one.
    fold(&mut carried, &[at(1100, 4, END, 7, "")]);
    assert_eq!(slices(&carried, &[]), told(&[("inner", 1200, None)]));
}

#[test]
fn of_deep_slices_the_outermost_are_kept_and_the_others_counted() {
    let mut carried = CarryOver::default();
    let begins: Vec<_> = (0..300).map(|n| at(1000 + n, 2, BEGIN, 7, &format!("slice {n}"))).collect();
    fold(&mut carried, &begins);
    assert_eq!(carried.left_out(), 300 - limits::DEPTH as u64);
    let kept = slices(&carried, &[]);
    assert_eq!(kept.len(), limits::DEPTH);
    assert!(
        kept.iter().enumerate().all(|(n, slice)| *slice == (format!("slice {n}"), 1000 + n as u64, None))
    );
    // Ends are those of the innermost.
    let ends = |count: u64| (0..count).map(|n| at(2000 + n, 2, END, 7, "")).collect::<Vec<_>>();
    fold(&mut carried, &ends(44));
    assert_eq!((carried.left_out(), slices(&carried, &[]).len()), (0, limits::DEPTH));
    fold(&mut carried, &ends(255));
    assert_eq!(slices(&carried, &[]), told(&[("slice 0", 1000, None)]));
}

#[test]
fn tracks_and_bytes_are_bounded_and_what_is_not_kept_is_counted() {
    let mut carried = CarryOver::default();
    let many = limits::TRACKS as u64 + 1000;
    for track in 0..many {
        fold(&mut carried, &[at(1000, 2, BEGIN, 1000 + track, "slice")]);
    }
    assert_eq!(carried.left_out(), 1000);
    assert_eq!(slices(&carried, &[]).len(), limits::TRACKS);
    for track in 0..many {
        fold(&mut carried, &[at(1100, 2, END, 1000 + track, "")]);
    }
    assert_eq!((carried.left_out(), slices(&carried, &[])), (0, vec![]));
    // Large ones: the first are kept.
    let count = 400;
    for track in 0..count {
        fold(&mut carried, &[with_argument(1000, 2, BEGIN, track + 1, "large", 60_000)]);
    }
    let kept = slices(&carried, &[]).len();
    assert!((250..290).contains(&kept), "{kept}");
    assert_eq!(carried.left_out(), count - kept as u64);
    for track in 0..count {
        fold(&mut carried, &[at(1100, 2, END, track + 1, "")]);
    }
    fold(&mut carried, &[with_argument(1200, 2, BEGIN, 1, "later", 60_000)]);
    assert_eq!((carried.left_out(), slices(&carried, &[]).len()), (0, 1));
}

#[test]
fn of_a_begin_that_is_too_long_the_name_is_kept() {
    let mut carried = CarryOver::default();
    fold(&mut carried, &[with_argument(1000, 2, BEGIN, 7, "very long", 100_000)]);
    let mut out = Vec::new();
    carried.begin_file(&mut out);
    assert!(out.len() < 100 && out.windows(9).any(|window| window == b"very long"));
}

#[test]
fn what_cannot_be_read_behind_a_loss_may_have_ended_slices() {
    let lost = |packet: Vec<u8>| [&packet[..], &[0xD0, 0x02, 3]].concat();
    let begin = || vec![STATE.to_vec(), naming(5, 1, 1, "open")];
    // The next state begins with the packet that tells of the loss: all there is was read.
    let mut carried = CarryOver::default();
    fold(&mut carried, &begin());
    fold(&mut carried, &[lost(STATE.to_vec()), naming(5, 3, 1, "a")]);
    assert_eq!(slices(&carried, &[]), told(&[("open", 1050, None)]));
    let end = vec![0x40, 5, 0x68, 2, 0x50, 2, 0x5A, 2, 0x48, 2];
    assert_eq!(slices(&carried, &[end]), told(&[("open", 1050, Some(1100))]));
    // There was an event that nobody could read.
    let mut carried = CarryOver::default();
    fold(&mut carried, &begin());
    fold(&mut carried, &[lost(event(5, 3, 1))]);
    assert_eq!(slices(&carried, &[]), []);
    fold(&mut carried, &[event(5, 1, 1), STATE.to_vec(), naming(5, 1, 1, "new")]);
    assert_eq!(slices(&carried, &[]), told(&[("new", 1050, None)]));
}

#[test]
fn when_another_thread_has_a_writer_the_slices_of_the_one_that_has_ended_are_over() {
    let mut carried = CarryOver::default();
    // On the thread's own track, which is 9, and on another.
    fold(&mut carried, &[STATE.to_vec(), naming(5, 1, 1, "of the thread"), at(1060, 2, BEGIN, 7, "request")]);
    fold(&mut carried, &[STATE.to_vec()]);
    assert_eq!(slices(&carried, &[]).len(), 2);
    let mut other = STATE.to_vec();
    *other.last_mut().expect("a track") = 10;
    fold(&mut carried, &[other]);
    assert_eq!(slices(&carried, &[]), told(&[("request", 1060, None)]));
    // Also if it is another process's.
    let ends = [at(1300, 3, END, 7, "")];
    assert_eq!(slices(&carried, &ends), told(&[("request", 1060, Some(1300))]));
}

#[test]
fn begins_tell_names_categories_arguments_and_tracks_without_the_state_that_had_them() {
    // Numbers of a category, a name, a key and a text.
    let data = b"\x0A\x07\x08\x01\x12\x03net\x12\x08\x08\x01\x12\x04load\x1A\x07\x08\x01\x12\x03key\xEA\x01\x06\x08\x01\x12\x02hi";
    let names = [&[0x62, data.len() as u8][..], data].concat();
    let event = b"\x48\x01\x50\x01\x18\x01\x22\x05\x08\x01\x88\x01\x01";
    let packet =
        |event: &[u8]| [&[0x40, 5, 0x68, 2, 0x50, 2, 0x5A, event.len() as u8][..], event, &names].concat();
    let track = [&[0x50, 2, 0xE2, 0x03, 9][..], b"\x08\x09\x12\x05track"].concat();
    let mut carried = CarryOver::default();
    fold(&mut carried, &[STATE.to_vec(), track, packet(event)]);
    // Another state, in which the numbers mean something else.
    fold(&mut carried, &[STATE.to_vec(), naming(5, 3, 1, "other")]);
    let mut out = framed(&[&[0x32, 7, 0x0A, 5, 0x08, 6, 0x10, 0xE8, 0x07, 0x50, 1]]);
    carried.begin_file(&mut out);
    let trace = Trace::of(&out).expect("a trace");
    let slice = trace.slice("load").expect("it is there");
    assert_eq!((slice.category(), slice.track().name(), slice.begin()), ("net", "track", 1050));
    assert_eq!(slice.argument("key").and_then(|value| value.as_str()), Some("hi"));
}
