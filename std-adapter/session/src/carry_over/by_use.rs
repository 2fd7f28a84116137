//! Packets that are kept, those first that are of most use: when there is no more room, the others go.

use std::collections::HashMap;

use tracebuf::proto::PacketView;
use tracebuf::proto::fields::{track_descriptor, track_event};
use tracebuf::proto::reader::{FieldValue, Fields, number};

use super::noted::is_noted;
use super::sequence::Sequence;
use super::{Id, Sequences, limits};

/// The packets of a state, with the numbers of their lists.
pub(super) fn packets(state: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    Fields::of(state).filter_map(|field| match field.value {
        FieldValue::Bytes(packet) => Some((field.number, packet)),
        _ => None,
    })
}

/// What a packet that is kept is about.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum About {
    Track(u64),
    Sequence(u64),
}

/// The packets of a state, those first that are of most use.
pub(super) fn by_use<'s>(state: &'s [u8], sequences: &Sequences) -> Vec<&'s [u8]> {
    let (mut all, mut used, mut parents) = (Vec::new(), HashMap::<About, u64>::new(), Vec::new());
    for (list, packet) in packets(state) {
        let view = PacketView::of(packet);
        let uuid = track_of(&view);
        let about = if is_noted(list) { About::Sequence(view.sequence_id) } else { About::Track(uuid) };
        // If its sequence still goes on with the track, it is of use now.
        let knows = |sequence: &Sequence| sequence.descriptions.all().any(|known| known.uuid == uuid);
        let sequence = sequences.get(&(view.sequence_id as Id)).map(Box::as_ref);
        let sequence = sequence.filter(|sequence| is_noted(list) || knows(sequence));
        let last = sequence.and_then(|sequence| sequence.last).map_or(0, |last| last.time);
        let of_it = used.entry(about).or_default();
        *of_it = view.time.unwrap_or(0).max(last).max(*of_it);
        let parent = number(view.track, track_descriptor::PARENT_UUID);
        parents.extend(parent.map(|parent| (about, About::Track(parent))));
        all.push((about, packet));
    }
    // A counter's value needs the counter, and a track those above it.
    for _ in 0..limits::PARENTS {
        for (about, parent) in &parents {
            let last = used.get(about).copied().unwrap_or(0);
            used.entry(*parent).and_modify(|used| *used = last.max(*used));
        }
    }
    all.sort_by_key(|(about, _)| std::cmp::Reverse(used.get(about).copied()));
    all.into_iter().map(|(_, packet)| packet).collect()
}

/// Of a packet that is kept, the track that it is about.
fn track_of(packet: &PacketView<'_>) -> u64 {
    let uuid = match packet.event {
        Some(event) => number(event, track_event::TRACK_UUID),
        None => number(packet.track, track_descriptor::UUID),
    };
    uuid.unwrap_or(0)
}
