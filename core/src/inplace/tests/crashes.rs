//! Resets before any store.

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::vec::Vec;

use super::super::{Recorder, Region};
use super::{by_writer, dump};
use crate::atomics::watched::stopped_at;

type Trace = Region<16, 16, 4, 32>;

/// Some of everything, over a ring that laps. Each event that has returned is noted.
fn work(region: &'static Trace, done: &mut Vec<String>) {
    let recorder = Recorder::attach_or_new(region, || 7, 1_000).0;
    let writer = recorder.writer("w");
    for value in 0..60 {
        writer.count_i64("n", value);
        done.push(format!("n {value}"));
        writer.instant_with("x", |details| {
            details.arg("value", value as i32).arg_text("text", "some text");
        });
        done.push(format!("value={value}"));
        done.push("text=some text".into());
        done.push("instant x".into());
        writer.count("i", value as i32);
        done.push(format!("i {value}"));
        writer.end();
        done.push("end".into());
    }
    core::mem::forget(writer);
}

#[test]
fn what_was_finished_is_found_after_a_reset_before_any_store() {
    static TRACE: Trace = Region::zeroed();
    let mut stores = 1;
    loop {
        let _ = Recorder::new(&TRACE, || 7, 1_000);
        let mut done = Vec::new();
        let has_ended = !stopped_at(stores, || work(&TRACE, &mut done));
        // As the dump shows it, and as the next start finds it.
        for start in [0, 1] {
            if start == 1 {
                Recorder::attach_or_new(&TRACE, || 7, 1_000);
            }
            let all: BTreeMap<_, _> = by_writer(&dump(&TRACE));
            let told = all.get(&(2, 0)).or(all.get(&(1, 0)));
            let told: Vec<_> = told.into_iter().flatten().map(|(_, told)| told.clone()).collect();
            let told: Vec<_> = told.into_iter().filter(|told| told != "gap").collect();
            // What was about to be finished may be there too; nothing else may be missing at the end.
            let ends = (0..=4).any(|more| {
                let len = told.len().saturating_sub(more);
                let newest = &done[done.len().saturating_sub(len)..];
                told[..len] == *newest && (newest.len() >= done.len().min(20))
            });
            assert!(ends, "{stores}: {told:?} of {done:?}");
        }
        if has_ended {
            break;
        }
        stores += 1;
    }
    assert!(stores > 400, "{stores}");
}
