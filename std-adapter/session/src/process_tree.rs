//! Programs in containers, reported as Perfetto's `ProcessTree`.
//!
//! Such a program names its threads by the numbers in its own pid namespace: see [`Numbers`].

mod numbers;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracebuf::proto::fields::{
    builtin_clock, process_tree, process_tree_process, process_tree_thread, trace_packet,
};
use tracebuf::proto::{Message, Sink};

use crate::export::Piece;
use crate::limits::WRITERS;
pub(crate) use numbers::Numbers;

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeProcess {
    /// As the service sees it.
    pub pid: u32,
    /// 0 if it has no parent that the service sees.
    pub ppid: u32,
    /// Its user.
    pub uid: u32,
    /// Its number in each namespace within the service's, the outermost first.
    pub nspid: Vec<u32>,
    /// Words, each followed by a zero.
    pub command_line: String,
    /// Its name, used if it has no command line.
    pub name: String,
}

/// A thread of such a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeThread {
    /// As the service sees it.
    pub tid: u32,
    /// Like a process's.
    pub nstid: Vec<u32>,
    /// Its name.
    pub name: String,
}

/// Most threads of a process that are reported, those with the lowest numbers first: as many as can record at a time.
const THREADS: usize = WRITERS;

/// Bytes that processes which have gone may take, about: their packets may still be in a ring.
const PAST: usize = 1 << 20;

/// The processes of a session. Clones are the same tree.
#[derive(Clone, Debug, Default)]
pub struct ProcessTree(Arc<Mutex<Processes>>);

#[derive(Debug, Default)]
struct Processes {
    entries: Vec<Entry>,
    number: u64,
}

#[derive(Debug)]
struct Entry {
    presence: Presence,
    /// The boot time since when it may record.
    time: u64,
    process: TreeProcess,
    /// What it calls itself, once that is known.
    name: Option<String>,
    number: u64,
    threads: Vec<(u64, TreeThread)>,
}

/// Held as long as a process is there, by each of its connections.
#[derive(Clone, Debug, Default)]
pub struct Presence(Arc<()>);

impl ProcessTree {
    fn lock(&self) -> MutexGuard<'_, Processes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a process that records nothing before this boot time. One that is there through another connection is the
    /// same one: if it were reported again, a reader would forget its threads.
    pub fn come(&self, process: TreeProcess, time: u64) -> Presence {
        let mut processes = self.lock();
        let numbers = |process: &TreeProcess| (process.pid, process.nspid.clone());
        let is_it = |entry: &&Entry| numbers(&entry.process) == numbers(&process) && !entry.is_gone();
        if let Some(entry) = processes.entries.iter().find(is_it) {
            return entry.presence.clone();
        }
        processes.forget_oldest();
        processes.number += 1;
        let (presence, number) = (Presence::default(), processes.number);
        let (name, threads) = (None, Vec::new());
        let entry = Entry { presence: presence.clone(), time, process, name, number, threads };
        processes.entries.push(entry);
        presence
    }

    /// Returns which of a process's threads, in ascending order, are yet to be reported.
    pub fn unknown(&self, process: &Presence, threads: &[u32]) -> Vec<u32> {
        let processes = self.lock();
        let Some(entry) = processes.entries.iter().find(|entry| entry.is_of(process)) else {
            return Vec::new();
        };
        let there = entry.threads.iter().filter(|(_, thread)| threads.binary_search(&thread.tid).is_ok());
        let mut told: Vec<u32> = there.map(|(_, thread)| thread.tid).collect();
        told.sort_unstable();
        let new = threads.iter().filter(|thread| told.binary_search(thread).is_err());
        new.take(THREADS.saturating_sub(told.len())).copied().collect()
    }

    /// Adds such threads. If there are too many, they take the place of those that have ended, the oldest first.
    pub fn add(&self, process: &Presence, threads: &[u32], new: Vec<TreeThread>) {
        let mut processes = self.lock();
        let mut number = processes.number;
        let Some(entry) = processes.entries.iter_mut().find(|entry| entry.is_of(process)) else { return };
        let mut excess = (entry.threads.len() + new.len()).saturating_sub(THREADS);
        entry.threads.retain(|(_, thread)| {
            let goes = excess > 0 && threads.binary_search(&thread.tid).is_err();
            excess -= usize::from(goes);
            !goes
        });
        let room = THREADS.saturating_sub(entry.threads.len());
        entry.threads.extend(new.into_iter().take(room).map(|thread| {
            number += 1;
            (number, thread)
        }));
        processes.number = number;
    }
}

impl ProcessTree {
    /// What a process calls itself: files to come say so from their beginning.
    fn set_name(&self, pid: u32, name: &str) {
        if let Some(entry) = self.lock().entries.iter_mut().rev().find(|entry| entry.process.pid == pid) {
            entry.name = Some(name.to_owned());
        }
    }
}

impl TreeProcess {
    /// With its own name before its command line. Otherwise readers would call it by that.
    fn called(&self, name: &str) -> Self {
        let command_line = format!("{name}\0{}", self.command_line);
        Self { command_line, ..self.clone() }
    }
}

impl Processes {
    /// Forgets the oldest of those that have gone, if they take too much.
    fn forget_oldest(&mut self) {
        let mut past: usize = self.entries.iter().filter(|entry| entry.is_gone()).map(Entry::size).sum();
        self.entries.retain(|entry| {
            let goes = past > PAST && entry.is_gone();
            if goes {
                past -= entry.size();
            }
            !goes
        });
    }
}

impl Entry {
    fn is_of(&self, process: &Presence) -> bool {
        Arc::ptr_eq(&self.presence.0, &process.0)
    }

    fn is_gone(&self) -> bool {
        Arc::strong_count(&self.presence.0) == 1
    }

    fn size(&self) -> usize {
        let name = self.name.as_ref().map_or(0, String::len);
        self.process.command_line.len() + name + 128 * (1 + self.threads.len())
    }
}

impl Piece {
    /// Adds processes and threads numbered after `since`, with the time from which each may record.
    pub fn processes(&mut self, tree: &ProcessTree, since: u64) -> io::Result<u64> {
        let processes = tree.lock();
        if processes.number == since {
            return Ok(since);
        }
        for entry in &processes.entries {
            let packet = Packet { entry, since };
            if packet.is_of_process() || packet.threads().next().is_some() {
                self.service(&packet)?;
            }
        }
        Ok(processes.number)
    }
}

struct Packet<'k> {
    entry: &'k Entry,
    since: u64,
}

impl<'k> Packet<'k> {
    fn is_of_process(&self) -> bool {
        self.entry.number > self.since
    }

    fn threads(&self) -> impl Iterator<Item = &'k TreeThread> {
        let since = self.since;
        self.entry.threads.iter().filter(move |(number, _)| *number > since).map(|(_, thread)| thread)
    }
}

impl Message for Packet<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(trace_packet::TIMESTAMP, self.entry.time)?;
        out.varint(trace_packet::TIMESTAMP_CLOCK_ID, builtin_clock::BOOTTIME)?;
        out.message(trace_packet::PROCESS_TREE, &Tree(self))
    }
}

struct Tree<'p, 'k>(&'p Packet<'k>);

impl Message for Tree<'_, '_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let process = &self.0.entry.process;
        if self.0.is_of_process() {
            match &self.0.entry.name {
                Some(name) => out.message(process_tree::PROCESSES, &process.called(name))?,
                None => out.message(process_tree::PROCESSES, process)?,
            }
        }
        self.0
            .threads()
            .try_for_each(|thread| out.message(process_tree::THREADS, &OfProcess(process, thread)))
    }
}

impl Message for TreeProcess {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.int(process_tree_process::PID, self.pid.into())?;
        out.int(process_tree_process::PPID, self.ppid.into())?;
        let words = self.command_line.strip_suffix('\0').unwrap_or(&self.command_line);
        if words.is_empty() {
            out.string(process_tree_process::CMDLINE, &self.name)?;
            out.bool(process_tree_process::CMDLINE_IS_COMM, true)?;
        } else {
            words.split('\0').try_for_each(|word| out.string(process_tree_process::CMDLINE, word))?;
        }
        // As `trusted_uid` is written: above `i32::MAX` as the negative number with the same bits.
        out.int(process_tree_process::UID, (self.uid as i32).into())
    }
}

struct OfProcess<'k>(&'k TreeProcess, &'k TreeThread);

impl Message for OfProcess<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let Self(process, thread) = self;
        out.int(process_tree_thread::TID, thread.tid.into())?;
        out.string(process_tree_thread::NAME, &thread.name)?;
        out.int(process_tree_thread::TGID, process.pid.into())
    }
}

#[cfg(test)]
mod tests;
