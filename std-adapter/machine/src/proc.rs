//! `/proc` as numbers. Parsing is apart from reading, so that it can be tested anywhere.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;

use crate::open_files::OpenFiles;

/// `/proc/stat`, without what [`SysStats`](crate::sources::SysStats) has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Those that are on.
    pub(crate) cores: usize,
    pub(crate) context_switches: u64,
    pub(crate) running: u64,
    pub(crate) blocked: u64,
}

impl Stat {
    pub(crate) fn parse(text: &str) -> Self {
        let mut stat = Self::default();
        for (key, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
            let first = || rest.split_ascii_whitespace().next().and_then(|v| v.parse().ok()).unwrap_or(0);
            match key {
                "ctxt" => stat.context_switches = first(),
                "procs_running" => stat.running = first(),
                "procs_blocked" => stat.blocked = first(),
                _ => {
                    let number = key.strip_prefix("cpu").and_then(|number| number.parse::<u32>().ok());
                    stat.cores += usize::from(number.is_some());
                }
            }
        }
        stat
    }
}

/// Bytes that a network interface, or a process, has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    /// Bytes read or received.
    pub(crate) input: u64,
    /// Bytes written or sent.
    pub(crate) output: u64,
}

/// The interfaces of `/proc/net/dev`.
pub(crate) fn parse_net(text: &str) -> BTreeMap<String, Moved> {
    let parse = |line: &str| -> Option<(String, Moved)> {
        let (name, rest) = line.split_once(':')?;
        let fields: Vec<u64> = rest.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
        Some((name.trim().to_owned(), Moved { input: *fields.first()?, output: *fields.get(8)? }))
    };
    text.lines().filter_map(parse).collect()
}

/// `/proc/loadavg`: the load of the last minute, and how many threads there are.
pub(crate) fn parse_loadavg(text: &str) -> Option<(f64, u64)> {
    let mut fields = text.split_ascii_whitespace();
    let load = fields.next()?.parse().ok()?;
    let (_, threads) = fields.nth(2)?.split_once('/')?;
    Some((load, threads.parse().ok()?))
}

/// A process, from `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) name: String,
    /// Ticks of CPU time of all its threads, in its own code and in the kernel.
    pub(crate) user: u64,
    pub(crate) system: u64,
    /// Page faults, and those for which something had to be read.
    pub(crate) faults: u64,
    pub(crate) major_faults: u64,
    /// The time of its start; together with the pid, this tells processes apart.
    pub(crate) started: u64,
    /// Pages in memory.
    pub(crate) pages: u64,
}

impl Process {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        // The name may hold blanks and parentheses: it ends at the last one.
        let (head, rest) = text.rsplit_once(')')?;
        let (pid, name) = head.split_once('(')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The state, the third field of all, is the first of these.
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Self {
            pid: pid.trim().parse().ok()?,
            name: name.to_owned(),
            user: number(14)?,
            system: number(15)?,
            faults: number(10)?,
            major_faults: number(12)?,
            started: number(22)?,
            pages: number(24)?,
        })
    }

    /// Ticks of CPU time, of all its threads.
    pub(crate) const fn ticks(&self) -> u64 {
        self.user.saturating_add(self.system)
    }
}

/// `/proc/PID/io`: bytes read from disks and written to them.
pub(crate) fn parse_io(text: &str) -> Option<Moved> {
    let number = |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().parse().ok()
    };
    Some(Moved { input: number("read_bytes")?, output: number("write_bytes")? })
}

/// `/proc/PID/schedstat`: nanoseconds that a thread ran, and that it waited to run.
pub(crate) fn parse_schedstat(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split_ascii_whitespace().map(|word| word.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// The files, under `/proc` and `/sys` or what a test puts in their place.
#[derive(Clone, Debug)]
pub(crate) struct Proc {
    root: PathBuf,
    sys: PathBuf,
    /// Where files are the kernel's own: those of a test are made anew.
    open: Option<Arc<OpenFiles>>,
}

impl Proc {
    pub(crate) fn new() -> Self {
        Self { open: Some(Arc::new(OpenFiles::new())), ..Self::at("/proc", "/sys") }
    }

    pub(crate) fn at(root: impl Into<PathBuf>, sys: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), sys: sys.into(), open: None }
    }

    /// A file's text; what is not UTF-8, as names of processes may be, is replaced.
    pub(crate) fn read(&self, name: impl AsRef<Path>) -> io::Result<String> {
        let bytes = self.bytes(name)?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// The same of a file that is read at each look: it stays open, if there is room.
    pub(crate) fn read_again(&self, name: &str) -> io::Result<String> {
        let Some(open) = &self.open else { return self.read(name) };
        let bytes = open.read(&self.root, name)?;
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// A file as it is. They have no size that the system knows before, and each read of a few bytes would be a call.
    pub(crate) fn bytes(&self, name: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        const MOST: usize = 8192;
        let mut bytes = Vec::with_capacity(MOST);
        File::open(self.root.join(name))?.take(u64::MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The names in a folder of `/proc`, or of a process, that are numbers; none if it cannot be read.
    pub(crate) fn numbers(&self, folder: impl AsRef<Path>) -> Vec<u32> {
        let names = names(&self.root.join(folder));
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The names in a folder of `/sys`, in order; none if there is no such folder.
    pub(crate) fn sys_entries(&self, folder: &str) -> Vec<String> {
        names(&self.sys.join(folder))
    }

    /// A file of `/sys` as a text, without the newline at its end.
    pub(crate) fn sys_text(&self, file: impl AsRef<Path>) -> Option<String> {
        let bytes = std::fs::read(self.sys.join(file)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
    }

    /// A file of `/sys` that is a number.
    pub(crate) fn sys_number(&self, file: impl AsRef<Path>) -> Option<u64> {
        self.sys_text(file)?.parse().ok()
    }

    /// Returns true if a block device is a disk: hardware or its virtual likeness, not a partition, loop or RAM disk.
    pub(crate) fn is_disk(&self, name: &str) -> bool {
        let made_up = ["loop", "ram", "zram", "dm-", "md", "sr", "fd"];
        // A folder's name has no slash: "cciss/c0d0" is "cciss!c0d0" there.
        let folder = name.replace('/', "!");
        !made_up.iter().any(|prefix| name.starts_with(prefix)) && self.sys.join("block").join(folder).exists()
    }

    /// All processes, and the numbers of those that are there and could not be read. One that ends meanwhile is left
    /// out. The next look reads them all again.
    pub(crate) fn processes(&self) -> io::Result<(Vec<Process>, HashSet<u32>)> {
        let (mut processes, mut unread) = (Vec::new(), HashSet::new());
        let mut there = HashSet::new();
        for entry in std::fs::read_dir(&self.root)? {
            // Without the rest of the folder, all processes there would seem to have ended.
            there.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        self.open.iter().for_each(|open| open.close_all_but(&there));
        for pid in there {
            match self.read_again(&format!("{pid}/stat")).map(|text| Process::parse(&text)) {
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

/// The processors of this machine, whether on or not, and its memory in bytes; 0 if unknown.
pub(crate) fn processors_and_memory(proc: &Proc) -> (u64, u64) {
    let memory = proc.read("meminfo").unwrap_or_default();
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.split_ascii_whitespace().next());
    let kib: u64 = kib.and_then(|kib| kib.parse().ok()).unwrap_or(0);
    let names = proc.sys_entries("devices/system/cpu");
    let numbers = names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse::<u32>().ok());
    let on = std::thread::available_parallelism().map_or(1, usize::from);
    (numbers.count().max(on) as u64, kib.saturating_mul(1024))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
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
    fn cores_that_are_off_are_left_out_and_lines_of_other_things_are_skipped() {
        let text = "cpu  10 1 5 100 7 1 2 3 0 0\ncpu0 4 0 2 50\ncpu3 6 1 3 50 7 1 2 3 0 0\nintr 99 1 2\nctxt 12\n\
                    btime 1\nprocesses 7\nprocs_running 2\nprocs_blocked 1\n";
        let stat = Stat::parse(text);
        assert_eq!(stat, Stat { cores: 2, context_switches: 12, running: 2, blocked: 1 });
    }

    #[test]
    fn a_process_may_be_called_anything() {
        let rest = "S 1 2 3 0 -1 4 5 6 7 8 30 12 0 0 20 0 1 0 777 1000 55 18446744073709551615";
        let process = Process::parse(&format!("42 (a) b (c) {rest}")).expect("a process");
        assert_eq!((process.pid, &*process.name), (42, "a) b (c"));
        assert_eq!((process.ticks(), process.started, process.pages), (42, 777, 55));
        assert_eq!((process.user, process.faults, process.major_faults), (30, 5, 7));
        assert_eq!(Process::parse("42 (x) S 1"), None);
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
    fn interfaces_processes_and_load_are_read() {
        let net = "Inter-|   Receive |\n face |bytes packets\n  eth0: 7 2 0 0 0 0 0 0 9 3 0 0 0 0 0 0\n";
        assert_eq!(parse_net(net).get("eth0"), Some(&Moved { input: 7, output: 9 }));
        assert_eq!(parse_net(net).len(), 1);
        assert_eq!(
            parse_io("rchar: 5\nread_bytes: 7\nwrite_bytes: 9\n"),
            Some(Moved { input: 7, output: 9 })
        );
        assert_eq!((parse_io("read_bytes: 7\n"), parse_io("read_bytes: x\nwrite_bytes: 9\n")), (None, None));
        assert_eq!((parse_schedstat("5 7 3\n"), parse_schedstat("5\n")), (Some((5, 7)), None));
        assert_eq!(parse_loadavg("0.50 0.40 0.30 2/345 999\n"), Some((0.5, 345)));
        assert_eq!(parse_loadavg("nonsense"), None);
    }
}
