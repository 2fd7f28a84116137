//! `/proc` as numbers. Parsing is apart from reading, so that it can be tested anywhere.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Time that a core has spent, in ticks, since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CpuTimes {
    pub(super) user: u64,
    pub(super) system: u64,
    pub(super) iowait: u64,
    pub(super) idle: u64,
    pub(super) steal: u64,
}

impl CpuTimes {
    /// Parses what follows the name of a core: user nice system idle iowait irq softirq steal.
    fn parse(fields: &str) -> Option<Self> {
        let mut at = fields.split_ascii_whitespace().map(|field| field.parse::<u64>().unwrap_or(0));
        let mut next = || at.next();
        let (user, nice, system, idle) = (next()?, next()?, next()?, next()?);
        let [iowait, irq, softirq, steal] = [(); 4].map(|()| next().unwrap_or(0));
        Some(Self { user: user + nice, system: system + irq + softirq, iowait, idle, steal })
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        // The kernel lets iowait and idle go back at times.
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            iowait: self.iowait.saturating_sub(before.iowait),
            idle: self.idle.saturating_sub(before.idle),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.user + self.system + self.iowait + self.idle + self.steal
    }
}

/// `/proc/stat`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) all: CpuTimes,
    /// By number: cores that are off are not there.
    pub(super) cores: BTreeMap<u32, CpuTimes>,
    pub(super) context_switches: u64,
    pub(super) interrupts: u64,
    pub(super) forks: u64,
    pub(super) running: u64,
    pub(super) blocked: u64,
}

impl Stat {
    pub(super) fn parse(text: &str) -> Self {
        let mut stat = Self::default();
        for (key, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
            // The line of interrupts begins with their sum.
            let first = || rest.split_ascii_whitespace().next().and_then(|v| v.parse().ok()).unwrap_or(0);
            match key {
                "cpu" => stat.all = CpuTimes::parse(rest).unwrap_or_default(),
                "ctxt" => stat.context_switches = first(),
                "intr" => stat.interrupts = first(),
                "processes" => stat.forks = first(),
                "procs_running" => stat.running = first(),
                "procs_blocked" => stat.blocked = first(),
                _ => {
                    let number = key.strip_prefix("cpu").and_then(|number| number.parse().ok());
                    if let (Some(number), Some(times)) = (number, CpuTimes::parse(rest)) {
                        stat.cores.insert(number, times);
                    }
                }
            }
        }
        stat
    }
}

/// The lines of `/proc/meminfo`, in bytes.
pub(super) fn parse_meminfo(text: &str) -> BTreeMap<&str, u64> {
    let parse = |line| -> Option<(_, _)> {
        let (key, value) = str::split_once(line, ':')?;
        let kilobytes: u64 = value.split_ascii_whitespace().next()?.parse().ok()?;
        Some((key, kilobytes.saturating_mul(1024)))
    };
    text.lines().filter_map(parse).collect()
}

/// Bytes that a disk or a network interface has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    /// Bytes read or received.
    pub(super) input: u64,
    /// Bytes written or sent.
    pub(super) output: u64,
}

/// The whole disks of `/proc/diskstats`, without their partitions and without disks that are no hardware.
pub(super) fn parse_diskstats(text: &str, is_disk: impl Fn(&str) -> bool) -> BTreeMap<String, Moved> {
    // Whatever the disk's own size of sectors, the kernel counts those of 512 bytes.
    const SECTOR: u64 = 512;
    let parse = |line: &str| -> Option<(String, Moved)> {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let name = fields.get(2).filter(|name| is_disk(name))?;
        let sectors = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let (input, output) = (sectors(5)?.saturating_mul(SECTOR), sectors(9)?.saturating_mul(SECTOR));
        Some(((*name).to_owned(), Moved { input, output }))
    };
    text.lines().filter_map(parse).collect()
}

/// The interfaces of `/proc/net/dev`.
pub(super) fn parse_net(text: &str) -> BTreeMap<String, Moved> {
    let parse = |line: &str| -> Option<(String, Moved)> {
        let (name, rest) = line.split_once(':')?;
        let fields: Vec<u64> = rest.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        Some((name.trim().to_owned(), Moved { input: *fields.first()?, output: *fields.get(8)? }))
    };
    text.lines().filter_map(parse).collect()
}

/// `/proc/loadavg`: the load of the last minute, and how many threads there are.
pub(super) fn parse_loadavg(text: &str) -> Option<(f64, u64)> {
    let mut fields = text.split_ascii_whitespace();
    let load = fields.next()?.parse().ok()?;
    let (_, threads) = fields.nth(2)?.split_once('/')?;
    Some((load, threads.parse().ok()?))
}

/// A process, from `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) name: String,
    /// Ticks of CPU time, of all its threads.
    pub(super) ticks: u64,
    /// The time of its start; together with the pid, this tells processes apart.
    pub(super) started: u64,
    /// Pages in memory.
    pub(super) pages: u64,
}

impl Process {
    pub(super) fn parse(text: &str) -> Option<Self> {
        // The name may hold blanks and parentheses: it ends at the last one.
        let (head, rest) = text.rsplit_once(')')?;
        let (pid, name) = head.split_once('(')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The state, the third field of all, is the first of these.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.trim().parse().ok()?,
            name: name.to_owned(),
            ticks: number(14)?.saturating_add(number(15)?),
            started: number(22)?,
            pages: number(24)?,
        })
    }
}

/// The files, under `/proc` or what a test puts in its place.
#[derive(Debug)]
pub(super) struct Proc {
    root: PathBuf,
    disks: PathBuf,
}

impl Proc {
    pub(super) fn new() -> Self {
        Self::at("/proc", "/sys/block")
    }

    pub(super) fn at(root: impl Into<PathBuf>, disks: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), disks: disks.into() }
    }

    /// A file's text; what is not UTF-8, as names of processes may be, is replaced.
    pub(super) fn read(&self, name: impl AsRef<Path>) -> io::Result<String> {
        std::fs::read(self.root.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns true if a block device is a disk: hardware or its virtual likeness, not a partition, loop or RAM disk.
    pub(super) fn is_disk(&self, name: &str) -> bool {
        let made_up = ["loop", "ram", "zram", "dm-", "md", "sr", "fd"];
        // A folder's name has no slash: "cciss/c0d0" is "cciss!c0d0" there.
        let folder = name.replace('/', "!");
        !made_up.iter().any(|prefix| name.starts_with(prefix)) && self.disks.join(folder).exists()
    }

    /// All processes, and the numbers of those that are there and could not be read. One that ends meanwhile is left
    /// out.
    pub(super) fn processes(&self) -> io::Result<(Vec<Process>, HashSet<u32>)> {
        let (mut processes, mut unread) = (Vec::new(), HashSet::new());
        for entry in std::fs::read_dir(&self.root)? {
            // Without the rest of the folder, all processes there would seem to have ended.
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            match self.read(Path::new(&name).join("stat")).map(|text| Process::parse(&text)) {
                Ok(Some(process)) => processes.push(process),
                Err(error) if has_ended(&error) => {}
                Ok(None) | Err(_) => {
                    unread.insert(pid);
                }
            }
        }
        Ok((processes, unread))
    }
}

/// Returns true if a process could not be read because there is none: its file has gone, or has nothing behind it any
/// more.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::tests::machine::Machine;

    #[test]
    fn cores_that_are_off_are_left_out_and_short_lines_of_old_kernels_are_read() {
        let text = "cpu  10 1 5 100 7 1 2 3 0 0\ncpu0 4 0 2 50\ncpu3 6 1 3 50 7 1 2 3 0 0\nintr 99 1 2\nctxt 12\n\
                    btime 1\nprocesses 7\nprocs_running 2\nprocs_blocked 1\n";
        let stat = Stat::parse(text);
        assert_eq!(stat.all, CpuTimes { user: 11, system: 8, iowait: 7, idle: 100, steal: 3 });
        assert_eq!(stat.cores.keys().copied().collect::<Vec<_>>(), [0, 3]);
        assert_eq!((stat.interrupts, stat.context_switches, stat.forks), (99, 12, 7));
        assert_eq!((stat.running, stat.blocked), (2, 1));
    }

    #[test]
    fn a_process_may_be_called_anything() {
        let rest = "S 1 2 3 0 -1 4 5 6 7 8 30 12 0 0 20 0 1 0 777 1000 55 18446744073709551615";
        let process = Process::parse(&format!("42 (a) b (c) {rest}")).expect("a process");
        assert_eq!((process.pid, &*process.name), (42, "a) b (c"));
        assert_eq!((process.ticks, process.started, process.pages), (42, 777, 55));
        assert_eq!(Process::parse("42 (x) S 1"), None);
    }

    #[test]
    fn disks_are_counted_without_their_partitions() {
        let text = "   8       0 sda 10 0 100 5 20 0 200 9 0 1 1\n   8       1 sda1 1 0 9 5 2 0 20 9 0 1 1\n";
        let disks = parse_diskstats(text, |name| name == "sda");
        assert_eq!(
            disks.into_iter().collect::<Vec<_>>(),
            [("sda".into(), Moved { input: 51_200, output: 102_400 })]
        );
    }

    #[test]
    fn disks_are_told_by_their_folders_whatever_is_in_their_names() {
        let machine = Machine::new("disks");
        for disk in ["sda", "cciss!c0d0", "loop0"] {
            machine.disk(disk);
        }
        let disks = ["sda", "sda1", "cciss/c0d0", "cciss/c0d0p1", "loop0"];
        assert_eq!(disks.map(|disk| machine.proc().is_disk(disk)), [true, false, true, false, false]);
    }

    #[test]
    fn interfaces_memory_and_load_are_read() {
        let net = "Inter-|   Receive |\n face |bytes packets\n  eth0: 7 2 0 0 0 0 0 0 9 3 0 0 0 0 0 0\n";
        assert_eq!(parse_net(net).get("eth0"), Some(&Moved { input: 7, output: 9 }));
        assert_eq!(parse_net(net).len(), 1);
        assert_eq!(parse_meminfo("MemTotal:  4 kB\nHugePages_Total: 0\n").get("MemTotal"), Some(&4096));
        assert_eq!(parse_loadavg("0.50 0.40 0.30 2/345 999\n"), Some((0.5, 345)));
        assert_eq!(parse_loadavg("nonsense"), None);
    }
}
