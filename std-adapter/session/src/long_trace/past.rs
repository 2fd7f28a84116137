//! What has left for the file, or was given up on the way: what it means for what comes, and what readers cannot read.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use tracebuf::proto::{PacketView, SequenceId, TracePackets};

use super::Progress;
use crate::carry_over::CarryOver;
use crate::export::Piece;

/// The packets so far, those that were given up among them.
#[derive(Default)]
pub(super) struct Past {
    carried: CarryOver,
    /// For each sequence, whether readers can read its next packet if that needs names, a clock or a track; as long as
    /// nothing was lost they can.
    states: HashMap<u64, bool>,
    /// The newest clocks of the service.
    clocks: Vec<u8>,
    /// Whether something was given up since the last packet that went into the file, and what stays of it.
    has_gap: bool,
    of_gap: Vec<u8>,
    /// Memory for the next piece.
    spare: Vec<u8>,
}

const SERVICE: u64 = SequenceId::SERVICE.get() as u64;

impl Past {
    pub(super) fn of(carried: CarryOver) -> Self {
        Self { carried, ..Self::default() }
    }

    /// Counts packets that were given up. What ends in them has an end all the same, and the service's own are kept.
    pub(super) fn lose(&mut self, packets: &[u8], progress: &Progress) {
        let lost = self.carried.skip(packets, &mut self.of_gap);
        self.keep_clocks(packets);
        progress.lost.fetch_add(lost, Ordering::Relaxed);
        progress.growth.fetch_sub(packets.len() as i64, Ordering::Relaxed);
        self.has_gap = true;
    }

    /// What readers need to know before the next packets, if a file begins with them, or if something before them was
    /// given up: then the second is true.
    pub(super) fn state(&mut self, begins_file: bool) -> (Piece, bool) {
        let (mut state, follows_gap) = (Piece::default(), std::mem::take(&mut self.has_gap));
        let of_gap = std::mem::take(&mut self.of_gap);
        if begins_file {
            state.bytes.clone_from(&self.clocks);
            state.packets = u64::from(!self.clocks.is_empty());
            state.packets += self.carried.begin_file(&mut state.bytes);
        } else if follows_gap {
            // Slices that were opened in it, and are, come after those that it has ended.
            state.packets = TracePackets::new(&of_gap).count() as u64;
            state.bytes = of_gap;
            state.packets += self.carried.write_open(&mut state.bytes);
        }
        (state, follows_gap)
    }

    /// Looks at packets that go into the file. Those of which something before is not there get what they need.
    pub(super) fn pass(&mut self, piece: &mut Piece, progress: &Progress) {
        let before = piece.bytes.len() as i64;
        self.spare.clear();
        piece.packets = self.carried.pass(&piece.bytes, None, &mut self.spare);
        std::mem::swap(&mut piece.bytes, &mut self.spare);
        progress.growth.fetch_add(piece.bytes.len() as i64 - before, Ordering::Relaxed);
        self.keep_clocks(&piece.bytes);
        self.see(&piece.bytes, progress);
    }

    /// The service's clocks are the first packets of a piece: they are read before the buffers.
    fn keep_clocks(&mut self, packets: &[u8]) {
        let (mut all, mut at) = (TracePackets::new(packets), 0);
        while let Some(Ok(packet)) = all.next() {
            let packet = PacketView::of(packet);
            if packet.sequence_id != SERVICE || packet.snapshot.is_empty() {
                break;
            }
            self.clocks.clear();
            self.clocks.extend_from_slice(packets.get(at..all.offset()).unwrap_or_default());
            at = all.offset();
        }
    }

    /// Looks at packets that go into the file as they are.
    pub(super) fn see(&mut self, packets: &[u8], progress: &Progress) {
        if !progress.has_losses.load(Ordering::Relaxed) {
            return;
        }
        let (mut unreadable, mut last) = (0, (0, true));
        for packet in TracePackets::new(packets).flatten() {
            let packet = PacketView::of(packet);
            // Mostly the same as before.
            if packet.sequence_id != last.0 {
                self.states.insert(last.0, last.1);
                last = (packet.sequence_id, self.states.get(&packet.sequence_id).copied().unwrap_or(true));
            }
            unreadable += u64::from(!packet.can_be_read(&mut last.1));
        }
        self.states.insert(last.0, last.1);
        progress.unreadable.fetch_add(unreadable, Ordering::Relaxed);
    }
}
