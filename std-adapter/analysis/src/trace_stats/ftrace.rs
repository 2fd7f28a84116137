//! Losses of the kernel's ftrace: what `FtraceStats` tell of each processor's buffer.

use std::collections::BTreeMap;
use std::fmt;

use tracebuf::proto::fields::{ftrace_cpu_stats, ftrace_phase, ftrace_stats};
use tracebuf::proto::reader::{Field, FieldValue, Fields, messages, number};
use tracebuf_std::display::{Count, Escaped};

/// Processors that are listed: more than trace processor takes. A trace crafted for it has one every few bytes.
const MAX_CPUS: usize = 1024;
/// Names of events that are kept.
const MAX_NAMES: usize = 64;

/// What the kernel lost of a processor's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CpuLosses {
    /// Events that were overwritten before they were read.
    pub overwritten: u64,
    /// Events that found the buffer full.
    pub dropped: u64,
    /// Events that came within too many others.
    pub nested: u64,
}

const OVERWRITTEN: &str = "its buffer was full before it was read: give it more (--kernel-buffer of tracebuf record, \
                           buffer_size_kb of ftrace_config), read it more often (drain_period_ms), or record fewer events";
const DROPPED: &str =
    "its buffer was full and keeps its oldest events: give it more, or set the kernel's option overwrite";
const NESTED: &str =
    "events came within events, more deeply than the kernel records: record fewer events of interrupts";
const FAULTS: &str = "pages of the kernel could not be understood to their ends, and readers may refuse the trace: report it \
                      with the version of the kernel";

/// Losses of the kernel's ftrace that a trace tells of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FtraceLosses {
    /// By processor: from the first statistics in the trace to the last.
    pub cpus: BTreeMap<u32, CpuLosses>,
    /// Events that were asked for, and that the kernel does not have or did not enable: the first 64. No loss of what was
    /// recorded.
    pub not_recorded: Vec<String>,
    /// Kinds of faults in the kernel's pages.
    pub faults: u64,
}

/// The statistics of a trace so far.
#[derive(Debug, Default)]
pub(super) struct FtraceCounters {
    first: BTreeMap<u32, CpuLosses>,
    last: BTreeMap<u32, CpuLosses>,
    not_recorded: Vec<String>,
    faults: u64,
}

impl FtraceCounters {
    /// Takes the next packet of statistics.
    pub(super) fn add(&mut self, stats: &[u8]) {
        let is_start = number(stats, ftrace_stats::PHASE) == Some(ftrace_phase::START_OF_TRACE);
        for cpu in messages(stats, ftrace_stats::CPU_STATS) {
            let count = |field| number(cpu, field).unwrap_or(0);
            let counts = CpuLosses {
                overwritten: count(ftrace_cpu_stats::OVERRUN),
                dropped: count(ftrace_cpu_stats::DROPPED_EVENTS),
                nested: count(ftrace_cpu_stats::COMMIT_OVERRUN),
            };
            let cpu = count(ftrace_cpu_stats::CPU) as u32;
            if is_start && self.first.len() < MAX_CPUS {
                self.first.entry(cpu).or_insert(counts);
            } else if !is_start && self.last.len() < MAX_CPUS {
                self.last.insert(cpu, counts);
            }
        }
        let is_name =
            |field| matches!(field, ftrace_stats::UNKNOWN_FTRACE_EVENTS | ftrace_stats::FAILED_FTRACE_EVENTS);
        let mut faults = 0;
        for Field { number, value, .. } in Fields::of(stats) {
            match value {
                FieldValue::Bytes(name) if is_name(number) && self.not_recorded.len() < MAX_NAMES => {
                    let name = String::from_utf8_lossy(name.get(..64).unwrap_or(name)).into_owned();
                    if !self.not_recorded.contains(&name) {
                        self.not_recorded.push(name);
                    }
                }
                FieldValue::Number(_) if number == ftrace_stats::FTRACE_PARSE_ERRORS => faults += 1,
                _ => {}
            }
        }
        self.faults = self.faults.max(faults);
    }

    /// What was lost. Without statistics from the begin, all that the last ones tell: the buffers may be older than the
    /// trace.
    pub(super) fn losses(self) -> FtraceLosses {
        let Self { first, last, not_recorded, faults } = self;
        let since = |(cpu, last): (u32, CpuLosses)| {
            let first = first.get(&cpu).copied().unwrap_or_default();
            let losses = CpuLosses {
                overwritten: last.overwritten.saturating_sub(first.overwritten),
                dropped: last.dropped.saturating_sub(first.dropped),
                nested: last.nested.saturating_sub(first.nested),
            };
            (losses != CpuLosses::default()).then_some((cpu, losses))
        };
        FtraceLosses { cpus: last.into_iter().filter_map(since).collect(), not_recorded, faults }
    }
}

impl FtraceLosses {
    /// Returns true if events are missing that were to be recorded.
    pub fn has_losses(&self) -> bool {
        !self.cpus.is_empty() || self.faults > 0
    }
}

impl fmt::Display for FtraceLosses {
    /// Lines, each with its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, advice, count) in [
            ("overwritten", OVERWRITTEN, (|cpu| cpu.overwritten) as fn(&CpuLosses) -> u64),
            ("dropped", DROPPED, |cpu| cpu.dropped),
            ("lost within others", NESTED, |cpu| cpu.nested),
        ] {
            let total = self.cpus.values().map(count).fold(0, u64::saturating_add);
            if total == 0 {
                continue;
            }
            writeln!(f, "ftrace: {} {name} in the kernel\n  {advice}", Count(total, "event"))?;
            for (cpu, losses) in self.cpus.iter().filter(|(_, losses)| count(losses) > 0) {
                writeln!(f, "  processor {cpu}: {}", count(losses))?;
            }
        }
        if self.faults > 0 {
            writeln!(f, "ftrace: {}\n  {FAULTS}", Count(self.faults, "kind of fault"))?;
        }
        Ok(())
    }
}

/// The line of events that were not recorded; nothing if there are none.
pub(super) fn fmt_not_recorded(names: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if names.is_empty() {
        return Ok(());
    }
    write!(f, "ftrace: not recorded, as the kernel does not have them or did not enable them: ")?;
    writeln!(f, "{}", Escaped(names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracebuf::proto::Sink;

    fn stats(phase: u64, cpus: &[(u64, u64, u64)], more: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut stats = Vec::new();
        let Ok(()) = stats.varint(ftrace_stats::PHASE, phase);
        for (cpu, overrun, dropped) in cpus {
            let mut message = Vec::new();
            let Ok(()) = message.varint(ftrace_cpu_stats::CPU, *cpu);
            let Ok(()) = message.varint(ftrace_cpu_stats::OVERRUN, *overrun);
            let Ok(()) = message.varint(ftrace_cpu_stats::DROPPED_EVENTS, *dropped);
            let Ok(()) = stats.bytes(ftrace_stats::CPU_STATS, &message);
        }
        more(&mut stats);
        stats
    }

    fn losses(all: &[Vec<u8>]) -> FtraceLosses {
        let mut counters = FtraceCounters::default();
        all.iter().for_each(|stats| counters.add(stats));
        counters.losses()
    }

    #[test]
    fn a_processors_loss_is_from_the_first_statistics_to_the_last() {
        let start = || stats(1, &[(0, 5, 1), (3, 7, 0)], |_| ());
        let told = losses(&[
            start(),
            start(),
            stats(2, &[(0, 6, 1)], |_| ()),
            start(),
            stats(2, &[(0, 9, 1), (3, 7, 2)], |_| ()),
        ]);
        let lost: Vec<_> =
            told.cpus.iter().map(|(cpu, lost)| (*cpu, lost.overwritten, lost.dropped)).collect();
        assert_eq!(lost, [(0, 4, 0), (3, 0, 2)]);
        let text = told.to_string();
        assert!(text.contains("4 events overwritten") && text.contains("  processor 0: 4\n"), "{text}");
        assert!(text.contains("2 events dropped") && text.contains("  processor 3: 2\n"), "{text}");
        assert!(told.has_losses() && text.contains("--kernel-buffer"), "{text}");
        // Nothing was lost since, and of a trace whose beginning is gone all is told.
        assert!(!losses(&[start(), stats(2, &[(0, 5, 1), (3, 7, 0)], |_| ())]).has_losses());
        assert!(losses(&[stats(2, &[(0, 5, 1)], |_| ())]).has_losses());
        assert_eq!(losses(&[start()]), FtraceLosses::default());
    }

    #[test]
    fn events_that_were_not_recorded_are_no_loss_and_pages_at_fault_are() {
        let with_names = stats(1, &[], |stats| {
            let Ok(()) = stats.string(ftrace_stats::UNKNOWN_FTRACE_EVENTS, "no/such");
            let Ok(()) = stats.string(ftrace_stats::FAILED_FTRACE_EVENTS, "k/v");
        });
        let told = losses(&[with_names.clone(), with_names]);
        assert_eq!(
            (told.has_losses(), &told.not_recorded[..]),
            (false, &["no/such".to_owned(), "k/v".into()][..])
        );
        let fault = stats(2, &[], |stats| {
            let Ok(()) = stats.varint(ftrace_stats::FTRACE_PARSE_ERRORS, 17);
        });
        assert!(
            losses(std::slice::from_ref(&fault)).has_losses()
                && losses(&[fault]).to_string().contains("1 kind of fault")
        );
    }

    #[test]
    fn what_is_there_a_million_times_takes_no_memory_for_it() {
        let cpus: Vec<_> = (0..10_000).map(|cpu| (cpu, 1, 0)).collect();
        let many = stats(2, &cpus, |stats| {
            (0..10_000).for_each(|number| {
                let Ok(()) = stats
                    .string(ftrace_stats::UNKNOWN_FTRACE_EVENTS, &format!("{number} {}", "x".repeat(100)));
            });
        });
        let told = losses(&[many]);
        assert_eq!((told.cpus.len(), told.not_recorded.len()), (MAX_CPUS, MAX_NAMES));
        assert!(told.not_recorded.iter().all(|name| name.len() == 64));
    }
}
