//! What has left for the file, or was given up on the way: what readers know, and what they no longer can.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use tracebuf::proto::{PacketView, SequenceId, TracePackets};

use super::Progress;
use crate::export::Piece;

/// The packets so far, those that were given up among them.
#[derive(Default)]
pub(super) struct Past {
    /// For each sequence, whether readers can read its next packet if that needs names, a clock or a track.
    states: HashMap<u64, bool>,
    /// After a gap: the sequences whose next packet has said so. `None` as long as there was none.
    told: Option<HashSet<u64>>,
    /// Whether something was given up since the last packet that went into the file.
    has_gap: bool,
}

const SERVICE: u64 = SequenceId::SERVICE.get() as u64;

impl Past {
    /// Counts packets that were given up. The service's own are no loss of anybody's.
    pub(super) fn lose(&mut self, packets: &[u8], progress: &Progress) {
        let lost = TracePackets::new(packets).flatten().map(PacketView::of);
        let lost = lost.filter(|packet| packet.sequence_id != SERVICE).count() as u64;
        progress.lost.fetch_add(lost, Ordering::Relaxed);
        progress.lost_bytes.fetch_add(packets.len() as u64, Ordering::Relaxed);
        self.has_gap = true;
    }

    /// What readers need to know before the next packets, if a file begins with them, or if something before them was
    /// given up: then the second is true.
    pub(super) fn state(&mut self, begins_file: bool) -> (Piece, bool) {
        let follows_gap = std::mem::take(&mut self.has_gap);
        if begins_file || follows_gap {
            self.told = Some(HashSet::new());
            self.states.clear();
        }
        (Piece::default(), follows_gap)
    }

    /// Looks at packets that go into the file, and after a gap has the next of each sequence say so.
    pub(super) fn pass(&mut self, packets: &mut Vec<u8>, progress: &Progress) {
        if let Some(told) = &mut self.told {
            let mut marked = Vec::with_capacity(packets.len());
            for packet in TracePackets::new(packets).flatten() {
                let packet = PacketView::of(packet);
                let is_first = packet.sequence_id != SERVICE && told.insert(packet.sequence_id);
                let Ok(()) = packet.write_to(is_first, &mut marked);
            }
            *packets = marked;
        }
        self.see(packets, progress);
    }

    /// The same for packets that are not to be changed.
    pub(super) fn see(&mut self, packets: &[u8], progress: &Progress) {
        let mut unreadable = 0;
        for packet in TracePackets::new(packets).flatten() {
            let packet = PacketView::of(packet);
            let has_state = self.states.entry(packet.sequence_id).or_default();
            unreadable += u64::from(!packet.can_be_read(has_state));
        }
        progress.unreadable.fetch_add(unreadable, Ordering::Relaxed);
    }
}
