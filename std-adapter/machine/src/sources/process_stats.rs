//! What processes use, in Perfetto's packets: `ProcessStats`, from `/proc`.

use std::collections::HashMap;

use rustix::param::clock_ticks_per_second;
use tracebuf::proto::fields::{process_stats as field, process_stats_process as of_process, trace_packet};
use tracebuf::proto::{Message, Sink};

use super::proc_status::Status;
use crate::proc::{Proc, Process};

/// Bytes of processes in a packet, about: a ring that overwrites packets then loses little with each.
const FULL: usize = 12 << 10;

/// Makes the packets of looks at all processes. Each has the processes that have changed since the look before.
#[derive(Debug, Default)]
pub(crate) struct ProcessStats {
    /// By pid: what was told last.
    told: HashMap<u32, Told>,
}

/// What a process used: when it started, its ticks, its pages.
type Told = (u64, [u64; 2], u64);

/// A packet of a look.
#[derive(Debug)]
pub(crate) struct ProcessStatsPacket {
    time: u64,
    stats: Vec<u8>,
}

impl Message for ProcessStatsPacket {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(trace_packet::TIMESTAMP, self.time)?;
        out.bytes(trace_packet::PROCESS_STATS, &self.stats)
    }
}

impl ProcessStats {
    /// Makes the packets of a look at this time.
    pub(crate) fn look(&mut self, time: u64, proc: &Proc, processes: &[Process]) -> Vec<ProcessStatsPacket> {
        let before = std::mem::take(&mut self.told);
        let (mut packets, mut stats) = (Vec::new(), Vec::new());
        for process in processes {
            let now = (process.started, [process.user, process.system], process.pages);
            self.told.insert(process.pid, now);
            if before.get(&process.pid) == Some(&now) {
                continue;
            }
            let status = proc.read_again(&format!("{}/status", process.pid)).unwrap_or_default();
            // One that has ended meanwhile.
            let Some(status) = Status::parse(&status) else { continue };
            let score = proc.read_again(&format!("{}/oom_score_adj", process.pid)).ok();
            let score = score.and_then(|text| text.trim().parse().ok());
            let Ok(()) = stats.message(field::PROCESSES, &Used { process, status, score });
            if stats.len() >= FULL {
                packets.push(ProcessStatsPacket { time, stats: std::mem::take(&mut stats) });
            }
        }
        if !stats.is_empty() {
            packets.push(ProcessStatsPacket { time, stats });
        }
        packets
    }
}

/// `ProcessStats.Process`.
struct Used<'p> {
    process: &'p Process,
    status: Status,
    score: Option<i64>,
}

impl Message for Used<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.int(of_process::PID, self.process.pid.into())?;
        // In the order of `SIZES`. Threads of the kernel have none.
        for (number, kib) in (of_process::VM_SIZE_KB..).zip(self.status.sizes) {
            kib.map_or(Ok(()), |kib| out.varint(number, kib))?;
        }
        self.score.map_or(Ok(()), |score| out.int(of_process::OOM_SCORE_ADJ, score))?;
        let nanoseconds = |ticks: u64| ticks.saturating_mul(1_000_000_000 / clock_ticks_per_second().max(1));
        out.varint(of_process::RUNTIME_USER_MODE, nanoseconds(self.process.user))?;
        out.varint(of_process::RUNTIME_KERNEL_MODE, nanoseconds(self.process.system))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::machine::Machine;
    use tracebuf::proto::reader::{message, messages, number};

    #[test]
    fn a_process_is_told_at_first_and_whenever_it_has_used_something() {
        let machine = Machine::new("process-stats");
        let mut stats = ProcessStats::default();
        let mut look = |time| {
            let (mut processes, _) = machine.proc().processes().expect("a folder");
            processes.sort_by_key(|process| process.pid);
            let packets = stats.look(time, &machine.proc(), &processes);
            let packets = packets.iter().map(|packet| {
                let mut bytes = Vec::new();
                let Ok(()) = packet.encode(&mut bytes);
                assert_eq!(number(&bytes, trace_packet::TIMESTAMP), Some(time));
                message(&bytes, trace_packet::PROCESS_STATS).expect("statistics").to_vec()
            });
            packets.collect::<Vec<_>>()
        };
        let status = "Tgid:\t1\nVmSize:\t30 kB\nVmRSS:\t10 kB\nRssAnon:\t4 kB\nRssFile:\t5 kB\nRssShmem:\t1 kB\nVmSwap:\t2 kB\n";
        machine.process(1, "sh", 3, 0);
        machine.says("1/status", status);
        machine.says("1/oom_score_adj", "-17\n");
        machine.process(2, "kthread", 0, 0);
        machine.says("2/status", "Tgid:\t2\n");
        // It has ended between the two readings.
        machine.process(3, "gone", 5, 0);
        let first = look(10);
        let told: Vec<_> = messages(&first[0], field::PROCESSES).collect();
        assert_eq!((first.len(), told.len()), (1, 2));
        let of = |number| tracebuf::proto::reader::number(told[0], number);
        let sizes = [
            of_process::VM_SIZE_KB,
            of_process::VM_RSS_KB,
            of_process::RSS_ANON_KB,
            of_process::RSS_FILE_KB,
            of_process::RSS_SHMEM_KB,
            of_process::VM_SWAP_KB,
        ];
        assert_eq!(sizes.map(of), [30, 10, 4, 5, 1, 2].map(Some));
        assert_eq!((of(of_process::VM_HWM_KB), of(of_process::OOM_SCORE_ADJ)), (None, Some(-17_i64 as u64)));
        let nanoseconds = 3 * (1_000_000_000 / clock_ticks_per_second());
        assert_eq!(
            (of(of_process::RUNTIME_USER_MODE), of(of_process::RUNTIME_KERNEL_MODE)),
            (Some(nanoseconds), Some(0))
        );
        assert_eq!(number(told[1], of_process::VM_RSS_KB), None);
        assert!(look(11).is_empty());
        machine.process(1, "sh", 4, 0);
        assert_eq!(messages(&look(12)[0], field::PROCESSES).count(), 1);
        // Another one with its number.
        machine.process(1, "sh", 4, 9);
        assert_eq!(messages(&look(13)[0], field::PROCESSES).count(), 1);
    }

    #[test]
    fn very_many_processes_come_in_several_packets() {
        let machine = Machine::new("process-stats-many");
        for pid in 1..1000 {
            machine.process(pid, "sh", 1, 0);
            machine.says(&format!("{pid}/status"), &format!("Tgid:\t{pid}\nVmRSS:\t99999999 kB\n"));
        }
        let (processes, _) = machine.proc().processes().expect("a folder");
        let packets = ProcessStats::default().look(1, &machine.proc(), &processes);
        assert!(packets.len() > 1 && packets.iter().all(|packet| packet.stats.len() < FULL + 200));
        let told: usize =
            packets.iter().map(|packet| messages(&packet.stats, field::PROCESSES).count()).sum();
        assert_eq!(told, 999);
    }
}
