//! Packets that a session keeps beside its buffers, because a ring would lose them, and writes before what those hold.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracebuf::proto::Message;

use crate::export::Piece;
use crate::process_tree::ProcessTree;
use crate::refusals::Refusals;

/// All that a session keeps beside its buffers. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct SideData {
    pub(crate) process_tree: ProcessTree,
    pub(crate) packets: SidePackets,
    /// Programs that were sent away: no packets, but as much beside the buffers.
    pub(crate) refusals: Refusals,
}

/// How much of it was written: the numbers of the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SideRevision {
    process_tree: u64,
    packets: u64,
}

/// Packets that come before all that the buffers hold, in every snapshot and file of a session: what readers must know
/// first and a ring would lose, such as descriptions of counters. A long trace has each before what was recorded
/// after it was added. Clones are the same packets.
#[derive(Clone, Default)]
pub struct SidePackets(Arc<Mutex<Packets>>);

#[derive(Default)]
struct Packets {
    by_number: BTreeMap<u64, Box<[u8]>>,
    number: u64,
}

impl SidePackets {
    fn lock(&self) -> MutexGuard<'_, Packets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a packet after those that are there, and returns its number. One of 256 MiB or more is left out.
    pub fn add<M: Message>(&self, packet: &M) -> u64 {
        let bytes = packet_of(packet);
        let mut packets = self.lock();
        packets.number += 1;
        let number = packets.number;
        packets.by_number.insert(number, bytes);
        number
    }

    /// Replaces a packet by another, in its place. A long trace that already has the first keeps it.
    pub fn replace<M: Message>(&self, number: u64, packet: &M) {
        if let Some(bytes) = self.lock().by_number.get_mut(&number) {
            *bytes = packet_of(packet);
        }
    }

    /// Removes a packet, when the buffers hold nothing more that needs it.
    pub fn remove(&self, number: u64) {
        self.lock().by_number.remove(&number);
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.lock().by_number.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

debug_fields!(SidePackets);

/// The packet as the service writes it; nothing if it is too long for a trace.
fn packet_of<M: Message>(packet: &M) -> Box<[u8]> {
    let mut piece = Piece::default();
    piece.service(packet).map_or_else(|_| Box::default(), |()| piece.bytes.into())
}

impl Piece {
    /// Adds what is newer than `since`. Just before buffers are read, that covers all that they refer to.
    pub(crate) fn side_data(&mut self, side: &SideData, since: SideRevision) -> io::Result<SideRevision> {
        let process_tree = self.processes(&side.process_tree, since.process_tree)?;
        let packets = side.packets.lock();
        for (_, packet) in packets.by_number.range(since.packets.saturating_add(1)..) {
            self.bytes.extend_from_slice(packet);
            self.packets += u64::from(!packet.is_empty());
        }
        Ok(SideRevision { process_tree, packets: packets.number })
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
    fn told(side: &SideData, since: SideRevision) -> (String, SideRevision) {
        let mut piece = Piece::default();
        let newest = piece.side_data(side, since).expect("memory");
        let packets: Vec<_> = TracePackets::new(&piece.bytes).map(|packet| packet.expect("one")).collect();
        assert_eq!(packets.len() as u64, piece.packets);
        (packets.iter().map(|packet| String::from_utf8_lossy(packet)).collect(), newest)
    }

    #[test]
    fn tracks_are_told_in_their_order_and_once_each() {
        let side = SideData::default();
        let numbers = ["first", "second", "third"].map(|name| side.packets.add(&Packet(Track(name))));
        let (text, newest) = told(&side, SideRevision::default());
        let places = ["first", "second", "third"].map(|name| text.find(name).expect("it is told"));
        assert!(places.is_sorted(), "{text}");
        side.packets.remove(numbers[1]);
        side.packets.replace(numbers[1], &Packet(Track("nobody")));
        side.packets.replace(numbers[2], &Packet(Track("other")));
        side.packets.add(&Packet(Track("fourth")));
        let (text, last) = told(&side, newest);
        assert!(text.contains("fourth") && !text.contains("first") && !text.contains("other"), "{text}");
        assert_eq!(told(&side, last), (String::new(), last));
        let (text, all) = told(&side, SideRevision::default());
        assert_eq!(all, last);
        let has = ["first", "other", "fourth", "second", "third", "nobody"].map(|name| text.contains(name));
        assert_eq!(has, [true, true, true, false, false, false], "{text}");
    }
}
