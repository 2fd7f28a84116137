//! A session into which a device's packets go, beside those of the session's own programs.

use std::collections::HashMap;
use std::io::{self, ErrorKind};

use tracebuf::proto::reader::{Field, FieldValue, Fields};
use tracebuf::proto::{PacketView, is_service_only};
use tracebuf_session::{PacketWriter, Recorder};

/// Writers that are kept: those of starts that are over end when others come.
const WRITERS: usize = 256;

/// Writes packets into a session, each sequence by a writer of its own.
pub(super) struct SessionOutput {
    recorder: Recorder,
    writers: HashMap<u64, PacketWriter>,
    taken: u64,
    refused: u64,
}

impl SessionOutput {
    pub(super) fn to(recorder: Recorder) -> Self {
        Self { recorder, writers: HashMap::new(), taken: 0, refused: 0 }
    }

    /// Takes a packet as it is in a file.
    ///
    /// # Errors
    /// [`BrokenPipe`](ErrorKind::BrokenPipe) when the session is over; no writer is free.
    pub(super) fn packet(&mut self, packet: &[u8]) -> io::Result<()> {
        let written = self.write(packet);
        match &written {
            Ok(()) => self.taken += 1,
            Err(_) => self.refused += 1,
        }
        written
    }

    fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        let Some(view) = PacketView::of_file(packet) else { return Err(ErrorKind::InvalidData.into()) };
        let over = || io::Error::new(ErrorKind::BrokenPipe, "the session has ended");
        if !self.writers.contains_key(&view.sequence_id) {
            if !self.recorder.is_on() {
                return Err(over());
            }
            if self.writers.len() >= WRITERS {
                // Ids grow.
                let oldest = self.writers.keys().min().copied();
                oldest.and_then(|oldest| self.writers.remove(&oldest));
            }
            let none = || io::Error::new(ErrorKind::WouldBlock, "the session has no writer left");
            self.writers.insert(view.sequence_id, self.recorder.packet_writer().ok_or_else(none)?);
        }
        let mut is_written = false;
        if let Some(writer) = self.writers.get_mut(&view.sequence_id) {
            writer.packet(|out| {
                is_written = true;
                let fields = Fields::of(view.content).filter(|field| !is_service_only(field.number));
                for Field { number, value, .. } in fields {
                    match value {
                        FieldValue::Number(value) => out.varint(number, value),
                        FieldValue::Bytes(bytes) => out.bytes(number, bytes),
                        // A packet of a device has none.
                        FieldValue::Fixed(_) => {}
                    }
                }
            });
        }
        if is_written { Ok(()) } else { Err(over()) }
    }

    /// Packets that it took, and those that it did not.
    pub(super) fn packets(&self) -> (u64, u64) {
        (self.taken, self.refused)
    }
}
