//! What a trace says of machines with programs of data sources: whose packets are patches, programs, states.

use std::io;

use tracebuf::buffer::SequenceInfo;
use tracebuf::proto::fields::{builtin_clock, trace_packet};
use tracebuf::proto::{Message, Sink};
use tracebuf::service::sequence_id;

use super::Piece;
use crate::shared_vms::SharedVms;

/// A packet of the service's with one message.
struct Told {
    at: u64,
    field: u32,
    message: Vec<u8>,
}

impl Message for Told {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(trace_packet::TIMESTAMP, self.at)?;
        out.varint(trace_packet::TIMESTAMP_CLOCK_ID, builtin_clock::BOOTTIME)?;
        out.bytes(self.field, &self.message)
    }
}

impl Piece {
    /// Adds what readers need to go on with the patches that follow: for each buffer its machines and its sequences.
    pub(super) fn vms<'v>(
        &mut self,
        buffers: impl Iterator<Item = (&'v SharedVms, Vec<SequenceInfo>)>,
        at: u64,
    ) -> io::Result<()> {
        let (mut provenance, mut vms) = (Vec::new(), Vec::new());
        for (machines, sequences) in buffers {
            let numbered =
                |info: &SequenceInfo| (sequence_id(info.producer_id, info.writer_id), info.producer_id);
            let sequences: Vec<_> = sequences.iter().map(numbered).collect();
            machines.lock().write(&sequences, &mut provenance, &mut vms);
        }
        if vms.is_empty() {
            return Ok(());
        }
        self.service(&Told { at, field: trace_packet::TRACE_PROVENANCE, message: provenance })?;
        self.service(&Told { at, field: trace_packet::PROTOVMS, message: vms })
    }
}
