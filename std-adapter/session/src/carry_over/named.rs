//! Processes and threads that packets name otherwise than by tracks: a machine's, and those of writers from before there
//! were tracks.

use std::collections::HashMap;

use tracebuf::proto::fields::{
    process_descriptor, process_tree, process_tree_process, process_tree_thread, thread_descriptor,
    trace_packet, track_descriptor,
};
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, number};
use tracebuf::proto::{PacketView, Sink};
use tracebuf::vm::Keep;

/// Hands over each process and thread that a packet names, as the field of a packet that names it alone: a `ProcessTree`,
/// or a `TrackDescriptor` in place of a descriptor that readers take only with its sequence's state. `pid` is that of the
/// writer. `named` also gets whether later packets of the sequence may need it.
pub(super) fn each(packet: &PacketView<'_>, pid: Option<i32>, mut named: impl FnMut(u32, &[u8], bool)) {
    for field in Fields::of(packet.content) {
        let FieldValue::Bytes(content) = field.value else { continue };
        let (kind, of) = match field.number {
            trace_packet::PROCESS_TREE => {
                let parts = Fields::of(content).filter(|part| is_read(part.number, part.value));
                parts.for_each(|part| named(trace_packet::PROCESS_TREE, part.whole, false));
                continue;
            }
            trace_packet::PROCESS_DESCRIPTOR => {
                (track_descriptor::PROCESS, [number(content, process_descriptor::PID), Some(0)])
            }
            trace_packet::THREAD_DESCRIPTOR => {
                let of = [thread_descriptor::PID, thread_descriptor::TID].map(|field| number(content, field));
                (track_descriptor::THREAD, of)
            }
            _ => continue,
        };
        if let [Some(of), Some(tid)] = of {
            // From where some count the times of their events, that is of now.
            let counts_time = number(content, thread_descriptor::REFERENCE_TIMESTAMP_US).is_some();
            named(trace_packet::TRACK_DESCRIPTOR, &track(pid, [of, tid], kind, content), !counts_time);
        }
    }
}

/// Whether readers take a part of a process tree: they skip a process without a word.
fn is_read(number: u32, value: FieldValue<'_>) -> bool {
    let FieldValue::Bytes(part) = value else { return false };
    let has_words = || messages(part, process_tree_process::CMDLINE).next().is_some();
    number == process_tree::THREADS || number == process_tree::PROCESSES && has_words()
}

/// The description of a track. Its number is always the same for the same thread of a writer's process.
fn track(writer: Option<i32>, [pid, tid]: [u64; 2], field: u32, content: &[u8]) -> Vec<u8> {
    let words = [u64::from(field), writer.map_or(0, |pid| pid as u64), pid, tid];
    let uuid = words.into_iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, word| {
        (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
    });
    let mut track = Vec::with_capacity(content.len() + 16);
    let Ok(()) = track.varint(track_descriptor::UUID, uuid);
    let Ok(()) = track.bytes(field, content);
    track
}

/// The number of the process or thread that a packet tells of in one of the lists, and of the process that it belongs to.
pub(super) fn numbered(list: u32, packet: &[u8]) -> Option<(u64, u64)> {
    let tree = message(packet, trace_packet::PROCESS_TREE)?;
    let of = |part, of, parent| {
        let part = message(tree, part)?;
        Some((number(part, of)?, number(part, parent).unwrap_or(0)))
    };
    if list == Keep::PROCESSES.list {
        of(process_tree::PROCESSES, process_tree_process::PID, process_tree_process::PPID)
    } else if list == Keep::THREADS.list {
        of(process_tree::THREADS, process_tree_thread::TID, process_tree_thread::TGID)
    } else {
        None
    }
}

/// Processes that were told of again after their threads, as of the first of these: else readers do not know yet whose
/// namespaces the thread has numbers in.
pub(super) fn processes_before_their_threads<'s>(
    kept: impl Iterator<Item = (u32, &'s [u8])> + Clone,
) -> Vec<Vec<u8>> {
    let in_namespace = |packet, part, nspid| {
        let part = message(packet, trace_packet::PROCESS_TREE).and_then(|tree| message(tree, part));
        part.is_some_and(|part| Fields::of(part).any(|field| field.number == nspid))
    };
    let mut first = HashMap::<u64, u64>::new();
    for (list, packet) in kept.clone().filter(|(list, _)| *list == Keep::THREADS.list) {
        if in_namespace(packet, process_tree::THREADS, process_tree_thread::NSTID)
            && let (Some((_, pid)), Some(time)) = (numbered(list, packet), PacketView::of(packet).time)
        {
            first.entry(pid).and_modify(|first| *first = time.min(*first)).or_insert(time);
        }
    }
    if first.is_empty() {
        return Vec::new();
    }
    let processes = kept.filter(|(list, _)| *list == Keep::PROCESSES.list);
    let early = processes.filter_map(|(list, packet)| {
        let first = *first.get(&numbered(list, packet)?.0)?;
        PacketView::of(packet).time.filter(|time| first < *time)?;
        let others = Fields::of(packet).filter(|field| field.number != trace_packet::TIMESTAMP);
        let mut early = Vec::with_capacity(packet.len() + 10);
        let Ok(()) = early.varint(trace_packet::TIMESTAMP, first);
        others.for_each(|field| early.extend_from_slice(field.whole));
        Some(early)
    });
    early.collect()
}
