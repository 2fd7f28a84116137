//! Tests of what a report says of losses.

use super::*;
use tracebuf::service::ProducerIdentity;
use tracebuf_session::{LongTraceStatus, ProducerSummary};

fn report(ring: u64, summary: Summary) -> RecordReport {
    RecordReport {
        output: "trace.pftrace".into(),
        elapsed: Duration::from_secs(1),
        events: 0,
        cores: 1,
        processes: 1,
        programs: None,
        missing: Vec::new(),
        notes: Vec::new(),
        ftrace: None,
        command: None,
        dropped: 0,
        ring,
        written: Written::default(),
        summary,
    }
}

#[test]
fn a_file_that_the_disk_may_not_have_is_not_whole() {
    let long_trace = Some(with!(LongTraceStatus { error: Some("cannot sync: I/O error".into()) }));
    let report = report(4 << 20, with!(Summary { long_trace }));
    assert!(!report.is_whole());
    assert_eq!(report.losses(), ["perhaps the file, or its end: cannot sync: I/O error"]);
}

#[test]
fn files_that_the_machine_does_not_have_are_told() {
    let missing = vec!["/proc/diskstats".to_owned()];
    let told = RecordReport { missing, ..report(4 << 20, Summary::default()) }.to_string();
    assert!(told.lines().any(|line| line == "not available: /proc/diskstats"), "{told}");
}

#[test]
fn a_lost_packet_is_told_once() {
    // Two of values, and one of the looks at /proc.
    let stats = with!(BufferStats { trace_writer_packet_loss: 3 });
    let summary = with!(Summary { buffers: vec![stats] });
    let losses = |dropped| RecordReport { dropped, ..report(4 << 20, summary.clone()) }.losses();
    let values =
        |count: u64| format!("{} dropped: the drain thread did not run in time", Count(count, "packet"));
    assert_eq!(losses(2), [values(2), "1 packet given up by the writer".into()]);
    assert_eq!(losses(3), [values(3)]);
    // The buffer may not have taken the chunk that tells of one.
    assert_eq!(losses(4), [values(4)]);
    assert_eq!(losses(0), ["3 packets given up by the writer"]);
}

#[test]
fn a_chunk_that_came_after_it_was_read_is_no_loss_and_one_that_was_refused_is() {
    let mut stats = BufferStats::default();
    for (discarded, refused, told) in [(3, 0, &[][..]), (3, 1, &["1 chunk not taken"])] {
        (stats.chunks_discarded, stats.chunks_refused) = (discarded, refused);
        let summary = with!(Summary { buffers: vec![stats] });
        assert_eq!(report(4 << 20, summary).losses(), told);
    }
}

#[test]
fn a_program_that_did_not_answer_is_named() {
    let producer = |producer_id, has_answered| {
        with!(ProducerSummary {
            identity: Some(ProducerIdentity { producer_id, uid: 0, pid: i32::from(producer_id) * 100 }),
            has_answered,
        })
    };
    let producers = vec![producer(1, false), producer(2, true), producer(3, false)];
    let losses = report(4 << 20, with!(Summary { producers })).losses();
    assert_eq!(losses, ["perhaps the last packets of process 300, which did not answer"]);
}

#[test]
fn a_larger_ring_is_named_where_there_is_one() {
    let mut stats = BufferStats::default();
    (stats.chunks_overwritten, stats.write_wrap_count) = (1, 1);
    for (ring, with) in [(1 << 20, "with --ring 4MiB or --long"), (1 << 30, "with --long")] {
        let losses = report(ring, with!(Summary { buffers: vec![stats] })).losses();
        assert!(losses[0].ends_with(with), "{losses:?}");
    }
    // One of four times as much would lose some again.
    stats.bytes_overwritten = 1_200_000;
    let losses = report(4096, with!(Summary { buffers: vec![stats] })).losses();
    assert!(losses[0].ends_with("with --ring 2MiB or --long"), "{losses:?}");
    stats.bytes_overwritten = 0;
    // Four times as much is less than 4 GiB, and would be 4.0 GiB if it were rounded.
    let losses = report(1023 << 20, with!(Summary { buffers: vec![stats] })).losses();
    assert!(losses[0].ends_with("with --ring 3GiB or --long"), "{losses:?}");
}

#[test]
fn where_the_ring_was_not_full_its_places_are_told_of() {
    let (mut full, mut other) = (BufferStats::default(), BufferStats::default());
    (full.chunks_overwritten, full.bytes_overwritten, full.write_wrap_count) = (1, 2060, 1);
    (other.chunks_overwritten, other.bytes_overwritten) = (2, 4120);
    let losses = |buffers: &[BufferStats], long_trace| {
        report(4 << 20, with!(Summary { buffers: buffers.to_vec(), long_trace })).losses()
    };
    let no_place = "2 chunks (4 KiB) had to go, because more threads wrote than the ring has room to track";
    let told = format!("the beginning: {no_place}; record fewer programs, or with --ring 16MiB or --long");
    assert_eq!(losses(&[other], None), std::slice::from_ref(&told));
    // Each ring for itself.
    let of_full = "the beginning: 1 chunk (2 KiB) had to make room; record with --ring 16MiB or --long";
    assert_eq!(losses(&[other, full], None), [of_full.to_owned(), told]);
    let told = losses(&[other], Some(LongTraceStatus::default()));
    assert!(told[0].starts_with("in between: ") && !told[0].contains("record with"), "{told:?}");
}

#[test]
fn what_a_long_trace_lost_lies_in_between_and_only_a_larger_ring_helps() {
    let mut stats = BufferStats::default();
    (stats.chunks_overwritten, stats.bytes_overwritten, stats.write_wrap_count) = (2, 4096, 2);
    let long_trace = Some(LongTraceStatus::default());
    let summary = with!(Summary { buffers: vec![stats], long_trace });
    let lost = "in between: 2 chunks (4 KiB) had to make room before they were in the file";
    assert_eq!(report(4096, summary.clone()).losses(), [format!("{lost}; record with --ring 16KiB")]);
    assert_eq!(report(1 << 30, summary).losses(), [lost]);
}

#[test]
fn a_long_trace_is_to_have_a_ring_with_room_for_what_was_lost_in_a_period() {
    // Bytes lost in all, in so many seconds, from a ring of 4 KiB; and a ring with room for twice one second's
    // share.
    for (lost, seconds, ring) in [
        (908 << 10, 3.0, "1MiB"),
        (908 << 10, 3.9, "1MiB"),
        (908 << 10, 4.0, "512KiB"),
        (3600 * (300 << 10), 3600.0, "1MiB"),
        // Not more than all of it, and four times the ring at least.
        (908 << 10, 0.2, "1MiB"),
        (508 << 10, 1.0, "512KiB"),
        (9080, 10.0, "16KiB"),
    ] {
        let mut stats = BufferStats::default();
        (stats.chunks_overwritten, stats.bytes_overwritten, stats.write_wrap_count) = (1, lost, 1);
        let long_trace = Some(LongTraceStatus::default());
        let summary = with!(Summary { buffers: vec![stats], long_trace });
        let elapsed = Duration::from_secs_f64(seconds);
        let losses = RecordReport { elapsed, ..report(4096, summary) }.losses();
        assert!(losses[0].ends_with(&format!("; record with --ring {ring}")), "{losses:?} in {seconds} s");
    }
}
