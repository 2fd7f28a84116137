//! What the machine does, in Perfetto's packets: `SysStats`, from `/proc` and `/sys`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use tracebuf::proto::fields::{
    buddy_info, cpu_times, disk_stat, interrupt_count, psi_resource, psi_sample, slab_info,
    sys_stats as field, sys_stats_value, trace_packet,
};
use tracebuf::proto::{Message, Sink};

use super::stat_keys::{MEMINFO, VMSTAT, key};
use crate::proc::Proc;

/// The least time between two looks at `/sys`: at frequencies and temperatures, a file each.
const SYS_PERIOD: Duration = Duration::from_secs(1);

const PRESSURE: [(&str, [u64; 2]); 3] = [
    ("pressure/cpu", [psi_resource::CPU_SOME, psi_resource::CPU_FULL]),
    ("pressure/io", [psi_resource::IO_SOME, psi_resource::IO_FULL]),
    ("pressure/memory", [psi_resource::MEMORY_SOME, psi_resource::MEMORY_FULL]),
];

/// What a look can tell of; the last four only where they are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Memory,
    Events,
    Stat,
    Disks,
    Pressure,
    Frequencies,
    Devices,
    Temperatures,
    FreeMemory,
    Slabs,
    Idle,
    Graphics,
}

impl Group {
    const OF_PROC: [Self; 5] = [Self::Memory, Self::Events, Self::Stat, Self::Disks, Self::Pressure];
    const OF_SYS: [Self; 3] = [Self::Frequencies, Self::Devices, Self::Temperatures];
}

/// Parts of `/proc/stat`, with numbers of `StatCounters`.
mod stat_counter {
    pub(super) const CPU_TIMES: u64 = 1;
    pub(super) const IRQ_COUNTS: u64 = 2;
    pub(super) const SOFTIRQ_COUNTS: u64 = 3;
    pub(super) const FORK_COUNT: u64 = 4;
}

/// Makes the packets, one a look.
#[derive(Debug)]
pub(crate) struct SysStats {
    nanoseconds_per_tick: u64,
    next_sys: Instant,
    /// The only counters of a group that are told.
    only: Vec<(Group, Vec<u64>)>,
    /// Whether a block device is a disk: what its folder says, once.
    disks: HashMap<String, bool>,
}

/// A look's `SysStats`, and room for a message in it.
#[derive(Debug, Default)]
struct Looked(Vec<u8>, Vec<u8>);

impl Looked {
    /// Adds a message of these fields.
    fn numbers(&mut self, number: u32, fields: impl IntoIterator<Item = (u32, u64)>) {
        self.texts(number, &[], fields);
    }

    /// Adds a message of texts and these fields.
    fn texts(&mut self, number: u32, texts: &[(u32, &str)], fields: impl IntoIterator<Item = (u32, u64)>) {
        let Self(out, message) = self;
        message.clear();
        for (number, text) in texts {
            let Ok(()) = message.string(*number, text);
        }
        for (number, value) in fields {
            let Ok(()) = message.varint(number, value);
        }
        let Ok(()) = out.bytes(number, message);
    }

    fn number(&mut self, number: u32, value: u64) {
        let Ok(()) = self.0.varint(number, value);
    }
}

/// The packet of a look.
#[derive(Debug, Default)]
pub(crate) struct SysStatsPacket {
    time: u64,
    end: u64,
    stats: Looked,
}

impl Message for SysStatsPacket {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(trace_packet::TIMESTAMP, self.time)?;
        let mut end = Vec::new();
        let Ok(()) = end.varint(field::COLLECTION_END_TIMESTAMP, self.end);
        out.length(trace_packet::SYS_STATS, self.stats.0.len() + end.len())?;
        out.put(&self.stats.0)?;
        out.put(&end)
    }
}

impl SysStats {
    pub(crate) fn new() -> Self {
        Self {
            nanoseconds_per_tick: 1_000_000_000 / clock_ticks_per_second().max(1),
            next_sys: Instant::now(),
            only: Vec::new(),
            disks: HashMap::new(),
        }
    }

    /// Tells only these counters of a group, by Perfetto's numbers.
    pub(crate) fn only(&mut self, group: Group, counters: Vec<u64>) {
        self.only.push((group, counters));
    }

    fn has(&self, group: Group, counter: u64) -> bool {
        self.only.iter().all(|(only, counters)| *only != group || counters.contains(&counter))
    }

    /// Looks at all of the machine. `stat`, `meminfo` and `diskstats` are what these files say, if they could be read;
    /// `now` tells the time.
    pub(crate) fn look(
        &mut self,
        proc: &Proc,
        [stat, meminfo, diskstats]: [Option<&str>; 3],
        now: impl Fn() -> u64,
    ) -> SysStatsPacket {
        let (time, mut out) = (now(), Looked::default());
        for group in Group::OF_PROC {
            let text = match group {
                Group::Memory => meminfo,
                Group::Stat => stat,
                Group::Disks => diskstats,
                _ => None,
            };
            self.tell(group, proc, text, &mut out);
        }
        if Instant::now() >= self.next_sys {
            Group::OF_SYS.iter().for_each(|group| self.tell(*group, proc, None, &mut out));
            self.next_sys = Instant::now() + SYS_PERIOD;
        }
        SysStatsPacket { time, end: now(), stats: out }
    }

    /// Looks at a part of the machine.
    pub(crate) fn look_at(
        &mut self,
        groups: impl Iterator<Item = Group>,
        proc: &Proc,
        now: impl Fn() -> u64,
    ) -> SysStatsPacket {
        let (time, mut out) = (now(), Looked::default());
        for group in groups {
            let file = match group {
                Group::Memory => Some("meminfo"),
                Group::Stat => Some("stat"),
                Group::Disks => Some("diskstats"),
                _ => None,
            };
            let text = file.and_then(|file| proc.read_again(file).ok());
            self.tell(group, proc, text.as_deref(), &mut out);
        }
        SysStatsPacket { time, end: now(), stats: out }
    }

    /// Tells of a group; `text` is what its file says, if there is only one and it could be read.
    fn tell(&mut self, group: Group, proc: &Proc, text: Option<&str>, out: &mut Looked) {
        let text = text.unwrap_or_default();
        match group {
            Group::Memory => memory(text, |counter| self.has(group, counter), out),
            Group::Events => {
                let text = proc.read_again("vmstat").unwrap_or_default();
                events(&text, |counter| self.has(group, counter), out);
            }
            Group::Stat => self.stat(text, out),
            Group::Disks => {
                let is_disk = |name: &str| {
                    self.disks.get(name).copied().unwrap_or_else(|| {
                        let is_disk = proc.is_disk(name);
                        self.disks.insert(name.to_owned(), is_disk);
                        is_disk
                    })
                };
                disks(text, is_disk, out);
            }
            Group::Pressure => {
                for (file, resources) in PRESSURE {
                    pressure(&proc.read_again(file).unwrap_or_default(), resources, out);
                }
            }
            Group::Frequencies => of_sys::frequencies(proc, out),
            Group::Devices => of_sys::device_frequencies(proc, out),
            Group::Temperatures => of_sys::temperatures(proc, out),
            Group::FreeMemory => free_memory(&proc.read_again("buddyinfo").unwrap_or_default(), out),
            Group::Slabs => slabs(&proc.read_again("slabinfo").unwrap_or_default(), out),
            Group::Idle => of_sys::idle(proc, out),
            Group::Graphics => of_sys::graphics_frequency(proc, out),
        }
    }

    fn stat(&self, text: &str, out: &mut Looked) {
        use stat_counter::{CPU_TIMES, FORK_COUNT, IRQ_COUNTS, SOFTIRQ_COUNTS};
        let has = |counter| self.has(Group::Stat, counter);
        for (key, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
            let mut numbers = rest.split_ascii_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
            if let Some(cpu) =
                key.strip_prefix("cpu").filter(|_| has(CPU_TIMES)).and_then(|number| number.parse().ok())
            {
                // The fields have the file's order: user, nice, system, idle, iowait, irq, softirq, steal.
                let times = (cpu_times::USER_NS..=cpu_times::STEAL_NS).zip(numbers);
                let times =
                    times.map(|(field, ticks)| (field, ticks.saturating_mul(self.nanoseconds_per_tick)));
                out.numbers(field::CPU_STAT, [(cpu_times::CPU_ID, cpu)].into_iter().chain(times));
                continue;
            }
            let (total, one) = match key {
                "intr" if has(IRQ_COUNTS) => (field::NUM_IRQ_TOTAL, field::NUM_IRQ),
                "softirq" if has(SOFTIRQ_COUNTS) => (field::NUM_SOFTIRQ_TOTAL, field::NUM_SOFTIRQ),
                "processes" if has(FORK_COUNT) => {
                    out.number(field::NUM_FORKS, numbers.next().unwrap_or(0));
                    continue;
                }
                _ => continue,
            };
            out.number(total, numbers.next().unwrap_or(0));
            for (number, count) in (0..).zip(numbers).filter(|(_, count)| *count > 0) {
                out.numbers(one, [(interrupt_count::IRQ, number), (interrupt_count::COUNT, count)]);
            }
        }
    }
}

fn value(number: u32, key: u64, value: u64, out: &mut Looked) {
    out.numbers(number, [(sys_stats_value::KEY, key), (sys_stats_value::VALUE, value)]);
}

fn memory(text: &str, has: impl Fn(u64) -> bool, out: &mut Looked) {
    for (name, rest) in text.lines().filter_map(|line| line.split_once(':')) {
        let kib = || rest.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
        let key = key(&MEMINFO, name).filter(|key| has(*key));
        if let Some((key, kib)) = key.and_then(|key| Some((key, kib()?))) {
            value(field::MEMINFO, key, kib, out);
        }
    }
}

fn events(text: &str, has: impl Fn(u64) -> bool, out: &mut Looked) {
    for (name, count) in text.lines().filter_map(|line| line.split_once(' ')) {
        let key = key(&VMSTAT, name).filter(|key| has(*key));
        if let Some((key, count)) = key.and_then(|key| Some((key, count.trim().parse().ok()?))) {
            value(field::VMSTAT, key, count, out);
        }
    }
}

fn disks(text: &str, mut is_disk: impl FnMut(&str) -> bool, out: &mut Looked) {
    // The places of the fields in a line; kernels before 4.18 have none of the last four, before 5.5 of the last two.
    const PLACES: [(usize, u32); 8] = [
        (5, disk_stat::READ_SECTORS),
        (6, disk_stat::READ_TIME_MS),
        (9, disk_stat::WRITE_SECTORS),
        (10, disk_stat::WRITE_TIME_MS),
        (16, disk_stat::DISCARD_SECTORS),
        (17, disk_stat::DISCARD_TIME_MS),
        (18, disk_stat::FLUSH_COUNT),
        (19, disk_stat::FLUSH_TIME_MS),
    ];
    for line in text.lines() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some(name) = words.get(2).filter(|name| is_disk(name)) else { continue };
        let fields = PLACES.iter().filter_map(|(at, field)| Some((*field, words.get(*at)?.parse().ok()?)));
        out.texts(field::DISK_STAT, &[(disk_stat::DEVICE_NAME, name)], fields);
    }
}

fn pressure(text: &str, [some, full]: [u64; 2], out: &mut Looked) {
    for line in text.lines() {
        let resource = match line.split_once(' ') {
            Some(("some", _)) => some,
            Some(("full", _)) => full,
            _ => continue,
        };
        let total =
            line.rsplit_once("total=").and_then(|(_, microseconds)| microseconds.trim().parse::<u64>().ok());
        if let Some(total) = total {
            let fields =
                [(psi_sample::RESOURCE, resource), (psi_sample::TOTAL_NS, total.saturating_mul(1000))];
            out.numbers(field::PSI, fields);
        }
    }
}

fn free_memory(text: &str, out: &mut Looked) {
    for line in text.lines() {
        let Some((node, zone)) = line.strip_prefix("Node ").and_then(|rest| rest.split_once(", zone "))
        else {
            continue;
        };
        let mut words = zone.split_ascii_whitespace();
        let name = words.next().unwrap_or_default();
        let counts = words.map_while(|word| word.parse().ok()).map(|count| (buddy_info::ORDER_PAGES, count));
        out.texts(field::BUDDY_INFO, &[(buddy_info::NODE, node), (buddy_info::ZONE, name)], counts);
    }
}

fn slabs(text: &str, out: &mut Looked) {
    // The file's version and the names of its columns come first.
    for line in text.lines().skip(2) {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |at: usize| words.get(at)?.parse().ok();
        if let (Some(name), Some(pages), Some(slabs)) = (words.first(), number(5), number(14)) {
            let counts = [(slab_info::PAGES_PER_SLAB, pages), (slab_info::NUM_SLABS, slabs)];
            out.texts(field::SLAB_INFO, &[(slab_info::NAME, name)], counts);
        }
    }
}

mod of_sys;
#[cfg(test)]
mod tests;
