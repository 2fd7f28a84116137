//! A trace that packets of a buffer's file continue: each once, and the first ones after a loss say so.

use std::collections::HashSet;
use std::io::{self, Write};

use tracebuf::proto::{MAX_LENGTH, PacketView, TracePackets};
use tracebuf_session::Written;

use super::repeated::Repeated;

/// A trace that is being written.
pub(super) struct Continuation<'o, W> {
    pub(super) output: &'o mut W,
    pub(super) written: Written,
    /// Sequences that have reported the loss, if anything was lost.
    pub(super) told: Option<HashSet<u64>>,
    /// Packets that are there already.
    pub(super) repeated: Repeated,
}

impl<W: Write> Continuation<'_, W> {
    /// Something may have been lost here: it is unknown whose it was, so the next packet of every sequence says so.
    /// Readers must not go on with names and times that they may have missed.
    pub(super) fn tell_of_loss(&mut self, is_lost: bool) {
        if is_lost {
            self.told = Some(HashSet::new());
        }
    }

    /// Writes whole packets, except those that are there already.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.told.is_none() && self.repeated.is_empty() {
            return self.put_unchanged(bytes);
        }
        let mut told = self.told.take();
        let (mut marked, mut at) = (Vec::with_capacity(bytes.len()), 0);
        let mut packets = TracePackets::new(bytes);
        while let Some(Ok(content)) = packets.next() {
            let packet = bytes.get(at..packets.offset()).unwrap_or_default();
            at = packets.offset();
            if self.repeated.has(content) {
                continue;
            }
            let Some(told) = &mut told else {
                marked.extend_from_slice(packet);
                continue;
            };
            let parsed = PacketView::of_file(packet).filter(|parsed| told.insert(parsed.sequence_id));
            let start = marked.len();
            if let Some(parsed) = parsed {
                let Ok(()) = parsed.write_to(true, &mut marked);
            }
            // A packet that is already as long as packets may be cannot say more.
            if marked.len() == start || marked.len() - start > MAX_LENGTH as usize {
                marked.truncate(start);
                marked.extend_from_slice(packet);
            }
        }
        self.told = told;
        self.put_unchanged(&marked)
    }

    /// Writes packets unchanged.
    pub(super) fn put_unchanged(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written.bytes += bytes.len() as u64;
        self.written.packets += TracePackets::new(bytes).filter(Result::is_ok).count() as u64;
        self.output.write_all(bytes)
    }
}
