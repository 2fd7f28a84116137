//! A judge of packets: true to what simulated writers wrote, or not.

use std::collections::{HashMap, HashSet};

use super::driver::{Real, Shown, apply_to_model};
use super::ops::{Op, Setup};
use super::writers::Truth;
use crate::model::{Model, Packet};

/// What is asked of the packets of a run.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// Once, in order, losses noticed: a table that had to forget a sequence cannot promise this.
    ordered: bool,
    /// A loss mask on a packet that directly follows its predecessor is a lie.
    truthful: bool,
    complete: bool,
}

/// Judges the packets of one kind of reading, in the order they came out.
fn judge(truth: &Truth, packets: &[Packet], asked: Asked) -> Result<(), String> {
    let mut next: HashMap<(u16, u16), usize> = HashMap::new();
    let mut came = 0;
    for packet in packets {
        let key = (packet.producer, packet.writer);
        let bytes = packet.bytes();
        let all = truth.written.iter().find(|(k, _)| *k == key).map_or(&[][..], |(_, all)| all);
        let Some(number) = all.iter().position(|p| p.as_ref() == Some(&bytes)) else {
            return Err(format!("intact: {packet:?} was never written"));
        };
        let next = next.entry(key).or_insert(0);
        if !asked.ordered {
            continue;
        }
        if number < *next {
            return Err(format!("order: {packet:?} is number {number}, {} was due", *next));
        }
        if number > *next && packet.loss == 0 {
            return Err(format!("noticed: {packet:?} is number {number}, {} was due, no loss told", *next));
        }
        if number == *next && packet.loss != 0 && asked.truthful {
            return Err(format!("truthful: {packet:?} is number {number}, as was due, but a loss is told"));
        }
        *next = number + 1;
        came += 1;
    }
    let wrote: usize = truth.written.iter().map(|(_, all)| all.iter().flatten().count()).sum();
    if asked.complete && came != wrote {
        return Err(format!("complete: {came} of {wrote} packets came out"));
    }
    Ok(())
}

/// Runs a case on a buffer and judges what its reads and each of its clones gave.
fn run(truth: &Truth, setup: &Setup, ops: &[Op], apply: &mut dyn FnMut(&Op) -> Shown) -> Result<(), String> {
    let small = truth.written.len() > usize::from(setup.table);
    let mut read = Vec::new();
    let mut refused = false;
    let mut stats = None;
    for op in ops {
        let shown = apply(op);
        if matches!(op, Op::Clone) {
            let asked = Asked { ordered: !small, truthful: false, complete: false };
            // A clone is a reader of its own: what comes before the first packet of a sequence may have been read already,
            // which is no loss.
            let mut begun = HashSet::new();
            let clean: Vec<_> = shown
                .packets
                .into_iter()
                .map(|p| if begun.insert((p.producer, p.writer)) { Packet { loss: 1, ..p } } else { p })
                .collect();
            judge(truth, &clean, asked).map_err(|why| format!("clone: {why}"))?;
            continue;
        }
        read.extend(shown.packets);
        stats = Some(shown.stats);
        refused |= shown.stats.chunks_refused > 0;
    }
    let wrapped = stats.is_none_or(|s| s.write_wrap_count > 0);
    let complete = !wrapped && !small && !setup.discard && !truth.reordered;
    if refused && !small {
        return Err(format!("refused: an honest chunk was: {stats:?}"));
    }
    judge(truth, &read, Asked { ordered: !small, truthful: true, complete })
}

pub fn judge_real(truth: &Truth, setup: &Setup, ops: &[Op]) -> Result<(), String> {
    let mut real = Real::new(setup);
    run(truth, setup, ops, &mut |op| real.apply(op))
}

pub fn judge_model(truth: &Truth, setup: &Setup, ops: &[Op]) -> Result<(), String> {
    let mut model = Model::new(u64::from(setup.ring), setup.discard, usize::from(setup.table));
    run(truth, setup, ops, &mut |op| apply_to_model(&mut model, op))
}
