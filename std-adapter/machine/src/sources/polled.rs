//! What a machine and its processes do, looked at as often as a service's session wants.

use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use tracebuf::producer::track_event::Clock;
use tracebuf_session::BootClock;

use super::data_source::{DataSource, SourceOutput};
use super::process_stats::ProcessStats;
use super::process_tree::ProcessTreeSource;
use super::sys_stats::{Group, SysStats};
use super::thread_numbers::ThreadNumbers;
use super::wanted::{WantedProcesses, WantedStats};
use crate::proc::{Proc, Process};

/// The wait of a source that nothing is wanted of.
const NEVER: Duration = Duration::from_secs(3600);

/// Something that is due every so often.
#[derive(Debug)]
struct Timed<T> {
    what: T,
    period: Duration,
    due: Instant,
}

impl<T> Timed<T> {
    fn new(what: T, period: Duration) -> Self {
        Self { what, period, due: Instant::now() }
    }

    /// Whether it is due now; then it is again after its period. What was missed is not made up for.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.due += self.period;
            if self.due <= now {
                self.due = now + self.period;
            }
        }
        is_due
    }

    fn wait(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }
}

/// Perfetto's `linux.sys_stats`.
#[derive(Debug)]
pub(super) struct SysStatsSource {
    proc: Proc,
    stats: SysStats,
    groups: Vec<Timed<Group>>,
}

impl SysStatsSource {
    pub(super) fn new(proc: Proc, wanted: WantedStats) -> Self {
        let mut stats = SysStats::new();
        wanted.only.into_iter().for_each(|(group, counters)| stats.only(group, counters));
        let groups = wanted.periods.into_iter().map(|(group, period)| Timed::new(group, period));
        Self { proc, stats, groups: groups.collect() }
    }
}

impl DataSource for SysStatsSource {
    fn name(&self) -> &'static str {
        "linux.sys_stats"
    }

    fn start(&mut self, _: &mut SourceOutput) -> io::Result<()> {
        Ok(())
    }

    fn drain(&mut self, out: &mut SourceOutput) -> Duration {
        let now = Instant::now();
        let due: Vec<_> =
            self.groups.iter_mut().filter_map(|one| one.is_due(now).then_some(one.what)).collect();
        if !due.is_empty() {
            out.message(&self.stats.look_at(due.into_iter(), &self.proc, || BootClock.now()));
        }
        self.groups.iter().map(Timed::wait).min().unwrap_or(NEVER)
    }

    fn stop(&mut self, _: &mut SourceOutput) {}
}

/// Perfetto's `linux.process_stats`: what processes are called, and what they use.
#[derive(Debug)]
pub(super) struct ProcessStatsSource {
    proc: Proc,
    tree: ProcessTreeSource,
    stats: Option<Timed<ProcessStats>>,
    /// When each process started, and what it was called then: `None` before the first look.
    names: Option<HashMap<u32, (u64, String)>>,
    scans: bool,
}

impl ProcessStatsSource {
    /// Names also threads that somebody puts in this list.
    pub(super) fn new(proc: Proc, threads: ThreadNumbers, wanted: WantedProcesses) -> Self {
        let tree =
            ProcessTreeSource::of(proc.clone(), threads).of_those_there(wanted.scans, wanted.has_threads);
        let stats = wanted.poll.map(|period| Timed::new(ProcessStats::default(), period));
        Self { proc, tree, stats, names: None, scans: wanted.scans }
    }

    /// Has those named that have come, or run another program since the last look.
    fn meet(&mut self, processes: &[Process]) {
        let names = processes.iter().map(|one| (one.pid, (one.started, one.name.clone())));
        let names: HashMap<_, _> = names.collect();
        let is_known = |pid: &u32| match &self.names {
            Some(before) => before.get(pid) == names.get(pid),
            None => self.scans,
        };
        self.tree.meet(names.keys().copied().filter(|pid| !is_known(pid)));
        self.names = Some(names);
    }
}

impl DataSource for ProcessStatsSource {
    fn name(&self) -> &'static str {
        "linux.process_stats"
    }

    fn start(&mut self, out: &mut SourceOutput) -> io::Result<()> {
        self.tree.start(out)
    }

    fn drain(&mut self, out: &mut SourceOutput) -> Duration {
        if let Some(stats) = self.stats.as_mut().filter(|stats| stats.due <= Instant::now()) {
            stats.is_due(Instant::now());
            let time = BootClock.now();
            // Without its folder nothing is known of them: the next look may find it.
            let processes = self.proc.processes().map(|(processes, _)| processes).unwrap_or_default();
            stats.what.look(time, &self.proc, &processes).iter().for_each(|packet| out.message(packet));
            // Values of a process that nobody has named would mean nothing.
            self.meet(&processes);
        }
        let wait = self.tree.drain(out);
        self.stats.as_ref().map_or(wait, |stats| wait.min(stats.wait()))
    }

    fn flush(&mut self, out: &mut SourceOutput) {
        self.tree.flush(out);
    }

    fn stop(&mut self, out: &mut SourceOutput) {
        self.tree.stop(out);
    }

    fn tell_again(&mut self) {
        self.tree.tell_again();
        // What has not changed is told as well.
        if let Some(stats) = &mut self.stats {
            stats.what = ProcessStats::default();
        }
    }

    fn wakes_on(&self) -> Vec<BorrowedFd<'_>> {
        self.tree.wakes_on()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::machine::{Machine, Recording};
    use tracebuf::proto::TracePackets;
    use tracebuf::proto::fields::{
        process_stats, process_tree, process_tree_process, sys_stats, trace_packet,
    };
    use tracebuf::proto::reader::{message, messages, number};

    fn of(recording: &Recording, field: u32) -> Vec<Vec<u8>> {
        let trace = recording.trace();
        let packets = TracePackets::new(&trace).map(|packet| packet.expect("a packet"));
        let found = packets.filter_map(|packet| message(packet, field));
        found.filter(|found| !found.is_empty()).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn each_group_comes_when_it_is_due_with_the_counters_that_are_wanted() {
        let machine = Machine::new("polled-stats");
        machine.says("meminfo", "MemTotal:  40 kB\nMemFree:  7 kB\n");
        machine.says("stat", "cpu0 1 2 3 4\nprocesses 12\n");
        let recording = Recording::new();
        let mut out = recording.output();
        let short = Duration::from_millis(10);
        let wanted = WantedStats {
            periods: vec![(Group::Memory, short), (Group::Stat, NEVER)],
            only: vec![(Group::Memory, vec![2]), (Group::Stat, vec![4])],
        };
        let mut source = SysStatsSource::new(machine.proc(), wanted);
        assert!(source.drain(&mut out) <= short);
        std::thread::sleep(2 * short);
        source.drain(&mut out);
        let told = of(&recording, trace_packet::SYS_STATS);
        let memory =
            |at: usize| messages(&told[at], sys_stats::MEMINFO).map(|one| number(one, 1)).collect::<Vec<_>>();
        assert_eq!((told.len(), memory(0), memory(1)), (2, vec![Some(2)], vec![Some(2)]));
        let forks = [0, 1].map(|at: usize| number(&told[at], sys_stats::NUM_FORKS));
        assert_eq!((forks, messages(&told[0], sys_stats::CPU_STAT).count()), ([Some(12), None], 0));
    }

    #[test]
    fn a_process_is_named_once_and_again_when_that_may_be_lost_or_when_it_runs_another_program() {
        let machine = Machine::new("polled-processes");
        machine.process(40, "cat", 1, 300);
        machine.says("40/status", "Name:\tcat\nTgid:\t40\nPid:\t40\nPPid:\t1\nUid:\t0\nVmRSS:\t7 kB\n");
        machine.says("40/cmdline", "/bin/cat\0");
        let recording = Recording::new();
        let mut out = recording.output_of_service();
        let wanted =
            WantedProcesses { scans: false, has_threads: false, poll: Some(Duration::from_millis(1)) };
        let mut source = ProcessStatsSource::new(machine.proc(), ThreadNumbers::default(), wanted);
        source.start(&mut out).expect("a start");
        for again in [false, false, true] {
            std::thread::sleep(Duration::from_millis(2));
            if again {
                source.tell_again();
            }
            source.drain(&mut out);
        }
        let (trees, stats) =
            (of(&recording, trace_packet::PROCESS_TREE), of(&recording, trace_packet::PROCESS_STATS));
        let named = trees.iter().flat_map(|tree| messages(tree, process_tree::PROCESSES));
        let named: Vec<_> = named.map(|process| number(process, process_tree_process::PID)).collect();
        assert_eq!(named, [Some(40), Some(40)]);
        machine.process(40, "dog", 1, 300);
        machine.says("40/cmdline", "/bin/dog\0");
        std::thread::sleep(Duration::from_millis(2));
        source.drain(&mut out);
        let last = of(&recording, trace_packet::PROCESS_TREE).pop().expect("a tree");
        let process = messages(&last, process_tree::PROCESSES).next().expect("a process");
        assert_eq!(message(process, process_tree_process::CMDLINE), Some(&b"/bin/dog"[..]));
        let told = stats.iter().flat_map(|stats| messages(stats, process_stats::PROCESSES)).count();
        assert_eq!(told, 2, "what has not changed is told when it may be lost");
    }
}
