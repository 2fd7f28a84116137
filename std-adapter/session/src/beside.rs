//! What a session keeps beside its buffers, because a ring would lose it, and writes before what they hold.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracebuf::proto::Message;

use super::process_tree::ProcessTree;
use crate::export::Piece;

/// All of it. Clones are the same.
#[derive(Clone, Default)]
pub struct Beside {
    /// The processes that have come from containers.
    pub process_tree: ProcessTree,
    pub tracks: Descriptions,
}

/// How much of it was written: the numbers of the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revision {
    process_tree: u64,
    tracks: u64,
}

/// Descriptions of tracks that need to come before all their values in a trace, as those of counters do: readers drop
/// values of counters that were not described before. Clones are the same.
///
/// A writer describes its tracks again and again as its packets in a ring go round, but the last description before
/// some values may already be overwritten when the values are not.
#[derive(Clone, Default)]
pub struct Descriptions(Arc<Mutex<Packets>>);

#[derive(Default)]
struct Packets {
    /// Packets of a trace, in the order in which they came.
    by_number: BTreeMap<u64, Box<[u8]>>,
    /// The newest one's number.
    number: u64,
}

impl Descriptions {
    fn lock(&self) -> MutexGuard<'_, Packets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a packet, after that of the track's parent and before anything on the track is recorded. Returns the number
    /// by which it can be changed.
    pub fn add<M: Message>(&self, packet: &M) -> u64 {
        let bytes = packet_of(packet);
        let mut packets = self.lock();
        packets.number += 1;
        let number = packets.number;
        packets.by_number.insert(number, bytes);
        number
    }

    /// Replaces a packet by another. A file that already has the first keeps it.
    pub fn replace<M: Message>(&self, number: u64, packet: &M) {
        if let Some(bytes) = self.lock().by_number.get_mut(&number) {
            *bytes = packet_of(packet);
        }
    }

    /// Removes a packet: nothing on its track is in a buffer any more.
    pub fn remove(&self, number: u64) {
        self.lock().by_number.remove(&number);
    }

    /// How many there are.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.lock().by_number.len()
    }
}

/// The packet as the service writes it; nothing if it is too long for a trace.
fn packet_of<M: Message>(packet: &M) -> Box<[u8]> {
    let mut piece = Piece::default();
    match piece.service(packet) {
        Ok(()) => piece.bytes.into(),
        Err(_) => Box::default(),
    }
}

impl Piece {
    /// Adds what is newer than what was written before; returns what is now the newest.
    ///
    /// Called just before buffers are read or copied, or when nothing comes into them any more, it covers all tracks
    /// that they have anything on: these were described before that was recorded.
    pub(crate) fn beside(&mut self, beside: &Beside, since: Revision) -> io::Result<Revision> {
        let process_tree = self.processes(&beside.process_tree, since.process_tree)?;
        Ok(Revision { process_tree, tracks: self.descriptions(&beside.tracks, since.tracks) })
    }

    fn descriptions(&mut self, tracks: &Descriptions, since: u64) -> u64 {
        let packets = tracks.lock();
        for packet in packets.by_number.range(since.saturating_add(1)..).map(|(_, packet)| packet) {
            self.bytes.extend_from_slice(packet);
            self.packets += u64::from(!packet.is_empty());
        }
        packets.number
    }
}

#[cfg(test)]
mod tests {
    use tracebuf::proto::fields::{trace_packet, track_descriptor};
    use tracebuf::proto::{Sink, TracePackets};

    use super::*;

    struct Track(&'static str);

    impl Message for Track {
        fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
            out.string(track_descriptor::NAME, self.0)
        }
    }

    struct Packet(Track);

    impl Message for Packet {
        fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
            out.message(trace_packet::TRACK_DESCRIPTOR, &self.0)
        }
    }

    /// What comes after `since`, as one text.
    fn told(beside: &Beside, since: Revision) -> (String, Revision) {
        let mut piece = Piece::default();
        let newest = piece.beside(beside, since).expect("memory");
        let packets: Vec<_> = TracePackets::new(&piece.bytes).map(|packet| packet.expect("one")).collect();
        assert_eq!(packets.len() as u64, piece.packets);
        (packets.iter().map(|packet| String::from_utf8_lossy(packet)).collect(), newest)
    }

    #[test]
    fn tracks_are_told_in_their_order_and_once_each() {
        let beside = Beside::default();
        let numbers = ["first", "second", "third"].map(|name| beside.tracks.add(&Packet(Track(name))));
        let (text, newest) = told(&beside, Revision::default());
        let places = ["first", "second", "third"].map(|name| text.find(name).expect("it is told"));
        assert!(places.is_sorted(), "{text}");
        beside.tracks.remove(numbers[1]);
        beside.tracks.replace(numbers[1], &Packet(Track("nobody")));
        beside.tracks.replace(numbers[2], &Packet(Track("other")));
        beside.tracks.add(&Packet(Track("fourth")));
        let (text, last) = told(&beside, newest);
        assert!(text.contains("fourth") && !text.contains("first") && !text.contains("other"), "{text}");
        assert_eq!(told(&beside, last), (String::new(), last));
        let (text, all) = told(&beside, Revision::default());
        assert_eq!(all, last);
        let has = ["first", "other", "fourth", "second", "third", "nobody"].map(|name| text.contains(name));
        assert_eq!(has, [true, true, true, false, false, false], "{text}");
    }
}
