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
    readers: Readers,
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
        let (readers, has_losses) = (&mut self.readers, progress.has_losses.load(Ordering::Relaxed));
        self.spare.clear();
        let passed = self.carried.pass_all(&piece.bytes, &mut self.spare, |packet, loss| {
            if has_losses {
                readers.see(packet, loss);
            }
        });
        piece.packets = passed.packets;
        match passed.unchanged {
            Some(len) => piece.bytes.truncate(len),
            None => std::mem::swap(&mut piece.bytes, &mut self.spare),
        }
        progress.growth.fetch_add(piece.bytes.len() as i64 - before, Ordering::Relaxed);
        progress.unreadable.fetch_add(self.readers.take_unreadable(), Ordering::Relaxed);
        self.keep_clocks(&piece.bytes);
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
        for packet in TracePackets::new(packets).flatten() {
            let packet = PacketView::of(packet);
            self.readers.see(&packet, packet.loss);
        }
        progress.unreadable.fetch_add(self.readers.take_unreadable(), Ordering::Relaxed);
    }
}

/// What those know who read the file. As long as nothing was lost they can read all of it.
#[derive(Default)]
struct Readers {
    /// For each sequence, whether they can read its next packet if that needs names, a clock or a track.
    states: HashMap<u64, bool>,
    /// The sequence of the last packet, and whether they can read its next.
    last: Option<(u64, bool)>,
    unreadable: u64,
}

impl Readers {
    /// A packet that tells of this loss.
    fn see(&mut self, packet: &PacketView<'_>, loss: u64) {
        let id = packet.sequence_id;
        // Mostly the same as before.
        let mut state = match self.last {
            Some((last, state)) if last == id => state,
            other => {
                self.states.extend(other);
                self.states.get(&id).copied().unwrap_or(true)
            }
        };
        let can_be_read = PacketView { loss, ..*packet }.can_be_read(&mut state);
        self.unreadable += u64::from(!can_be_read);
        self.last = Some((id, state));
    }

    /// How many packets they could not read since it was last called.
    fn take_unreadable(&mut self) -> u64 {
        std::mem::take(&mut self.unreadable)
    }
}
