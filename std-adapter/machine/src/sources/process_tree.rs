//! What processes and threads are called, and how they belong together: `ProcessTree`, from `/proc`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::param::clock_ticks_per_second;
use tracebuf::producer::track_event::Clock;
use tracebuf::proto::fields::{
    process_tree as field, process_tree_process as of_process, process_tree_thread as of_thread, trace_packet,
};
use tracebuf::proto::{Message, Sink};
use tracebuf_session::BootClock;

use super::data_source::{DataSource, SourceOutput};
use super::proc_status::Status;
use super::thread_numbers::ThreadNumbers;
use crate::proc::{Proc, Process};

/// Time between two looks whether threads have come, where nobody says so: short, as those that end are not found any more.
const PERIOD: Duration = Duration::from_millis(100);
/// The same where somebody does.
const WOKEN: Duration = Duration::from_secs(3600);
/// Time that telling of those which were there takes at once.
const SHARE: Duration = Duration::from_millis(10);
/// Bytes beside the buffers that what is over may take: processes and threads that are gone, and names of before.
const PAST: usize = 4 << 20;
/// Threads in a packet: of many in one, a ring of a few MiB would hold nothing else, or have no room.
const THREADS: usize = 512;
/// The parent of the kernel's threads.
const KTHREADD: u32 = 2;
/// Bytes of a command line that are kept.
const MAX_COMMAND_LINE: usize = 4096;

/// Tells of all processes at the start, and then of each thread that another source meets: the names, the command line,
/// the parent, the user and the time of the start. The packets are kept beside the buffers, so that a ring does not lose
/// them; those of processes and threads that have ended up to 4 MiB, or as much as those of all that run.
///
/// Numbers are those of this process's pid namespace. Threads that end before they are looked up, at once after the
/// source that met them has been drained, stay unknown: their events may still have told their names. It waits for
/// processes whose memory is locked, so a source whose buffers fill belongs on another thread.
#[derive(Debug)]
pub struct ProcessTreeSource {
    proc: Proc,
    threads: ThreadNumbers,
    /// By process.
    told: HashMap<u32, Told>,
    bytes: usize,
    /// See [`PAST`].
    past: usize,
    /// The bytes at which the next look for what is over is due.
    next_look: usize,
    /// Those that were there at the start and are yet to be told of, in descending order.
    there: Vec<u32>,
    /// Whether it tells of those that are there at the start, and of all their threads.
    scans: bool,
    has_threads: bool,
}

/// A process's packets beside the buffers, the oldest first.
#[derive(Debug, Default)]
struct Told(Vec<Packet>);

#[derive(Debug)]
struct Packet {
    number: u64,
    bytes: usize,
    has_process: bool,
    threads: Box<[u32]>,
}

impl Told {
    /// Those that say nothing of what is there: a later one has the process and the threads anew, or these have ended.
    fn over(&self, has_ended: impl Fn(u32) -> bool) -> Vec<&Packet> {
        let (mut is_process_known, mut known) = (false, HashSet::new());
        let is_over = |packet: &&Packet| {
            let of_process = !packet.has_process || std::mem::replace(&mut is_process_known, true);
            let new: Vec<_> = packet.threads.iter().filter(|thread| known.insert(**thread)).collect();
            of_process && new.into_iter().all(|thread| has_ended(*thread))
        };
        self.0.iter().rev().filter(is_over).collect()
    }
}

/// `ProcessTree` with one process at most, and its threads.
#[derive(Debug, Default)]
struct Tree {
    time: u64,
    end: u64,
    process: Option<(u32, TreeProcess)>,
    tgid: u32,
    threads: Vec<(u32, Status)>,
}

#[derive(Debug)]
struct TreeProcess {
    status: Status,
    command_line: Vec<u8>,
    /// Nanoseconds of boot time.
    started: Option<u64>,
}

impl ProcessTreeSource {
    /// Tells of processes that are there, and of threads that somebody puts in this list.
    pub fn new(threads: ThreadNumbers) -> Self {
        Self::of(Proc::new(), threads)
    }

    pub(crate) fn of(proc: Proc, threads: ThreadNumbers) -> Self {
        Self {
            proc,
            threads,
            told: HashMap::new(),
            bytes: 0,
            past: PAST,
            next_look: PAST,
            there: Vec::new(),
            scans: true,
            has_threads: true,
        }
    }

    /// Tells of processes that are there at the start only if `scans`; and with a process of all its threads, or only of
    /// those that are met.
    #[must_use]
    pub fn of_those_there(mut self, scans: bool, with_threads: bool) -> Self {
        (self.scans, self.has_threads) = (scans, with_threads);
        self
    }

    /// Is to tell of these processes, whether it has or not.
    pub(super) fn meet(&mut self, processes: impl Iterator<Item = u32>) {
        self.there.extend(processes);
        self.there.sort_unstable_by(|one, other| other.cmp(one));
        self.there.dedup();
    }

    fn status(&self, number: u32) -> Option<Status> {
        Status::parse(&self.proc.read(format!("{number}/status")).ok()?)
    }

    /// `status` is that of its main thread, if it was read.
    fn process(&self, pid: u32, status: Option<Status>) -> Option<TreeProcess> {
        let status = status.or_else(|| self.status(pid)).filter(|status| status.tgid == pid)?;
        let mut command_line = self.proc.bytes(format!("{pid}/cmdline")).unwrap_or_default();
        command_line.truncate(MAX_COMMAND_LINE);
        let started = self.proc.read(format!("{pid}/stat")).ok().and_then(|text| Process::parse(&text));
        let nanoseconds = |ticks: u64| ticks.saturating_mul(1_000_000_000 / clock_ticks_per_second().max(1));
        Some(TreeProcess {
            status,
            command_line,
            started: started.map(|process| nanoseconds(process.started)),
        })
    }

    /// Tells of these threads of a process, or of all, and of the process if it is new, or may run another program
    /// since: then its main thread is among them. One that is about to end has no command line any more: what was told
    /// of it stays.
    ///
    /// `time` is before the first of them was read: a process may end just after, and what is told of it after its end
    /// readers take for another one's.
    fn tell(&mut self, time: u64, pid: u32, threads: Option<Vec<(u32, Status)>>, out: &mut SourceOutput) {
        let is_told = self.told.contains_key(&pid);
        let main = threads.as_ref().and_then(|threads| threads.iter().find(|(tid, _)| *tid == pid));
        let is_looked_up = !is_told || main.is_some() || threads.is_none();
        let process = is_looked_up.then(|| self.process(pid, main.map(|(_, status)| status.clone())));
        let process = process.flatten();
        let process = process.filter(|process| !is_told || !process.command_line.is_empty());
        let threads = threads.unwrap_or_else(|| {
            let all = if self.has_threads { self.proc.numbers(format!("{pid}/task")) } else { vec![pid] };
            let all = all.into_iter();
            let of_main = |tid| process.as_ref().filter(|_| tid == pid).map(|process| process.status.clone());
            let statuses = all.filter_map(|tid| Some((tid, of_main(tid).or_else(|| self.status(tid))?)));
            statuses.filter(|(_, status)| status.tgid == pid).collect()
        });
        if process.is_none() && threads.is_empty() {
            return;
        }
        let mut process = process.map(|process| (pid, process));
        let mut threads = threads.into_iter();
        loop {
            let some: Vec<_> = threads.by_ref().take(THREADS).collect();
            let named = some.iter().map(|(tid, _)| *tid).collect();
            let tree = Tree { time, end: BootClock.now(), process: process.take(), tgid: pid, threads: some };
            let (number, bytes, has_process) = (out.keep(&tree), tree.encoded_len(), tree.process.is_some());
            self.told.entry(pid).or_default().0.push(Packet { number, bytes, has_process, threads: named });
            self.bytes += bytes;
            if threads.len() == 0 {
                break;
            }
        }
        if self.bytes > self.next_look {
            self.forget_past(out);
        }
    }

    /// Forgets what is over, the oldest first, until half of its room is free. All of a process is over at once.
    fn forget_past(&mut self, out: &SourceOutput) {
        let has_ended = |number| self.status(number).is_none();
        let mut over: Vec<Vec<&Packet>> = Vec::new();
        for (pid, told) in &self.told {
            if has_ended(*pid) {
                over.push(told.0.iter().collect());
            } else {
                over.extend(told.over(has_ended).into_iter().map(|packet| vec![packet]));
            }
        }
        over.sort_unstable_by_key(|packets| packets.first().map(|packet| packet.number));
        let mut past: usize = over.iter().flatten().map(|packet| packet.bytes).sum();
        let running = self.bytes - past;
        let mut forgotten = HashSet::new();
        for packets in over {
            if past <= self.past / 2 {
                break;
            }
            for packet in packets {
                out.forget(packet.number);
                forgotten.insert(packet.number);
                past -= packet.bytes;
            }
        }
        self.told.retain(|_, told| {
            told.0.retain(|packet| !forgotten.contains(&packet.number));
            !told.0.is_empty()
        });
        self.bytes = running + past;
        // However much runs, such looks are rare.
        self.next_look = self.past.max(2 * running + self.past / 2);
    }

    /// Looks up threads that were met; those of a process together.
    fn look_up(&mut self, out: &mut SourceOutput) {
        let mut by_process: BTreeMap<u32, (u64, Vec<(u32, Status)>)> = BTreeMap::new();
        for number in self.threads.take() {
            let time = BootClock.now();
            if let Some(status) = self.status(number) {
                let (_, threads) = by_process.entry(status.tgid).or_insert_with(|| (time, Vec::new()));
                threads.push((number, status));
            }
        }
        for (pid, (time, threads)) in by_process {
            self.tell(time, pid, Some(threads), out);
        }
    }
}

impl DataSource for ProcessTreeSource {
    fn name(&self) -> &'static str {
        "linux.process_stats"
    }

    /// They are told of a few at a time: on a large machine reading all of them takes a while, and another source of the
    /// thread has buffers that fill.
    fn start(&mut self, _: &mut SourceOutput) -> io::Result<()> {
        if self.scans {
            self.there = self.proc.numbers("");
            self.there.reverse();
        }
        Ok(())
    }

    fn drain(&mut self, out: &mut SourceOutput) -> Duration {
        self.look_up(out);
        let begun = Instant::now();
        while begun.elapsed() < SHARE {
            let Some(pid) = self.there.pop() else {
                return self.threads.filled().map_or(PERIOD, |_| WOKEN);
            };
            self.tell(BootClock.now(), pid, None, out);
        }
        Duration::ZERO
    }

    fn flush(&mut self, out: &mut SourceOutput) {
        self.look_up(out);
        while let Some(pid) = self.there.pop() {
            self.tell(BootClock.now(), pid, None, out);
        }
    }

    fn stop(&mut self, out: &mut SourceOutput) {
        self.flush(out);
    }

    /// All that were told of and are there still.
    fn tell_again(&mut self) {
        let told = std::mem::take(&mut self.told);
        // Those that were met by their own numbers are among a process's.
        self.has_threads = true;
        (self.bytes, self.next_look) = (0, self.past);
        self.there.extend(told.into_keys());
    }

    fn wakes_on(&self) -> Vec<BorrowedFd<'_>> {
        self.threads.filled().into_iter().collect()
    }
}

impl Message for Tree {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(trace_packet::TIMESTAMP, self.time)?;
        out.message(trace_packet::PROCESS_TREE, &Parts(self))
    }
}

struct Parts<'t>(&'t Tree);

impl Message for Parts<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let Tree { process, tgid, threads, end, .. } = self.0;
        if let Some((pid, process)) = process {
            out.message(field::PROCESSES, &OneProcess(*pid, process))?;
        }
        for (tid, status) in threads {
            out.message(field::THREADS, &OneThread(*tid, *tgid, status))?;
        }
        out.varint(field::COLLECTION_END_TIMESTAMP, *end)
    }
}

struct OneProcess<'t>(u32, &'t TreeProcess);

impl Message for OneProcess<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let (pid, TreeProcess { status, command_line, started }) = (self.0, self.1);
        out.int(of_process::PID, pid.into())?;
        out.int(of_process::PPID, status.ppid.into())?;
        // Without a word readers would skip the process.
        let words = command_line.strip_suffix(b"\0").unwrap_or(command_line);
        if words.is_empty() {
            out.string(of_process::CMDLINE, &status.name)?;
            out.bool(of_process::CMDLINE_IS_COMM, true)?;
        } else {
            let mut words = words.split(|byte| *byte == 0);
            words.try_for_each(|word| out.string(of_process::CMDLINE, &String::from_utf8_lossy(word)))?;
        }
        out.int(of_process::UID, status.uid.into())?;
        status.nspid.iter().try_for_each(|number| out.int(of_process::NSPID, (*number).into()))?;
        started.map_or(Ok(()), |time| out.varint(of_process::PROCESS_START_FROM_BOOT, time))?;
        // Kernels before 6.4 do not say so themselves.
        let is_kernels = status.is_kernels.unwrap_or(status.ppid == KTHREADD || pid == KTHREADD);
        out.bool(of_process::IS_KTHREAD, is_kernels)
    }
}

/// A thread's name. What follows the number of one of the kernel's workers is what it does just now.
fn name_of(name: &str) -> &str {
    let worker = name.strip_prefix("kworker/").and_then(|rest| rest.split_once('-'));
    worker.map_or(name, |(_, now)| &name[..name.len() - now.len() - 1])
}

struct OneThread<'t>(u32, u32, &'t Status);

impl Message for OneThread<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.int(of_thread::TID, self.0.into())?;
        out.string(of_thread::NAME, name_of(&self.2.name))?;
        out.int(of_thread::TGID, self.1.into())?;
        self.2.nspid.iter().try_for_each(|number| out.int(of_thread::NSTID, (*number).into()))
    }
}

#[cfg(test)]
mod tests;
