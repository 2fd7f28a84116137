//! Snapshots of what was recorded from a moment on.

use tracebuf_session::Session;
use tracebuf_testing::trace::{message, number};

use super::Trace;

fn trace_of(bytes: Vec<u8>, name: &str) -> Trace {
    let path = tracebuf_testing::trace::scratch(name);
    std::fs::write(&path, bytes).expect("a file");
    Trace::read(&path)
}

#[test]
fn what_is_written_counts_what_stays_however_many_pieces_it_is_read_in() {
    let session = Session::builder().ring(16 << 20).shared_memory(8 << 20).start().expect("a session");
    let recorder = session.recorder();
    let text = "x".repeat(60);
    let record =
        |value: i64| recorder.instant_with("event", |event| event.arg("text", text.as_str()).arg("n", value));
    // More than three pieces before the moment, and one and a half from it on.
    (0..40_000).for_each(record);
    let moment = session.now();
    (40_000..60_000).for_each(record);
    let snapshot = || session.snapshot().expect("a snapshot");
    for (from, name) in [(0, "all"), (moment, "half"), (u64::MAX, "none")] {
        let mut bytes = Vec::new();
        let written = snapshot().since(from).write(&mut bytes).expect("memory");
        assert_eq!(written.bytes, bytes.len() as u64, "{name}");
        let trace = trace_of(bytes, &format!("since-{name}.pftrace"));
        assert_eq!(written.packets, trace.packets().count() as u64, "{name}");
        let events = trace.events(3);
        let expected = match name {
            "all" => 60_000,
            "half" => 20_000,
            _ => 0,
        };
        assert!((expected..expected + 2).contains(&events), "{name}: {events}");
        assert_eq!(written.invalid_packets, 0);
    }
    let mut all = Vec::new();
    let written = snapshot().write(&mut all).expect("memory");
    assert_eq!(
        (written.bytes, written.packets),
        (all.len() as u64, trace_of(all, "since-whole.pftrace").packets().count() as u64)
    );
}

#[test]
fn increments_of_a_counter_stay_though_its_writer_has_changed_its_clock_and_names_the_track_no_more() {
    const INCREMENTAL: u64 = 7;
    const PLAIN: u64 = 8;
    for (track, stays) in [(INCREMENTAL, true), (PLAIN, false)] {
        let session = Session::builder().start().expect("a session");
        let mut writer = session.recorder().packet_writer().expect("a writer");
        for (uuid, is_incremental) in [(INCREMENTAL, 1), (PLAIN, 0)] {
            writer.packet(|packet| {
                let mut described = packet.message(60);
                described.varint(1, uuid);
                described.message(8).varint(5, is_incremental);
            });
        }
        // A state: times of a clock of its own, events of this track unless they name another.
        writer.packet(|packet| {
            packet.varint(13, 1);
            {
                let mut defaults = packet.message(59);
                defaults.varint(58, 64);
                defaults.message(11).varint(11, track);
            }
            let mut snapshot = packet.message(6);
            for (clock, is_own) in [(64, 1), (6, 0)] {
                let mut read = snapshot.message(1);
                read.varint(1, clock);
                read.varint(2, 1000);
                read.varint(3, is_own);
            }
        });
        // Boot time from here on; of the track nothing is said.
        writer.packet(|packet| packet.message(59).varint(58, 6));
        writer.packet(|packet| {
            packet.varint(8, 2000);
            packet.varint(13, 2);
            let mut event = packet.message(11);
            event.varint(9, 4);
            event.varint(30, 5);
        });
        let mut bytes = Vec::new();
        session.snapshot().expect("a snapshot").since(session.now()).write(&mut bytes).expect("memory");
        let trace = trace_of(bytes, "since-counter.pftrace");
        let is_value = |packet: &&[u8]| message(packet, 11).and_then(|event| number(event, 30)) == Some(5);
        assert_eq!(trace.packets().filter(is_value).count(), usize::from(stays), "track {track}");
    }
}
