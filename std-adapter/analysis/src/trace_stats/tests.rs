//! Tests of the report on a trace.

use super::*;

fn packet(fields: &[u8]) -> Vec<u8> {
    [&[0x0A, fields.len() as u8], fields].concat()
}

#[test]
fn a_whole_trace_without_losses_says_so() {
    // sequence 2; statistics with an empty buffer
    let trace = [packet(&[0x50, 2]), packet(&[0x50, 1, 0x9A, 0x02, 2, 0x0A, 0])].concat();
    let report = TraceReport::of(&trace);
    assert!(!report.has_losses(), "{report}");
    assert!(report.to_string().ends_with("nothing was lost"));
}

#[test]
fn of_packets_that_are_compressed_it_is_said_that_what_they_tell_is_not_known() {
    let statistics = packet(&[0x50, 1, 0x9A, 0x02, 2, 0x0A, 0]);
    // With deflate and with zstd.
    for field in [[0x92, 0x03, 2, 1, 2], [0xAA, 0x08, 2, 1, 2]] {
        let trace = [packet(&[0x50, 2]), packet(&field)].concat();
        let report = TraceReport::of(&trace);
        assert_eq!((report.packets, report.compressed), (2, 1));
        let said = report.to_string();
        assert!(said.contains("\ncompressed: 1 packet with others within\n  what those tell"), "{said}");
        assert!(said.ends_with("no statistics beside them"), "{said}");
        let report = TraceReport::of(&[trace, statistics.clone()].concat());
        assert!(report.has_losses() && report.to_string().contains(COMPRESSED), "{report}");
    }
}

#[test]
fn what_the_kernel_lost_is_told() {
    let statistics = packet(&[0x50, 1, 0x9A, 0x02, 2, 0x0A, 0]);
    // Events of processor 2, with or without some lost before them; the last value of a field counts.
    for (bundle, lost) in [(&[8, 2, 24, 1][..], 1), (&[8, 2, 24, 0], 0), (&[24, 1, 24, 0], 0), (&[8, 2], 0)] {
        let ftrace = packet(&[&[0x50, 2, 0x0A, bundle.len() as u8], bundle].concat());
        let report = TraceReport::of(&[ftrace, statistics.clone()].concat());
        assert_eq!((report.ftrace_lost, report.has_losses()), (lost, lost > 0), "{bundle:?}");
        let said = report.to_string();
        assert_eq!(
            said.contains("\nftrace: events lost before 1 packet\n  the kernel's buffer"),
            lost > 0,
            "{said}"
        );
    }
}

#[test]
fn every_cause_has_its_name_and_something_to_do() {
    for (cause, name) in DataLoss::CAUSES {
        let bits = cause.bits() | 1;
        let trace = packet(&[0x50, 2, 0xD0, 0x02, bits as u8 | 0x80, (bits >> 7) as u8]);
        let text = TraceReport::of(&trace).to_string();
        assert!(text.contains(&format!("{name}: before 1 packet\n")), "{text}");
        assert!(text.contains(advice(cause)) && !text.contains("no cause"), "{text}");
    }
}

#[test]
fn a_loss_that_names_no_cause_is_listed_too() {
    // With only the bit of every loss, with one that is no cause (512), and with both a cause and that.
    for (loss, unnamed) in [([0x81, 0], 1), ([0x80, 4], 1), ([0xC0, 4], 0), ([0x80, 0], 0)] {
        // sequence 2; statistics with an empty buffer
        let field = [0x50, 2, 0xD0, 0x02, loss[0], loss[1]];
        let trace = [packet(&[0x50, 2]), packet(&field), packet(&[0x50, 1, 0x9A, 0x02, 0])].concat();
        let report = TraceReport::of(&trace);
        assert_eq!(report.sequences[&2].unnamed, unnamed, "{loss:?}");
        let block = format!(
            "\nno cause named: before 1 packet\n  {}\n  sequence 2: 1 of its 2 packets\nwhat else",
            advice(DataLoss::ANY)
        );
        assert_eq!(report.to_string().contains(&block), unnamed > 0, "{report}");
    }
}

#[test]
fn counters_of_losses_are_told_with_their_buffer() {
    // two buffers, the second with chunks_overwritten 5; invalid_packets 2
    let stats = [0x0A, 2, 0x10, 9, 0x0A, 2, 0x18, 5, 0x50, 2];
    let trace = packet(&[&[0x9A, 0x02, stats.len() as u8][..], &stats].concat());
    let report = TraceReport::of(&trace);
    let counted = report.statistics.as_deref().expect("statistics");
    let said: Vec<_> = counted.iter().map(|counted| (counted.name, counted.buffer, counted.value)).collect();
    assert_eq!(said, [("chunks_overwritten", Some(1), 5), ("invalid_packets", None, 2)]);
}

#[test]
fn a_process_of_a_negative_number_is_told_by_it() {
    let minus_two = [0xF8, 0x04, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1];
    let report = TraceReport::of(&packet(&[&[0x50, 2, 0xD0, 0x02, 65], &minus_two[..]].concat()));
    assert_eq!(report.sequences[&2].pid, Some(-2));
    assert!(report.to_string().contains("sequence 2, process -2: "), "{report}");
}

#[test]
fn sequences_beyond_the_most_are_told_together() {
    // The number in three bytes; overwrite; a process.
    let packet_of = |id: u32| {
        let number = [id as u8 | 0x80, (id >> 7) as u8 | 0x80, (id >> 14) as u8];
        packet(&[&[0x50], &number[..], &[0xD0, 0x02, 65, 0xF8, 0x04, 9]].concat())
    };
    let most = MAX_SEQUENCES as u32;
    let trace: Vec<u8> = (0..most).chain([most, 0, most + 1]).flat_map(packet_of).collect();
    let (few, many) = (TraceReport::of(&trace[..trace.len() - 3 * 12]), TraceReport::of(&trace));
    assert_eq!((few.sequences.len(), &few.others), (MAX_SEQUENCES, &SequenceLosses::default()));
    assert_eq!((many.sequences.len(), many.sequences[&0].packets), (MAX_SEQUENCES, 2));
    let others = &many.others;
    assert_eq!((others.packets, others.after_loss, others.pid), (2, 2, None));
    let said = many.to_string();
    assert!(said.starts_with("65539 packets of more than 65536 sequences, "), "{said:.99}");
    assert!(said.contains("overwrite: before 65539 packets\n"), "{said:.999}");
    assert_eq!(said.matches("  all other sequences: 2 of their 2 packets\n").count(), 1);
    let said = few.to_string();
    assert!(said.starts_with("65536 packets of 65536 sequences, ") && !said.contains("all other"));
    // Their losses count too.
    let rest = [0x50, 0, 0x9A, 0x02, 2, 0x0A, 0];
    let clean = (0..most).flat_map(|id| packet(&[&[0x50], &packet_of(id)[3..6]].concat()));
    let trace: Vec<u8> = clean.chain(packet(&rest)).collect();
    assert!(!TraceReport::of(&trace).has_losses());
    assert!(TraceReport::of(&[trace, packet_of(most)].concat()).has_losses());
}

#[test]
fn a_cut_or_malformed_trace_is_told_as_far_as_it_goes() {
    let whole = packet(&[0x50, 2]);
    for len in 1..whole.len() {
        let trace = [&whole[..], &whole[..len]].concat();
        let report = TraceReport::of(&trace);
        assert_eq!((report.packets, report.rest), (1, len as u64));
        assert!(report.has_losses());
    }
    assert_eq!(TraceReport::of(b"no trace at all").packets, 0);
    assert_eq!(TraceReport::of(&packet(&[0xFF; 20])).packets, 1);
}

#[test]
fn a_sequence_is_told_with_the_thread_that_wrote_it() {
    let field = |tag: u8, inside: &[u8]| [&[tag, inside.len() as u8], inside].concat();
    let track = |thread: &[u8]| packet(&[&[0x50, 2, 0xE2, 0x03, thread.len() as u8], thread].concat());
    let loss = packet(&[0x50, 2, 0xD0, 0x02, 65]);
    let named = |name: &[u8]| track(&field(0x22, &field(0x2A, name)));
    for (tracks, told) in [
        (vec![], "sequence 2: "),
        // A track that is no thread's, and then two that are: the first of these is its own.
        (
            vec![track(&field(0x12, b"gpu")), named(b"worker"), named(b"other")],
            "sequence 2, thread \"worker\": ",
        ),
        (
            vec![track(&[field(0x12, b"outer"), field(0x22, &[8, 1])].concat())],
            "sequence 2, thread \"outer\": ",
        ),
        (vec![named(b""), named(b"\x1B[2J")], "sequence 2, thread \"\\u{1b}[2J\": "),
    ] {
        let report = TraceReport::of(&[tracks.concat(), loss.clone()].concat());
        assert!(report.to_string().contains(told), "{report}");
    }
    let long = TraceReport::of(&named(&[b'x'; 100]));
    assert_eq!(long.sequences[&2].thread.as_deref(), Some(&*"x".repeat(64)));
}
