//! Tests of descriptions and counters that are kept when all packets with them have left.

use super::*;

/// The descriptor of a track: a counter's, if it says so.
fn track(uuid: u64, name: &str, is_counter: bool) -> Vec<u8> {
    let (mut packet, mut descriptor) = (vec![0x50, 2], Vec::new());
    let Ok(()) = descriptor.varint(1, uuid);
    let Ok(()) = descriptor.string(2, name);
    if is_counter {
        let Ok(()) = descriptor.bytes(8, &[]);
    }
    let Ok(()) = packet.bytes(60, &descriptor);
    packet
}

/// A counter's value, 5 units after the event before it.
fn value(uuid: u64, value: u64) -> Vec<u8> {
    let (mut packet, mut event) = (vec![0x40, 5, 0x68, 2, 0x50, 2], vec![0x48, 4]);
    let Ok(()) = event.varint(11, uuid);
    let Ok(()) = event.varint(30, value);
    let Ok(()) = packet.bytes(11, &event);
    packet
}

/// What a trace has that begins after these packets, and how many packets those are.
fn begun(carried: &mut CarryOver) -> (Vec<u8>, u64) {
    let mut out = framed(&[&[0x32, 7, 0x0A, 5, 0x08, 6, 0x10, 0xE8, 0x07, 0x50, 1]]);
    let packets = carried.begin_file(&mut out);
    (out, packets)
}

fn counters(trace: &[u8]) -> Vec<(String, Vec<(u64, f64)>)> {
    let trace = Trace::of(trace).expect("a trace");
    assert_eq!(trace.faults(), []);
    let mut all: Vec<_> = trace
        .counters()
        .map(|counter| (counter.track().name().to_owned(), counter.points().to_vec()))
        .collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

#[test]
fn the_last_value_of_each_counter_is_there_with_its_own_time_and_the_counter_s_name() {
    let mut carried = CarryOver::default().keep_descriptions(8 << 10);
    let packets =
        [STATE.to_vec(), track(7, "a", true), track(8, "b", true), value(7, 1), value(8, 2), value(7, 3)];
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    carried.fold(&framed(&packets));
    let mut copy = carried.clone();
    let (trace, packets) = begun(&mut carried);
    assert_eq!(packets, 4);
    assert_eq!(counters(&trace), [("a".into(), vec![(1150, 3.0)]), ("b".into(), vec![(1100, 2.0)])]);
    // A copy goes on by itself.
    copy.fold(&framed(&[&value(8, 9), &track(8, "renamed", true)]));
    assert_eq!(counters(&begun(&mut copy).0)[1], ("renamed".into(), vec![(1200, 9.0)]));
    assert_eq!(begun(&mut carried).0, trace);
    // What counts from one value to the next is told as what it has come to.
    let incremental = [0x50, 2, 0xE2, 3, 6, 8, 9, 0x42, 2, 0x28, 1];
    carried.fold(&framed(&[&incremental, &value(9, 10), &value(9, 20)]));
    assert_eq!(counters(&begun(&mut carried).0)[0], (String::new(), vec![(1250, 30.0)]));
}

#[test]
fn a_state_that_is_lost_is_not_believed_and_what_is_kept_stays() {
    let mut carried = CarryOver::default().keep_descriptions(0);
    carried.fold(&framed(&[STATE, &track(7, "a", true), &value(7, 1)]));
    let lossy = [&value(7, 2)[..], &[0xD0, 2, 65]].concat();
    carried.fold(&framed(&[&lossy, &value(7, 3)]));
    let (trace, _) = begun(&mut carried);
    assert_eq!(counters(&trace), [("a".into(), vec![(1050, 1.0)])]);
    // The next packet needs a state that nobody knows: readers must skip it.
    let mut trace = trace;
    carried.pass(&framed(&[&event(5, 3, 1)]), None, &mut trace);
    assert_eq!(Trace::of(&trace).expect("a trace").instants().count(), 0);
}

#[test]
fn when_there_is_no_more_room_what_nobody_uses_any_more_goes_first() {
    let mut carried = CarryOver::default().keep_descriptions(16 << 10);
    carried.fold(&framed(&[STATE, &track(9, "own", false), &track(7, "counter", true)]));
    // Another sequence's threads come and go, each with a state of its own.
    for number in 0..2000_u64 {
        let name = format!("thread {number}");
        let mut other = STATE.to_vec();
        let time = 1000 + 5 * number;
        let time = [0x80 | (time % 128) as u8, (time / 128) as u8];
        other[9] = 3;
        other[1..3].copy_from_slice(&time);
        other[17..19].copy_from_slice(&time);
        let described = [&track(1000 + number, &name, false)[2..], &[0x50, 3]].concat();
        carried.fold(&framed(&[&other, &described, &value(7, number), &event(5, 3, 1)]));
    }
    let stats = carried.kept().expect("it keeps");
    assert!(stats.used <= stats.memory && stats.high_water <= stats.memory, "{stats:?}");
    assert!(stats.forgotten > 1500 && stats.aborts == 0, "{stats:?}");
    // One that is too long is not kept, for which nothing else has to go.
    carried.fold(&framed(&[&track(5, &"x".repeat(1 << 10), false)]));
    let after = carried.kept().expect("it keeps");
    assert_eq!((after.aborts, after.forgotten, after.patches), (1, stats.forgotten, stats.patches + 1));
    let (trace, _) = begun(&mut carried);
    let read = Trace::of(&trace).expect("a trace");
    let names: Vec<_> = read.tracks().map(|track| track.name().to_owned()).collect();
    for name in ["own", "counter", "thread 1999", "thread 1960"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    assert!(!names.iter().any(|name| name == "thread 10"));
    assert_eq!(counters(&trace)[0].1.last().map(|(_, value)| *value), Some(1999.0));
}

#[test]
fn for_what_the_machine_does_not_know_nothing_has_to_go() {
    let mut carried = CarryOver::default().keep_descriptions(16 << 10);
    carried.fold(&framed(&[STATE]));
    (0..150).for_each(|uuid| carried.fold(&framed(&[&track(100 + uuid, "thread", false)])));
    let before = carried.kept().expect("it keeps");
    assert!(before.forgotten == 0 && before.used > 8 << 10, "{before:?}");
    // Threads without a number, a process that has a text as its number, and a track whose number came second.
    let mut packets = [vec![0x50, 2], vec![0x50, 2], vec![0x50, 2]];
    let Ok(()) = packets[0].bytes(2, &[0x12, 0].repeat(1000));
    let Ok(()) = packets[1].bytes(2, &[0x0A, 6, 0x0A, 1, b'1', 0x1A, 1, b'a']);
    let Ok(()) = packets[2].bytes(60, &[0x0A, 1, b'1', 0x08, 1]);
    carried.fold(&framed(&[&packets[0], &packets[1], &packets[2]]));
    let after = carried.kept().expect("it keeps");
    let expected = (before.used, before.forgotten, before.aborts + 1002);
    assert_eq!((after.used, after.forgotten, after.aborts), expected);
}

#[test]
fn a_counter_that_counts_on_keeps_its_name_and_those_of_the_tracks_above_it() {
    let mut carried = CarryOver::default().keep_descriptions(8 << 10);
    let child = |uuid, parent, name| {
        let mut descriptor = Vec::new();
        let Ok(()) = descriptor.varint(1, uuid);
        let Ok(()) = descriptor.varint(5, parent);
        let Ok(()) = descriptor.string(2, name);
        let Ok(()) = descriptor.bytes(8, &[]);
        let mut packet = vec![0x50, 2];
        let Ok(()) = packet.bytes(60, &descriptor);
        packet
    };
    carried.fold(&framed(&[STATE, &track(1, "top", false), &child(2, 1, "middle"), &child(7, 2, "counter")]));
    for number in 0..1000 {
        // The sequence forgets what it has described with each state.
        let other = track(100 + number, "another", false);
        carried.fold(&framed(&[STATE, &other, &value(7, number), &event(100, 3, 1)]));
    }
    let stats = carried.kept().expect("it keeps");
    assert!(stats.forgotten > 500, "{stats:?}");
    let (trace, _) = begun(&mut carried);
    let read = Trace::of(&trace).expect("a trace");
    for name in ["top", "middle", "counter"] {
        assert!(read.tracks().any(|track| track.name() == name), "{name}");
    }
}

#[test]
fn a_state_that_never_ends_does_not_fill_up_with_lines_of_a_log() {
    let mut carried = CarryOver::default();
    carried.fold(&framed(&[STATE, &naming(5, 3, 1, "early")]));
    for number in 1..5000_u64 {
        let (mut line, mut names, mut packet) = (Vec::new(), Vec::new(), vec![0x68, 2, 0x50, 2]);
        let Ok(()) = line.varint(1, number);
        let Ok(()) = line.string(2, &format!("line {number} {}", "x".repeat(50)));
        let Ok(()) = names.bytes(20, &line);
        let Ok(()) = packet.bytes(12, &names);
        carried.fold(&framed(&[&packet]));
    }
    let (mut trace, _) = begun(&mut carried);
    carried.pass(&framed(&[&event(5, 3, 1)]), None, &mut trace);
    assert_eq!(instants(&trace), told(&[("early", 1100)]));
    assert!(trace.len() < 64 << 10);
}

#[test]
fn whatever_producers_write_takes_no_more_memory_and_comes_out_as_packets() {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut carried = CarryOver::default().keep_descriptions(8 << 10);
    for round in 0..300 {
        let mut packets = Vec::new();
        for _ in 0..40 {
            let sequence = next(4) as u8 + 2;
            let bits = next(63);
            let uuid = next(1 << bits);
            let mut packet = match next(6) {
                0 => STATE.to_vec(),
                1 => track(uuid, &"n".repeat(next(300) as usize), next(2) == 0),
                2 => value(uuid, next(u64::MAX)),
                3 => (0..next(60)).map(|_| next(256) as u8).collect(),
                4 => vec![0x68, 2, 0x5A, 4, 0x48, 4, 0xF1, 2],
                _ => naming(next(128) as u8, next(5) as u8, next(128) as u8, "name"),
            };
            packet.extend([0x50, sequence]);
            let Ok(()) = packets.bytes(1, &packet);
        }
        if next(5) == 0 {
            let at = next(packets.len() as u64) as usize;
            packets[at] = next(256) as u8;
        }
        match next(3) {
            0 => carried.fold(&packets),
            1 => _ = carried.pass(&packets, None, &mut Vec::new()),
            _ => carried = carried.clone(),
        }
        let stats = carried.kept().expect("it keeps");
        assert!(stats.used <= 8 << 10 && stats.high_water <= 8 << 10, "{stats:?}");
        if round % 10 == 0 {
            let (trace, packets) = begun(&mut carried);
            assert_eq!(
                TracePackets::new(&trace).collect::<Result<Vec<_>, _>>().expect("whole packets").len() as u64,
                packets + 1
            );
        }
    }
    assert!(carried.kept().is_some_and(|kept| kept.patches > 100 && kept.forgotten > 0));
}
