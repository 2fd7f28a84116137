//! The judge of `exact/`, and of `recorded/` where the reference's output is there: a replay's output against the output
//! recorded from the reference.
//!
//! Compared are every packet line in order (producer, writer, uid, pid, slice count, bytes), the ends of reads, patch
//! results, and the counters that do not depend on how a buffer lays out its chunks.  The loss mask must be the same,
//! except in the class `malformed`: there the reference cuts a chunk short without saying so and reports an aborted
//! packet too early, so ours may say nothing or more.

use std::collections::BTreeMap;

/// Counters that have the same values for any layout of the chunks, by class.
fn counters(class: &str) -> Result<&'static [&'static str], String> {
    Ok(match class {
        // The recorded ones never wrap.
        "clean" | "patches" | "ooo" | "track_events" | "big_packets" => &[
            "chunks_written",
            "chunks_rewritten",
            "chunks_committed_out_of_order",
            "chunks_discarded",
            "chunks_read",
            "patches_succeeded",
            "patches_failed",
            "abi_violations",
            "trace_writer_packet_loss",
            "chunks_overwritten",
        ],
        "malformed" => &[
            "chunks_written",
            "chunks_discarded",
            "patches_succeeded",
            "patches_failed",
            "abi_violations",
            "trace_writer_packet_loss",
        ],
        _ => return Err(format!("which counters of the class {class} are compared is not said")),
    })
}

/// The lines that are compared, as fields.  The reference emits a packet for two empty fragments, which says nothing:
/// such lines are left out.
fn rows(output: &str) -> Vec<Vec<&str>> {
    const COMPARED: [&str; 7] = ["pkt", "cpkt", "end", "cend", "limit", "patch", "stats"];
    let fields = output.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    fields
        .filter(|row| row.first().is_some_and(|kind| COMPARED.contains(kind)))
        .filter(|row| !(is_packet(row) && row.get(6) == Some(&"0")))
        .collect()
}

fn is_packet(row: &[&str]) -> bool {
    matches!(row.first(), Some(&"pkt" | &"cpkt"))
}

fn shown(row: &[&str]) -> String {
    row.join(" ").chars().take(100).collect()
}

fn values<'a>(row: &[&'a str]) -> BTreeMap<&'a str, &'a str> {
    row.iter().skip(1).filter_map(|pair| pair.split_once('=')).collect()
}

/// Describes the first difference, if there is one.
pub(crate) fn compare(class: &str, expected: &str, output: &str) -> Result<(), String> {
    let (expected, output) = (rows(expected), rows(output));
    for (number, (wanted, got)) in expected.iter().zip(&output).enumerate() {
        let differ = || Err(format!("row {number}: expected {}, got {}", shown(wanted), shown(got)));
        if wanted.first() != got.first() {
            return differ();
        }
        if is_packet(wanted) {
            if wanted.get(1..5) != got.get(1..5) || wanted.get(6..) != got.get(6..) {
                return differ();
            }
            let mask = |row: &[&str]| row[5].parse::<u32>().expect("a loss mask");
            let (mask_wanted, mask_got) = (mask(wanted), mask(got));
            let excused = class == "malformed" && (mask_got == 0 || mask_got & 1 == 1);
            if mask_wanted != mask_got && !excused {
                return Err(format!(
                    "row {number}: loss mask: expected {mask_wanted}, got {mask_got} ({})",
                    shown(wanted)
                ));
            }
        } else if wanted.first() == Some(&"stats") {
            let (all_wanted, all_got) = (values(wanted), values(got));
            for counter in counters(class)? {
                let (value_wanted, value_got) = (all_wanted.get(counter), all_got.get(counter));
                if value_wanted != value_got {
                    return Err(format!(
                        "row {number}: {counter}: expected {value_wanted:?}, got {value_got:?}"
                    ));
                }
            }
        } else if wanted != got {
            return differ();
        }
    }
    if expected.len() != output.len() {
        return Err(format!("expected {} rows, got {}", expected.len(), output.len()));
    }
    Ok(())
}
