//! What `tracebuf recover` says, in its trace too, of memory that something else has written into.

use tracebuf_analysis::trace_stats::TraceReport;

use super::shared::{BEFORE, PAGE, memory};
use super::{recover, region};

/// How many chunks the trace's statistics have as such that break the rules.
fn told(trace: &[u8]) -> u64 {
    let report = TraceReport::of(trace);
    let counted = report.statistics.as_ref().expect("they are complete");
    let broken: u64 =
        counted.iter().filter(|counted| counted.name == "abi_violations").map(|counted| counted.value).sum();
    assert_eq!(report.has_losses(), broken > 0, "{report}");
    broken
}

#[test]
fn shared_memory_whose_mark_is_gone_is_told_with_what_to_do_whatever_the_ring_has() {
    for moved in [0, 2] {
        let good = memory(4096, |start| {
            start.say(0, 0..10);
            start.drain(moved);
            start.say(0, 10..48);
            start.say(1, 0..10);
        });
        // In the first start's place, and behind something else in memory.
        for (before, mark) in [(0, 0), (40, 0), (16, 0xFF), (8, 0xA5)] {
            let mut dump = [&vec![0xEE; before][..], &good].concat();
            let (ok, said, trace) = recover("marked", &dump, &[]);
            assert!(ok && said.contains("brought in\n58 packets") && told(&trace) == 0, "{said}");
            dump[before..before + 8].fill(mark);
            let (ok, said, trace) = recover("unmarked", &dump, &[]);
            let chunks = told(&trace);
            let gone =
                "before the buffer are not in the trace; keep the first 8 bytes of the recorder's memory";
            assert!(!ok && said.contains(&format!("start mark is gone, so {chunks} chunk")), "{said}");
            assert!(said.contains(gone) && chunks >= 2, "{said}");
        }
    }
    // Nothing is made up where there was nothing.
    for before in [vec![0; 4096], vec![0xFF; 4096], b"some text, and more ".repeat(200), region().repeat(4)] {
        let (ok, said, trace) =
            recover("no-mark", &[&before[..], &region()].concat(), &["--address", &before.len().to_string()]);
        assert!(ok && !said.contains("shared memory") && told(&trace) == 0, "{said}");
    }
}

#[test]
fn pages_that_were_overwritten_are_told_and_counted_in_the_trace() {
    let good = memory(2048, |start| start.say(0, 0..100));
    for (first, pages) in [(0, 1), (0, 4), (1, 3)] {
        let mut dump = good.clone();
        dump[8 + PAGE as usize * first..][..PAGE as usize * pages].fill(0xA5);
        let (ok, said, trace) = recover("overwritten", &dump, &[]);
        let page = if pages == 1 { "page" } else { "pages" };
        assert!(!ok && said.contains(&format!("{pages} {page} overwritten by something else")), "{said}");
        assert_eq!(told(&trace), pages as u64);
    }
    // Only what is within a chunk: its header, which has a writer that nobody has, and its packets.
    let mut dump = good.clone();
    let chunk = 8 + 8;
    dump[chunk + 8..chunk + 16].fill(0xFF);
    let (ok, said, trace) = recover("overwritten", &dump, &[]);
    assert!(!ok && told(&trace) > 0, "{said}");
}

#[test]
fn a_ring_that_cannot_be_read_and_a_last_chunk_that_is_dropped_are_losses_that_nothing_after_them_tells() {
    let (table, good) = (256 + 4 * 48, region());
    for (from, to, kept) in
        [(table, good.len(), 0), (table + 64 + 24, table + 96, 2), (table + 1, table + 32, 1)]
    {
        let mut dump = good.clone();
        dump[from..to].iter_mut().for_each(|byte| *byte ^= 0x5A);
        let (ok, said, trace) = recover("unreadable", &dump, &[]);
        assert!(!ok && said.contains(&format!("{kept} packet")) && told(&trace) > 0, "{said}");
    }
    // As those of a buffer before the ring.
    let mut dump = memory(4096, |start| {
        start.say(0, 0..300);
        start.drain(9);
    });
    assert!(recover("whole", &dump, &[]).0);
    let end = BEFORE + 256 + 4 * 48;
    dump[end..end + 200].fill(0x11);
    let (ok, said, trace) = recover("part", &dump, &[]);
    assert!(!ok && told(&trace) > 0, "{said}");
}
