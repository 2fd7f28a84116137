//! Tests of tracks: their descriptions, and the room that they take.

use std::collections::HashSet;
use std::time::Duration;

use tracebuf::producer::Exhaustion;
use tracebuf::proto::{TracePackets, varint};

use super::*;
use tracebuf::proto::reader::Fields;
use tracebuf_session::Session;

const RING: u64 = 64 << 10;

fn start() -> (Session, Tracks) {
    let session = Session::builder().ring(RING).exhaustion(Exhaustion::Stall).start().expect("a session");
    let tracks = Tracks::new(&session.recorder(), session.side_packets(), RING).expect("two writers");
    (session, tracks)
}

#[test]
fn nothing_but_values_takes_room_in_the_ring() {
    let (session, mut tracks) = start();
    for time in 0..20 {
        for number in 0..400 {
            let group = tracks.group(&format!("group {}", number / 50));
            let counter = tracks.counter(group, &format!("counter {number}"), CounterKind::Count);
            tracks.value(counter, time, 1.0);
        }
    }
    assert_eq!((tracks.machine.stats().packets, tracks.events), (8000, 8000));
    // It has gone round, and holds fewer than there are.
    assert_eq!(session.side_packets().len(), 408);
    drop((tracks, session));
}

#[test]
fn values_that_were_dropped_are_not_counted() {
    const RING: u64 = 16 << 20;
    // Two chunks, which are full before anybody takes them.
    let session = Session::builder().ring(RING).shared_memory(4096).start().expect("a session");
    let mut tracks = Tracks::new(&session.recorder(), session.side_packets(), RING).expect("two writers");
    let group = tracks.group("group");
    let counter = tracks.counter(group, "counter", CounterKind::Count);
    let mut time = 0;
    while tracks.dropped() < 100 {
        tracks.value(counter, time, 1.0);
        time += 1;
    }
    let events = tracks.events;
    assert!(events < time, "{events} of {time}");
    drop(tracks);
    session.flush(Duration::from_secs(5)).expect("a flush");
    let mut trace = Vec::new();
    session.snapshot().expect("a snapshot").write(&mut trace).expect("memory");
    let is_value = |packet: &&[u8]| Fields::of(packet).any(|field| field.number == trace_packet::TRACK_EVENT);
    let packets = TracePackets::new(&trace).map(|packet| packet.expect("a packet"));
    assert_eq!(packets.filter(is_value).count() as u64, events);
}

/// What is beside the ring, as text.
fn described(session: &Session) -> String {
    let mut trace = Vec::new();
    session.snapshot().expect("a snapshot").write(&mut trace).expect("memory");
    String::from_utf8_lossy(&trace).into_owned()
}

#[test]
fn a_pid_used_again_is_another_track_and_a_process_that_runs_another_program_is_not() {
    let (session, mut tracks) = start();
    let first = tracks.process(7, 100, "cargo");
    assert_eq!(first.0, tracebuf_session::parts::process_track(7, "").uuid());
    assert_eq!(tracks.process(7, 100, "clippy"), first);
    let second = tracks.process(7, 200, "rustc");
    assert!(second != first && second != tracks.process(7, 300, "rustc"));
    for process in [first, second] {
        let counter = tracks.counter(process, "memory", CounterKind::Count);
        tracks.value(counter, 0, 1.0);
    }
    assert_eq!([tracks.process(7, 100, "cargo"), tracks.process(7, 200, "rustc")], [first, second]);
    // One that others, too, know by its pid alone.
    tracks.programs([7].into_iter());
    assert_eq!(tracks.process(7, 400, "a program"), first);
    tracks.programs(std::iter::empty());
    assert_eq!(tracks.process(7, 400, "a program"), first);
    drop((tracks, session));
}

#[test]
fn a_program_s_track_with_the_name_of_a_group_is_another_one() {
    let (session, mut tracks) = start();
    let group = tracks.group("Network");
    assert_ne!(group.0, Track::custom("Network").uuid());
    assert!(tracks.group("Network") == group && tracks.group("Disk") != group);
    drop((tracks, session));
}

#[test]
fn programs_that_record_have_the_names_that_they_give_themselves() {
    let (session, tracks) = start();
    let mut tracks = tracks.named(5, "session");
    let value = |tracks: &mut Tracks, pid, name| {
        let process = tracks.process(pid, 0, name);
        let counter = tracks.counter(process, "memory", CounterKind::Count);
        tracks.value(counter, 0, 1.0);
    };
    value(&mut tracks, 5, "comm-of-own");
    value(&mut tracks, 6, "comm-of-early");
    value(&mut tracks, 7, "comm-of-other");
    tracks.programs([6, 8].into_iter());
    value(&mut tracks, 8, "comm-of-late");
    let text = described(&session);
    let has = ["session", "comm-of-other", "comm-of-own", "comm-of-early", "comm-of-late"];
    assert_eq!(has.map(|name| text.contains(name)), [true, true, false, false, false], "{text}");
    // But for those that have said nothing in the end.
    tracks.silent([8, 9].into_iter());
    let text = described(&session);
    assert_eq!(has.map(|name| text.contains(name)), [true, true, false, false, true], "{text}");
    drop((tracks, session));
}

#[test]
fn tracks_that_end_are_described_as_long_as_values_of_theirs_are_left_and_then_forgotten() {
    let (session, mut tracks) = start();
    let mut counters = Vec::new();
    for time in 0..200 {
        // Each of them has ten values.
        for pid in 4 * time..4 * time + 40 {
            let process = tracks.process(pid, 0, "process");
            let counter = tracks.counter(process, "memory", CounterKind::Count);
            tracks.value(counter, time.into(), 1.0);
            counters.push(counter);
        }
    }
    // Of about 1,700.
    assert!(tracks.entries.len() < 1000, "{} tracks", tracks.entries.len());
    assert_eq!(tracks.entries.len(), session.side_packets().len());
    drop(tracks);
    session.flush(Duration::from_secs(5)).expect("a flush");
    let mut trace = Vec::new();
    session.snapshot().expect("a snapshot").write(&mut trace).expect("memory");
    let packets = TracePackets::new(&trace).map(|packet| packet.expect("a packet"));
    // A tag and a number of 49 bits, which is nowhere by chance.
    let parts: HashSet<&[u8]> = packets.flat_map(|packet| packet.windows(8)).collect();
    let is_there = |field: u32, track: &TrackId| {
        let mut part = [(field << 3) as u8; 8];
        assert_eq!(varint::encode(track.0, &mut part[1..]), Some(7));
        parts.contains(&part[..])
    };
    counters.sort_by_key(|track| track.0);
    counters.dedup();
    let left: Vec<_> = counters.iter().filter(|track| is_there(track_event::TRACK_UUID, track)).collect();
    assert!(left.len() > 40 && left.len() < counters.len() / 2, "{} of {}", left.len(), counters.len());
    assert!(left.iter().all(|track| is_there(track_descriptor::UUID, track)));
}

#[test]
fn a_track_is_described_from_its_first_value_on() {
    let (session, mut tracks) = start();
    let process = tracks.process(7, 100, "sh");
    let counter = tracks.counter(process, "memory", CounterKind::Count);
    for time in [700, 800] {
        tracks.value(counter, time, 1.0);
    }
    let mut trace = Vec::new();
    session.snapshot().expect("a snapshot").write(&mut trace).expect("memory");
    let packets = TracePackets::new(&trace).map(|packet| packet.expect("a packet"));
    let described = packets.filter_map(|packet| {
        let track = tracebuf::proto::reader::message(packet, trace_packet::TRACK_DESCRIPTOR)?;
        let number = tracebuf::proto::reader::number;
        let is_one = [process.0, counter.0].contains(&number(track, track_descriptor::UUID)?);
        is_one.then(|| number(packet, trace_packet::TIMESTAMP))
    });
    assert_eq!(described.collect::<Vec<_>>(), [Some(700), Some(700)]);
    drop(tracks);
}
