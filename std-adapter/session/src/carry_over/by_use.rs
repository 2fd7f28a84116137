//! Packets that are kept, those first that are of most use: when there is no more room, the others go.

use std::collections::HashMap;

use tracebuf::proto::PacketView;
use tracebuf::proto::fields::{track_descriptor, track_event};
use tracebuf::proto::reader::{FieldValue, Fields, number};
use tracebuf::vm::{Keep, VmStats};

use super::noted::is_noted;
use super::sequence::Sequence;
use super::{Id, Sequences, limits, named};

/// The packets of a state, with the numbers of their lists.
pub(super) fn packets(state: &[u8]) -> impl Iterator<Item = (u32, &[u8])> + Clone {
    Fields::of(state).filter_map(|field| match field.value {
        FieldValue::Bytes(packet) => Some((field.number, packet)),
        _ => None,
    })
}

/// The packets of a state, those first that are of most use.
pub(super) fn by_use<'s>(state: &'s [u8], sequences: &Sequences) -> Vec<&'s [u8]> {
    // A track, a process, a thread or a sequence, by its number; counters' values are of their tracks.
    type Of = (u32, u64);
    let (mut all, mut used, mut parents) = (Vec::new(), HashMap::<Of, u64>::new(), Vec::new());
    for (list, packet) in packets(state) {
        let view = PacketView::of(packet);
        let sequence = sequences.get(&(view.sequence_id as Id)).map(Box::as_ref);
        let last_of = |sequence: Option<&Sequence>| {
            sequence.and_then(|sequence| sequence.last).map_or(0, |last| last.time)
        };
        let (of, last) = match named::numbered(list, packet) {
            Some((of, parent)) => {
                parents.push(((list, of), (Keep::PROCESSES.list, parent)));
                ((list, of), 0)
            }
            None if is_noted(list) => ((SEQUENCE, view.sequence_id), last_of(sequence)),
            None => {
                let uuid = match view.event {
                    Some(event) => number(event, track_event::TRACK_UUID),
                    None => number(view.track, track_descriptor::UUID),
                };
                let uuid = uuid.unwrap_or(0);
                let parent = number(view.track, track_descriptor::PARENT_UUID);
                parents.extend(parent.map(|parent| ((0, uuid), (0, parent))));
                // If its sequence still goes on with the track, it is of use now.
                let knows =
                    |sequence: &&Sequence| sequence.descriptions.all().any(|known| known.uuid == uuid);
                ((0, uuid), last_of(sequence.filter(knows)))
            }
        };
        let used = used.entry(of).or_default();
        *used = view.time.unwrap_or(0).max(last).max(*used);
        all.push((of, packet));
    }
    // A counter's value needs the counter, and a track those above it.
    for _ in 0..limits::PARENTS {
        for (of, parent) in &parents {
            let last = used.get(of).copied().unwrap_or(0);
            used.entry(*parent).and_modify(|used| *used = last.max(*used));
        }
    }
    all.sort_by_key(|(of, _)| std::cmp::Reverse(used.get(of).copied()));
    all.into_iter().map(|(_, packet)| packet).collect()
}

/// No list: of sequences, by their numbers.
const SEQUENCE: u32 = u32::MAX;

/// Bytes of a cell.
pub(super) const CELL: usize = 32;

/// Bytes of memory that a packet takes.
pub(super) fn bytes_of(packet: &[u8]) -> usize {
    CELL * (2 + packet.len().saturating_sub(24).div_ceil(28))
}

/// Cells that a packet may need until it is kept, besides its own; six, as far as we have seen.
const SPARE: usize = 16;

/// Whether there is room for a packet, whatever it replaces.
pub(super) fn has_room(stats: &VmStats, packet: &[u8]) -> bool {
    stats.cells.saturating_sub(stats.used) as usize >= bytes_of(packet) / CELL + SPARE
}

/// Bytes that the machine has in use, and the most that it had.
pub(super) fn in_use(stats: &VmStats) -> (u64, u64) {
    (u64::from(stats.used) * CELL as u64, u64::from(stats.high_water) * CELL as u64)
}
