//! Tests of what is carried over: what is left out, what stays, and what must not be believed.

use tracebuf::buffer::DataLoss;
use tracebuf::proto::fields::data_loss_reason;
use tracebuf::proto::{Sink, TracePackets};
use tracebuf_analysis::Trace;

use super::*;

pub(super) use noted::crash_here;

mod kept;
mod named;
mod noted;
mod plain;
mod slices;

/// Packets with tag and length.
fn framed(packets: &[&[u8]]) -> Vec<u8> {
    let mut trace = Vec::new();
    packets.iter().for_each(|packet| {
        let Ok(()) = trace.bytes(1, packet);
    });
    trace
}

/// Sequence 2 at boot time 1000, in units of 10 ns, on track 9.
const STATE: &[u8] = &[
    0x40, 0xE8, 0x07, 0xD0, 0x03, 6, 0x68, 3, 0x50,
    2, // timestamp 1000 of clock 6, sequence_flags 3, sequence 2
    0x32, 17, 0x0A, 5, 0x08, 6, 0x10, 0xE8, 0x07, // clock 6 at 1000
    0x0A, 8, 0x08, 64, 0x10, 100, 0x18, 1, 0x20, 10, // clock 64, incremental, by 10
    0xDA, 0x03, 7, 0xD0, 0x03, 64, 0x5A, 2, 0x58, 9, // defaults: clock 64, track 9
];

/// An event `delta` units after the one before, of a type, and with a name that has a number.
fn event(delta: u8, kind: u8, name: u8) -> Vec<u8> {
    vec![0x40, delta, 0x68, 2, 0x50, 2, 0x5A, 4, 0x48, kind, 0x50, name]
}

/// The same, and the name is told.
fn naming(delta: u8, kind: u8, name: u8, text: &str) -> Vec<u8> {
    let names = [&[0x08, name, 0x12, text.len() as u8][..], text.as_bytes()].concat();
    let head = [0x62, names.len() as u8 + 2, 0x12, names.len() as u8];
    [&event(delta, kind, name)[..], &head, &names].concat()
}

/// A trace of what stays of these packets, with the session's clocks.
fn passed(from: Option<u64>, packets: &[&[u8]]) -> Vec<u8> {
    let mut out = framed(&[&[0x32, 7, 0x0A, 5, 0x08, 6, 0x10, 0xE8, 0x07, 0x50, 1]]);
    let mut carried = CarryOver::default();
    carried.pass(&framed(packets), from, &mut out);
    carried.write_open(&mut out);
    out
}

/// Names and times of instants.
fn instants(trace: &[u8]) -> Vec<(String, u64)> {
    let trace = Trace::of(trace).expect("a trace");
    assert_eq!(trace.faults(), []);
    trace.instants().map(|event| (event.name().to_owned(), event.begin())).collect()
}

fn losses(trace: &[u8]) -> Vec<u64> {
    let packets = TracePackets::new(trace).map(|packet| PacketView::of(packet.expect("a packet")).loss);
    packets.filter(|loss| *loss != 0).collect()
}

fn told(names: &[(&str, u64)]) -> Vec<(String, u64)> {
    names.iter().map(|(name, time)| (name.to_string(), *time)).collect()
}

#[test]
fn what_is_left_out_leaves_its_time_and_its_names_to_what_stays() {
    let (a, b, again) = (naming(5, 3, 1, "a"), naming(5, 3, 2, "b"), event(5, 3, 1));
    // At 1050, 1100, 1150 and 1200.
    let all: [&[u8]; 5] = [STATE, &a, &b, &again, &b];
    for from in [0, 1000, 1050, 1051, 1100, 1101, 1150, 1151, 1200, 1201] {
        let expected = told(&[("a", 1050), ("b", 1100), ("a", 1150), ("b", 1200)]);
        let expected: Vec<_> = expected.into_iter().filter(|(_, time)| *time >= from).collect();
        assert_eq!(instants(&passed(Some(from), &all)), expected, "from {from}");
    }
    // What begins with the state stays as it is, however often the state is told.
    for from in [None, Some(1000)] {
        let plain = passed(from, &[STATE, &a, &b, STATE, &a]);
        assert!(plain.ends_with(&framed(&[STATE, &a, &b, STATE, &a])));
    }
    // Nothing of a sequence that has ended before is in a window.
    assert_eq!(TracePackets::new(&passed(Some(2000), &all)).count(), 1);
}

#[test]
fn counters_whose_values_count_from_one_to_the_next_keep_their_sums() {
    // 7 is incremental, 8 is not.
    let track = |uuid, counter: &[u8]| {
        let descriptor = [&[0x08, uuid, 0x42, counter.len() as u8][..], counter].concat();
        [&[0x50, 2, 0xE2, 0x03, descriptor.len() as u8][..], &descriptor].concat()
    };
    let value = |track, by| vec![0x40, 5, 0x68, 2, 0x50, 2, 0x5A, 7, 0x48, 4, 0x58, track, 0xF0, 1, by];
    let (incremental, other) = (track(7, &[0x28, 1]), track(8, &[0x18, 2]));
    // At 1050 to 1250.
    let packets: [&[u8]; 8] = [
        STATE,
        &incremental,
        &other,
        &value(7, 10),
        &value(7, 20),
        &value(8, 5),
        &value(7, 30),
        &value(8, 6),
    ];
    let counted = |from| {
        let trace = Trace::of(&passed(from, &packets)).expect("a trace");
        let mut counters: Vec<_> = trace.counters().collect();
        counters.sort_by_key(|counter| counter.track().uuid());
        counters.iter().map(|counter| counter.points().to_vec()).collect::<Vec<_>>()
    };
    let whole = counted(None);
    assert_eq!(whole, [vec![(1050, 10.0), (1100, 30.0), (1200, 60.0)], vec![(1150, 5.0), (1250, 6.0)]]);
    assert_eq!(counted(Some(1150)), [vec![(1100, 30.0), (1200, 60.0)], whole[1].clone()]);
    assert_eq!(counted(Some(1250)), [vec![(1200, 60.0)], vec![(1250, 6.0)]]);
    // A fraction's sum, and one that is described anew as another.
    let fraction = |by: f64| {
        let event = [&[0x48, 4, 0x58, 7, 0xE1, 2][..], &by.to_le_bytes()].concat();
        [&[0x40, 5, 0x68, 2, 0x50, 2, 0x5A, event.len() as u8][..], &event].concat()
    };
    let trace = passed(Some(1150), &[STATE, &incremental, &fraction(0.5), &fraction(0.25), &fraction(1.0)]);
    let trace = Trace::of(&trace).expect("a trace");
    assert_eq!(trace.counters().next().expect("one").points(), [(1100, 0.75), (1150, 1.75)]);
    let plain = track(7, &[0x18, 2]);
    let trace = passed(Some(1150), &[STATE, &plain, &value(7, 10), &value(7, 20), &value(7, 30)]);
    let trace = Trace::of(&trace).expect("a trace");
    assert_eq!(trace.counters().next().expect("one").points(), [(1150, 30.0)]);
}

#[test]
fn packets_with_times_of_their_own_and_those_whose_state_is_gone_are_left_out_too() {
    let old: &[u8] = &[0x40, 100, 0x50, 3, 0x5A, 2, 0x48, 3];
    let other: &[u8] = &[0x40, 100, 0x50, 3, 0xA2, 0x38, 2, 0x0A, 0];
    let other_clock: &[u8] = &[0x40, 100, 0xD0, 0x03, 3, 0x50, 3, 0x5A, 2, 0x48, 3];
    let trace = passed(Some(1000), &[&event(5, 3, 1), old, other, other_clock]);
    let kept: Vec<_> = TracePackets::new(&trace).skip(1).map(|packet| packet.expect("a packet")).collect();
    assert_eq!(kept, [other, other_clock]);
}

#[test]
fn a_loss_is_told_before_what_comes_after_it_also_if_the_packet_that_told_it_is_left_out() {
    let said = [0xD0, 0x02, 0x81, 0x02];
    let lossy = [&naming(5, 3, 1, "lost before"), &said[..]].concat();
    let (a, new) = (naming(5, 3, 1, "a"), naming(100, 3, 2, "new"));
    // Behind a loss nothing that needs the state can be read: 1050 is old, and 2050 is unknown.
    let trace = passed(Some(1500), &[STATE, &a, &lossy, &new, STATE, &new]);
    assert_eq!(losses(&trace), [257]);
    assert_eq!(instants(&trace), told(&[("new", 2000)]));
    // A state that begins with the packet that tells of it can be read.
    let renewed = [STATE, &said].concat();
    let trace = passed(Some(1500), &[STATE, &a, &renewed, &a, &new]);
    assert_eq!((instants(&trace), losses(&trace)), (told(&[("new", 2050)]), vec![257]));
    // A field that says that nothing is lost.
    let nothing = [&event(5, 3, 1), &[0xD0, 0x02, 0][..]].concat();
    assert_eq!(losses(&passed(Some(1500), &[STATE, &nothing, &new])), []);
}

#[test]
fn times_that_are_no_distances_are_compared_as_they_are() {
    let plain: &[u8] = &[0x40, 0xE8, 0x07, 0x68, 3, 0x50, 2];
    let with_clock = |clock| [plain, &[0xDA, 0x03, 7, 0xD0, 0x03, clock, 0x5A, 2, 0x58, 9]].concat();
    // At 2000 and 5.
    let (new, old) = ([&[0x40, 0xD0, 0x0F][..], &event(0, 3, 1)[2..]].concat(), naming(5, 3, 1, "a"));
    for state in [plain, &with_clock(6)] {
        assert_eq!(instants(&passed(Some(1000), &[state, &old, &new])), told(&[("a", 2000)]));
    }
    // With another clock it is unknown what is old.
    let of_another = with_clock(3);
    let trace = passed(Some(1000), &[&of_another, &old, &new]);
    assert!(trace.ends_with(&framed(&[&of_another, &old, &new])));
}

#[test]
fn an_old_event_that_names_its_clock_leaves_its_names_and_moves_no_other_time() {
    let boot_time = [0xD0, 0x03, 6];
    let named = [&naming(5, 3, 1, "a"), &boot_time[..]].concat();
    let trace = passed(Some(1000), &[STATE, &named, &event(10, 3, 1)]);
    assert_eq!(instants(&trace), told(&[("a", 1100)]));
}

#[test]
fn a_state_is_one_too_where_the_packet_says_so_as_older_writers_do() {
    // With incremental_state_cleared instead of sequence_flags.
    let flags = [0x68, 3];
    let at = STATE.windows(2).position(|bytes| bytes == flags).expect("flags");
    let older = [&STATE[..at], &[0xC8, 2, 1], &STATE[at + 2..]].concat();
    let (a, new) = (naming(5, 3, 1, "a"), event(100, 3, 1));
    assert_eq!(instants(&passed(Some(1500), &[&older, &a, &new])), told(&[("a", 2050)]));
    // One that says that no state begins begins none.
    let no_state = [&new[..], &[0xC8, 2, 0]].concat();
    let trace = passed(Some(1500), &[STATE, &a, &no_state, &event(1, 3, 1)]);
    assert_eq!(instants(&trace), told(&[("a", 2050), ("a", 2060)]));
}

#[test]
fn defaults_and_clocks_that_come_behind_the_state_are_the_sequence_s() {
    let (before, defaults) = STATE.split_at(STATE.len() - 10);
    let later = [&[0x68, 2, 0x50, 2][..], defaults].concat();
    let (a, new) = (naming(5, 3, 1, "a"), event(100, 3, 1));
    // Nothing says what times of clock 64 count from until it is the default.
    let trace = passed(Some(1500), &[before, &later, &a, &new]);
    assert!(trace.ends_with(&framed(&[&new])), "it is unknown what is old");
    // A new snapshot in the middle, at 3000.
    let snapshot = [
        0x68, 2, 0x50, 2, 0x32, 17, 0x0A, 5, 0x08, 6, 0x10, 0xB8, 0x17, 0x0A, 8, 0x08, 64, 0x10, 100, 0x18,
        1, 0x20, 10,
    ];
    let trace = passed(Some(2500), &[STATE, &a, &snapshot, &new, &new]);
    assert_eq!(instants(&trace), told(&[("a", 4000), ("a", 5000)]));
}

#[test]
fn what_was_overwritten_is_no_loss_to_a_state_that_has_seen_it() {
    let overwritten = (data_loss_reason::PRESENT | data_loss_reason::OVERWRITE) as u8;
    let (a, b) = (naming(5, 3, 1, "a"), [&event(5, 3, 1), &[0xD0, 0x02, overwritten][..]].concat());
    let carry = |seen: bool, lost: bool, next: &[u8]| {
        let mut carried = CarryOver::default();
        carried.fold(&framed(&[STATE, &a]));
        let sequence = carried.sequences.get_mut(&2).expect("it is known");
        (sequence.is_overwritten, sequence.is_readable) = (seen, !lost);
        let mut out = framed(&[&[0x32, 7, 0x0A, 5, 0x08, 6, 0x10, 0xE8, 0x07, 0x50, 1]]);
        carried.pass(&framed(&[next, &event(5, 3, 1)]), None, &mut out);
        (instants(&out), losses(&out))
    };
    let all = told(&[("a", 1100), ("a", 1150)]);
    assert_eq!(carry(true, false, &b), (all, vec![overwritten.into()]));
    // What was lost besides is.
    let lost = [&event(5, 3, 1), &[0xD0, 0x02, overwritten | 2][..]].concat();
    for (seen, is_lost, next) in [(true, false, &lost), (true, true, &b), (false, false, &b)] {
        let (instants, losses) = carry(seen, is_lost, next);
        assert_eq!(instants, [], "{seen} {is_lost}");
        assert_eq!(losses.len(), 1);
    }
}

#[test]
fn each_of_several_files_can_be_read_alone() {
    let (a, b) = (naming(5, 3, 1, "a"), event(5, 3, 1));
    let mut carried = CarryOver::default();
    for file in 0..4u64 {
        let mut out = framed(&[&[0x32, 7, 0x0A, 5, 0x08, 6, 0x10, 0xE8, 0x07, 0x50, 1]]);
        let mut count = 1 + carried.begin_file(&mut out);
        let packets: [&[u8]; 3] = if file == 0 { [STATE, &a, &b] } else { [&b, &b, &b] };
        // In pieces, as they come.
        for packet in &packets {
            count += carried.pass(&framed(&[packet]), None, &mut out);
        }
        assert_eq!(count, TracePackets::new(&out).count() as u64);
        let first = if file == 0 { 1050 } else { 1100 + 50 + (file - 1) * 150 };
        let expected: Vec<_> = (0..if file == 0 { 2 } else { 3 }).map(|n| ("a", first + 50 * n)).collect();
        assert_eq!(instants(&out), told(&expected), "file {file}");
    }
}

#[test]
fn nothing_that_a_producer_writes_makes_it_panic_or_grow() {
    use tracebuf_testing::mix::mix;
    let mut carried = CarryOver::of_ring();
    let usual = [STATE.to_vec(), naming(5, 1, 1, "a"), event(5, 2, 1), event(5, 1, 1)];
    let mut seed = 7;
    let mut random = move |below: usize| {
        seed = mix(seed);
        (seed % below as u64) as usize
    };
    for round in 0..20_000 {
        let mut packet = usual[random(usual.len())].clone();
        for _ in 0..random(4) {
            let at = random(packet.len());
            packet[at] = random(256) as u8;
        }
        packet.truncate(1 + random(packet.len()));
        let id = 2 + random(3) as u32;
        carried.overwritten(Writer { id, uid: 0, pid: None }, DataLoss::empty());
        carried.overwritten_packet(id, &packet, &packet);
        carried.settle(&packet);
        if round % 100 == 0 {
            let mut out = Vec::new();
            carried.clone().begin_file(&mut out);
            carried.clone().pass(&framed(&[&packet]), Some(1100), &mut out);
            assert!(TracePackets::new(&out).all(|packet| packet.is_ok()));
        }
    }
    assert_eq!(carried.sequences.len(), 3);
}
