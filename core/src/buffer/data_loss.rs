//! Why packets are missing.

use crate::proto::fields::data_loss_reason;
use core::fmt;

bitflags::bitflags! {
    /// What was lost on a sequence before a packet, as a set of causes.
    ///
    /// [`bits`](Self::bits) is the mask that goes into `TracePacket.previous_packet_dropped`. A nonempty set
    /// handed out with a packet always contains [`ANY`](Self::ANY).
    ///
    /// ```
    /// use tracebuf::buffer::DataLoss;
    ///
    /// let loss = DataLoss::ANY | DataLoss::OVERWRITE;
    /// assert_eq!(loss.bits(), 65);
    /// assert_eq!(loss.to_string(), "overwrite");
    /// assert_eq!(DataLoss::empty().to_string(), "none");
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct DataLoss: u16 {
        /// Something was lost; set with every cause.
        const ANY = data_loss_reason::PRESENT as u16;
        /// Chunks are missing between two that were read, the table had forgotten the sequence, or an exporter could
        /// not write a packet.
        const READ_GAP = data_loss_reason::READ_GAP as u16;
        /// A chunk was malformed or held fewer fragments than it declared; its rest was dropped. Or an exporter refused
        /// a packet as invalid, or attaching to the region could not place a chunk.
        const CHUNK_CORRUPTED = data_loss_reason::CHUNK_CORRUPTED as u16;
        /// A fragment continues a packet whose beginning is not there.
        const ORPHAN_CONTINUATION = data_loss_reason::ORPHAN_CONTINUATION as u16;
        /// A chunk is missing in the middle of a fragmented packet.
        const REASSEMBLY_GAP = data_loss_reason::REASSEMBLY_GAP as u16;
        /// The chunk after a fragmented packet's fragment does not continue it.
        const REASSEMBLY_BROKEN_CHAIN = data_loss_reason::REASSEMBLY_BROKEN_CHAIN as u16;
        /// The ring overwrote packets that nobody had read, or a chunk came too late.
        const OVERWRITE = data_loss_reason::OVERWRITE as u16;
        /// The writer gave the packet up (size field `0x0FFF_FFFF`).
        const WRITER_ABORT = data_loss_reason::WRITER_ABORT as u16;
        /// The writer found no free chunk in shared memory. Set by producers only.
        const SHARED_MEMORY_FULL = data_loss_reason::SMB_FULL as u16;
    }
}

impl DataLoss {
    /// The set as a packet carries it: with [`ANY`](Self::ANY) if it is not empty.
    pub(crate) fn marked(self) -> Self {
        if self.is_empty() { self } else { self | Self::ANY }
    }

    /// What a sequence keeps of the causes that somebody outside the buffer gives for the loss of a packet: some cause
    /// in any case, which a reader's are not.
    pub(super) fn of_unused_packet(self) -> Self {
        let kept = (self & Self::all()) - (Self::ANY | Self::SHARED_MEMORY_FULL);
        if kept.is_empty() { Self::READ_GAP } else { kept }
    }

    /// The causes and their names, in the order of their bits.
    pub const CAUSES: [(DataLoss, &'static str); 8] = [
        (Self::READ_GAP, "read gap"),
        (Self::CHUNK_CORRUPTED, "chunk corrupted"),
        (Self::ORPHAN_CONTINUATION, "orphan continuation"),
        (Self::REASSEMBLY_GAP, "reassembly gap"),
        (Self::REASSEMBLY_BROKEN_CHAIN, "reassembly broken chain"),
        (Self::OVERWRITE, "overwrite"),
        (Self::WRITER_ABORT, "writer abort"),
        (Self::SHARED_MEMORY_FULL, "shared memory full"),
    ];
}

impl fmt::Display for DataLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (cause, name) in Self::CAUSES {
            if self.contains(cause) {
                f.write_str(separator)?;
                f.write_str(name)?;
                separator = ", ";
            }
        }
        match (separator.is_empty(), self.is_empty()) {
            (true, true) => f.write_str("none"),
            (true, false) => f.write_str("unknown"),
            _ => Ok(()),
        }
    }
}

#[cfg(feature = "defmt")]
impl defmt::Format for DataLoss {
    fn format(&self, f: defmt::Formatter<'_>) {
        defmt::write!(f, "DataLoss({=u16:#x})", self.bits());
    }
}
