//! `replay`: scripts of operations as text. Whatever a script contains, it ends with a result or a line's number, and
//! gives the same output when it is run again.

use tracebuf_conformance::replay::{Replay, ReplayError, ReplaySummary};

/// Copies of a buffer take megabytes each, for their tables.
const MOST_CLONES: usize = 4;

fn replay(script: &[u8]) -> (Vec<u8>, Result<ReplaySummary, ReplayError>) {
    let mut output = Vec::new();
    let result = Replay::new(&mut output).run(script);
    (output, result)
}

/// Runs one input.
pub fn run(data: &[u8]) {
    if data.windows(5).filter(|window| window == b"clone").count() > MOST_CLONES {
        return;
    }
    let (output, result) = replay(data);
    let (again, same) = replay(data);
    assert_eq!(output, again);
    assert_eq!(result.is_ok(), same.is_ok());
    let count = |word: &str| {
        output.split(|byte| *byte == b'\n').filter(|line| line.starts_with(word.as_bytes())).count() as u64
    };
    match result {
        Ok(summary) => {
            assert_eq!(count("pkt "), summary.read.packets);
            assert_eq!(count("cpkt "), summary.cloned.packets);
            let ends = ["ok", "fail", "patch ", "end", "limit", "cend", "stats ", "oend"];
            assert_eq!(ends.map(count).iter().sum::<u64>(), summary.operations);
            let commits = &summary.commits;
            let chunks = commits.written
                + commits.rewritten
                + commits.relocated
                + commits.unchanged
                + commits.discarded
                + commits.refused;
            assert!(chunks <= count("ok"));
            let _ = summary.to_string();
        }
        Err(ReplayError::Line { number, ref reason, .. }) => {
            let lines = data.split(|byte| *byte == b'\n').count() as u64;
            assert!((1..=lines).contains(&number), "{reason}");
        }
        Err(ReplayError::Clone(_)) => {}
        Err(error) => panic!("{error}"),
    }
}
