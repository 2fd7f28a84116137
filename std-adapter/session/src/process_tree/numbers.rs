//! The numbers of processes and threads in containers, put into what those say of themselves.
//!
//! Such a program describes itself by its numbers in its own pid namespace, which are those of others outside. Readers
//! translate them only in part: names would go to the others. So packets that leave the buffers have the service's.

use std::collections::{HashMap, HashSet};

use tracebuf::proto::fields::{
    builtin_clock, process_descriptor, process_tree, thread_descriptor, trace, trace_packet, track_descriptor,
};
use tracebuf::proto::reader::{Field, FieldValue, Fields, message, number};
use tracebuf::proto::{Message, PacketView, Sink, TracePackets};

use super::{ProcessTree, TreeProcess};
use crate::export::Piece;

/// A thread's numbers beyond this are its own with something before it that tells it apart from an earlier one.
const TIDS: u64 = 10_000_000;

/// The numbers of all processes in containers, and to whom a trace has given their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    revision: u64,
    processes: HashMap<u32, Process>,
    named: HashSet<u32>,
    tree: ProcessTree,
}

#[derive(Clone, Debug)]
struct Process {
    time: u64,
    tree: TreeProcess,
    /// By the number in its own namespace.
    threads: HashMap<u64, u32>,
}

impl Numbers {
    /// Takes over what the tree has learned.
    pub(crate) fn refresh(&mut self, tree: &ProcessTree) {
        let processes = tree.lock();
        if self.revision == processes.number {
            return;
        }
        self.tree = tree.clone();
        self.revision = processes.number;
        // If a number was used again, the newest has it.
        self.processes = (processes.entries.iter())
            .map(|entry| {
                let inner = |numbers: &[u32]| numbers.last().copied().map(u64::from);
                let threads = entry.threads.iter();
                let threads = threads.filter_map(|(_, thread)| Some((inner(&thread.nstid)?, thread.tid)));
                let (time, tree) = (entry.time, entry.process.clone());
                (entry.process.pid, Process { time, tree, threads: threads.collect() })
            })
            .collect();
    }

    /// Puts the service's numbers into the packets of a piece from this byte on. A program's name comes with its command
    /// line once more: otherwise readers would call the process by that.
    pub(crate) fn apply(&mut self, piece: &mut Piece, from: usize) {
        if self.processes.is_empty() {
            return;
        }
        let packets = piece.bytes.split_off(from.min(piece.bytes.len()));
        let mut all = TracePackets::new(&packets);
        let mut at = 0;
        while let Some(packet) = all.next() {
            let whole = packets.get(at..all.offset()).unwrap_or_default();
            at = all.offset();
            let view = packet.map(PacketView::of).unwrap_or_default();
            let pid = view.pid.and_then(|pid| u32::try_from(pid).ok());
            let process = pid.and_then(|pid| self.processes.get(&pid));
            match process.filter(|process| view.is_well_formed && process.describes(view.track)) {
                None => piece.bytes.extend_from_slice(whole),
                Some(process) => {
                    let Ok(()) = piece.bytes.message(trace::PACKET, &Renumbered(process, view.content));
                    if let Some(name) = process.name(view.track)
                        && self.named.insert(process.tree.pid)
                    {
                        // It is not longer than packets may be.
                        let _ = piece.service(&Named(process.time, &process.tree.called(&name)));
                        self.tree.set_name(process.tree.pid, &name);
                    }
                }
            }
        }
    }
}

impl Process {
    /// Whether a track is this process's, or that of a thread of it, by the numbers in its namespace.
    fn describes(&self, track: &[u8]) -> bool {
        let own = self.tree.nspid.last().copied().map(u64::from);
        let pid = [
            (track_descriptor::PROCESS, process_descriptor::PID),
            (track_descriptor::THREAD, thread_descriptor::PID),
        ]
        .into_iter()
        .find_map(|(of, pid)| number(message(track, of).filter(|of| !of.is_empty())?, pid));
        own.is_some() && pid == own
    }

    /// The name that a process's track gives it.
    fn name(&self, track: &[u8]) -> Option<String> {
        let process = message(track, track_descriptor::PROCESS)?;
        let name = message(process, process_descriptor::PROCESS_NAME).filter(|name| !name.is_empty())?;
        // A zero would end a word of the command line.
        Some(String::from_utf8_lossy(name).replace('\0', " "))
    }

    /// A thread's number outside. One that is not known, as it ended at once, gets one that no other thread has.
    fn tid(&self, inner: u64) -> u64 {
        let (reuse, tid) = (inner / TIDS * TIDS, inner % TIDS);
        match self.threads.get(&tid) {
            Some(outer) => reuse + u64::from(*outer),
            None => u64::from(self.tree.pid) << 32 | inner & u64::from(u32::MAX),
        }
    }
}

/// A process, as a packet of the service.
struct Named<'p>(u64, &'p TreeProcess);

impl Message for Named<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(trace_packet::TIMESTAMP, self.0)?;
        out.varint(trace_packet::TIMESTAMP_CLOCK_ID, builtin_clock::BOOTTIME)?;
        out.message(trace_packet::PROCESS_TREE, &OnlyProcess(self.1))
    }
}

struct OnlyProcess<'p>(&'p TreeProcess);

impl Message for OnlyProcess<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.message(process_tree::PROCESSES, self.0)
    }
}

/// A packet with a description that has other numbers.
struct Renumbered<'p>(&'p Process, &'p [u8]);

impl Message for Renumbered<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let Self(process, packet) = *self;
        Fields::of(packet).try_for_each(|field| match field {
            Field { number: trace_packet::TRACK_DESCRIPTOR, value: FieldValue::Bytes(track), .. } => {
                out.message(trace_packet::TRACK_DESCRIPTOR, &Track(process, track))
            }
            field => out.put(field.whole),
        })
    }
}

struct Track<'p>(&'p Process, &'p [u8]);

impl Message for Track<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let Self(process, track) = *self;
        Fields::of(track).try_for_each(|field| match (field.number, field.value) {
            (of @ (track_descriptor::PROCESS | track_descriptor::THREAD), FieldValue::Bytes(described)) => {
                out.message(of, &Described(process, described, of == track_descriptor::THREAD))
            }
            _ => out.put(field.whole),
        })
    }
}

/// The description of a process, or of a thread. Both have the process's number in the same field.
struct Described<'p>(&'p Process, &'p [u8], bool);

impl Message for Described<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let Self(process, described, is_thread) = *self;
        Fields::of(described).try_for_each(|field| match (field.number, field.value) {
            (process_descriptor::PID, FieldValue::Number(_)) => {
                out.varint(process_descriptor::PID, process.tree.pid.into())
            }
            (thread_descriptor::TID, FieldValue::Number(tid)) if is_thread => {
                out.varint(thread_descriptor::TID, process.tid(tid))
            }
            _ => out.put(field.whole),
        })
    }
}

#[cfg(test)]
mod tests;
