//! Tests of trimming: what is left out, and what stays.

use super::*;

fn framed(packets: &[&[u8]]) -> Vec<u8> {
    let mut trace = Vec::new();
    packets.iter().for_each(|packet| assert!(put(&mut trace, packet, None, false)));
    trace
}

/// Sequence 2 at boot time 1000, in units of 10 ns.
const STATE: &[u8] = &[
    0x40, 0xE8, 0x07, 0x68, 3, 0x50, 2, // timestamp 1000, sequence_flags 3, sequence 2
    0x32, 17, 0x0A, 5, 0x08, 6, 0x10, 0xE8, 0x07, // clock 6 at 1000
    0x0A, 8, 0x08, 64, 0x10, 100, 0x18, 1, 0x20, 10, // clock 64, incremental, by 10
    0xDA, 0x03, 3, 0xD0, 0x03, 64, // defaults: clock 64
];

/// An event `delta` units after the one before, with or without names.
fn event(delta: u8, names: bool) -> Vec<u8> {
    let mut packet = vec![0x40, delta, 0x68, 2, 0x50, 2, 0x5A, 2, 0x48, 3];
    packet.extend_from_slice(if names { &[0x62, 2, 0x12, 0][..] } else { &[] });
    packet
}

fn trimmed(from: u64, packets: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    Trim::new(from).apply(&framed(packets), &mut out);
    TracePackets::new(&out).map(|packet| packet.expect("a packet").to_vec()).collect()
}

#[test]
fn what_is_left_out_leaves_its_time_to_the_next_event_and_its_names_to_all() {
    let (named, plain) = (event(5, true), event(5, false));
    // At 1050, 1100, 1150 and 1200.
    let kept = trimmed(1150, &[STATE, &named, &plain, &plain, &plain]);
    let names = vec![0x68, 2, 0x50, 2, 0x62, 2, 0x12, 0];
    assert_eq!(kept, [STATE.to_vec(), names, event(15, false), plain]);
}

#[test]
fn values_that_later_ones_count_from_stay_whatever_their_time() {
    // 7 is incremental, 9 is not, and the sequence's own track is 7.
    let track = |uuid, counter: &[u8]| {
        let descriptor = [&[0x08, uuid, 0x42, counter.len() as u8][..], counter].concat();
        [&[0x50, 2, 0xE2, 0x03, descriptor.len() as u8][..], &descriptor].concat()
    };
    let (incremental, other) = (track(7, &[0x28, 1]), track(9, &[0x18, 2]));
    let (before, _) = STATE.split_at(STATE.len() - 6);
    let defaults = [before, &[0xDA, 0x03, 7, 0xD0, 0x03, 64, 0x5A, 2, 0x58, 7]].concat();
    let value = |track: &[u8]| {
        let event = [&[0x48, 4, 0xF0, 1, 10][..], track].concat();
        [&[0x40, 5, 0x68, 2, 0x50, 2, 0x5A, event.len() as u8][..], &event].concat()
    };
    let (by_default, of_7, of_9) = (value(&[]), value(&[0x58, 7]), value(&[0x58, 9]));
    let (slice, late) = (event(5, false), event(105, false));
    // At 1050 to 1250, and 2250.
    let packets = [&defaults, &incremental, &other, &by_default, &of_9, &of_7, &slice, &late];
    let owing = |packet: &[u8], units| [&[0x40, units][..], &packet[2..]].concat();
    let kept = trimmed(2000, &packets.map(Vec::as_slice));
    assert_eq!(
        kept,
        [&defaults, &incremental, &other, &by_default, &owing(&of_7, 10), &owing(&late, 110)].map(Vec::clone)
    );
    // Described anew as one that is not.
    let kept = trimmed(2000, &[&defaults, &incremental, &track(7, &[0x18, 2]), &of_7]);
    assert_eq!(kept.len(), 3);
}

#[test]
fn a_moment_before_the_state_leaves_everything_as_it_is() {
    let (named, plain) = (event(5, true), event(200, false));
    let packets = [STATE, &named, &plain, &[0x40, 0x80, 0x08, 0x50, 3]];
    assert_eq!(trimmed(1000, &packets), packets);
}

#[test]
fn packets_with_times_of_their_own_and_those_whose_state_is_gone_are_left_out_too() {
    let old: &[u8] = &[0x40, 100, 0x50, 3, 0x5A, 2, 0x48, 3];
    let timeless: &[u8] = &[0xE2, 0x03, 0, 0x50, 3];
    let other_clock: &[u8] = &[0x40, 100, 0xD0, 0x03, 3, 0x50, 3, 0x5A, 2, 0x48, 3];
    let kept = trimmed(1000, &[&event(5, true), old, timeless, other_clock]);
    assert_eq!(kept, [timeless, other_clock]);
}

#[test]
fn a_loss_is_told_before_what_comes_after_it_also_if_the_event_that_told_is_left_out() {
    let loss = [0xD0, 0x02, 0x81, 0x02];
    let lossy = [&event(5, false)[..], &loss].concat();
    let (told, new) = ([&[0x68, 2, 0x50, 2][..], &loss].concat(), event(100, false));
    // At 1050 and 2050.
    let owing = event(105, false);
    assert_eq!(trimmed(1500, &[STATE, &lossy, &new]), [STATE, &told, &owing]);
    // From a packet whose state is gone.
    assert_eq!(trimmed(1500, &[&lossy, STATE, &new]), [&told, STATE, &new]);
    // From an old event with a time of its own.
    let old = [&[0x40, 100, 0x50, 3, 0x5A, 2, 0x48, 3][..], &loss].concat();
    assert_eq!(trimmed(1500, &[&old]), [[&[0x50, 3][..], &loss].concat()]);
    // A field that says that nothing is lost.
    assert_eq!(trimmed(1500, &[&[0x40, 100, 0x50, 3, 0x5A, 2, 0x48, 3, 0xD0, 0x02, 0]]), [[0u8; 0]; 0]);
}

#[test]
fn times_that_are_no_distances_are_compared_as_they_are() {
    let plain = STATE.get(..7).expect("time, flags and sequence");
    let of_boot_time = [plain, &[0xDA, 0x03, 3, 0xD0, 0x03, 6]].concat();
    let of_another = [plain, &[0xDA, 0x03, 3, 0xD0, 0x03, 3]].concat();
    // At 2000 and 5.
    let (new, old) = ([&[0x40, 0xD0, 0x0F][..], &event(0, true)[2..]].concat(), event(5, true));
    let names = vec![0x68, 2, 0x50, 2, 0x62, 2, 0x12, 0];
    for state in [plain, &of_boot_time] {
        assert_eq!(trimmed(1000, &[state, &old, &new]), [state, &names, &new]);
    }
    // With another clock it is unknown what is old.
    assert_eq!(trimmed(1000, &[&of_another, &old, &new]), [&of_another, &old, &new].map(Vec::as_slice));
}

#[test]
fn an_old_event_that_names_its_clock_leaves_its_names_and_a_track_stays_whatever_its_time() {
    let boot_time = [0xD0, 0x03, 6];
    let (old, named) =
        ([&event(5, false)[..], &boot_time].concat(), [&event(5, true)[..], &boot_time].concat());
    let track = [0x40, 5, 0x68, 2, 0x50, 2, 0xD0, 0x03, 6, 0xE2, 0x03, 2, 0x08, 1];
    let names = vec![0x68, 2, 0x50, 2, 0x62, 2, 0x12, 0];
    assert_eq!(trimmed(1000, &[STATE, &old, &named, &track]), [STATE, &names, &track]);
}

#[test]
fn a_state_is_one_too_where_the_packet_says_so_as_older_writers_do() {
    // With incremental_state_cleared instead of sequence_flags, and boot time as the clock.
    let state: &[u8] = &[0x40, 0xE8, 0x07, 0xC8, 2, 1, 0x50, 2];
    let (old, new) = (event(5, false), [&[0x40, 0xD0, 0x0F][..], &event(0, false)[2..]].concat());
    assert_eq!(trimmed(1500, &[state, &old, &new]), [state, &new]);
    let distances = [state, STATE.get(7..).expect("clocks and defaults")].concat();
    // At 1050 and 2050.
    assert_eq!(
        trimmed(1500, &[&distances, &event(5, false), &event(100, false)]),
        [&distances[..], &event(105, false)]
    );
    // One that says that no state begins begins none.
    let no_state = [&event(100, false)[..], &[0xC8, 2, 0]].concat();
    assert_eq!(trimmed(1500, &[STATE, &no_state, &event(1, false)]), [STATE, &no_state, &event(1, false)]);
}

#[test]
fn a_packet_that_needs_no_state_is_of_the_sequence_s_clock_too() {
    // At 1050, 1100 and 2100; the second needs no state, and is an event or a track.
    let without = |packet: &[u8]| [&[0x40, 5][..], packet].concat();
    let (event_5, track_5) =
        (without(&[0x50, 2, 0x5A, 2, 0x48, 3]), without(&[0x50, 2, 0xE2, 0x03, 2, 0x08, 1]));
    let (old, new) = (event(5, false), event(100, false));
    assert_eq!(trimmed(1500, &[STATE, &old, &event_5, &new]), [STATE, &event(110, false)]);
    let track_10 = [&[0x40, 10][..], &track_5[2..]].concat();
    assert_eq!(trimmed(1500, &[STATE, &old, &track_5, &new]), [STATE, &track_10, &new]);
    let newer = [&[0x40, 100][..], &event_5[2..]].concat();
    assert_eq!(trimmed(1500, &[STATE, &newer, &newer]), [STATE, &newer, &newer]);
}

#[test]
fn defaults_that_come_behind_the_state_are_the_sequence_s() {
    let state = STATE.get(..7).expect("time, flags and sequence");
    // For clock 65, which is unknown; and then for boot time.
    let defaults = |clock| [0x50, 2, 0xDA, 0x03, 3, 0xD0, 0x03, clock];
    let (unknown, boot_time, old) = (defaults(65), defaults(6), event(5, false));
    for state in [state, STATE] {
        let kept = trimmed(1500, &[state, &unknown, &old, &boot_time, &old]);
        assert_eq!(kept, [state, &unknown, &old, &boot_time]);
    }
    // SideData an event that is left out.
    let (side, new) = ([&old, &boot_time[2..]].concat(), [0x40, 0xD0, 0x0F, 0x68, 2, 0x50, 2]);
    assert_eq!(trimmed(1500, &[state, &side, &new]), [state, &[&[0x68, 2], &boot_time[..]].concat(), &new]);
    // As they were.
    let (same, new) = (defaults(64), event(100, false));
    let owing = event(105, false);
    assert_eq!(trimmed(1500, &[STATE, &old, &same, &new]), [STATE, &same, &owing]);
}
