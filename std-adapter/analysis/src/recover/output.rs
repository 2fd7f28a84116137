//! Packets on their way into a trace, which report losses before them.

use std::collections::HashSet;
use std::io::{self, Write};

use tracebuf::proto::{MAX_LENGTH, TracePackets};

use tracebuf_session::Written;
use tracebuf_session::packet::Packet;

/// A trace that is being written.
pub(super) struct Output<'o, W> {
    output: &'o mut W,
    pub(super) written: Written,
    /// Sequences that have reported the loss, if anything was lost.
    told: Option<HashSet<u64>>,
}

impl<'o, W: Write> Output<'o, W> {
    /// Continues after what is `written` already.
    pub(super) fn new(output: &'o mut W, written: Written) -> Self {
        Self { output, written, told: None }
    }

    /// Something may have been lost here: it is unknown whose it was, so the next packet of every sequence says so.
    /// Readers must not go on with names and times that they may have missed.
    pub(super) fn tell_of_loss(&mut self, is_lost: bool) {
        if is_lost {
            self.told = Some(HashSet::new());
        }
    }

    /// Writes whole packets.
    pub(super) fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(told) = &mut self.told else { return self.put_unchanged(bytes) };
        let (mut marked, mut at) = (Vec::with_capacity(bytes.len()), 0);
        let mut packets = TracePackets::new(bytes);
        while packets.next().is_some_and(|packet| packet.is_ok()) {
            let packet = bytes.get(at..packets.offset()).unwrap_or_default();
            at = packets.offset();
            let parsed = Packet::of_file(packet).filter(|parsed| told.insert(parsed.sequence_id));
            // A packet that is already as long as packets may be cannot say more.
            match parsed.map(|parsed| parsed.bytes(true)).filter(|more| more.len() <= MAX_LENGTH as usize) {
                Some(more) => marked.extend_from_slice(&more),
                None => marked.extend_from_slice(packet),
            }
        }
        self.put_unchanged(&marked)
    }

    /// Writes packets unchanged.
    pub(super) fn put_unchanged(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written.bytes += bytes.len() as u64;
        self.written.packets += TracePackets::new(bytes).filter(Result::is_ok).count() as u64;
        self.output.write_all(bytes)
    }
}
