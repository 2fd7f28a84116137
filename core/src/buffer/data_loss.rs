//! `DataLoss`: the causes for which packets are missing.

use crate::proto::fields::data_loss_reason;
use core::fmt;

/// The table of causes, in the order of their bits: each one's documentation, its name in Perfetto's `fields`, and how
/// it is printed. A new cause is one more row.
macro_rules! causes {
    ($($(#[doc = $doc:literal])* $cause:ident = $reason:ident, $name:literal;)*) => {
        bitflags::bitflags! {
            /// What was lost on a sequence before a packet, as a set of causes.
            ///
            /// [`bits`](Self::bits) is the mask that goes into `TracePacket.previous_packet_dropped`. A nonempty set
            /// handed out with a packet always contains [`ANY`](Self::ANY).
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
            pub struct DataLoss: u16 {
                /// Something was lost; set with every cause.
                const ANY = data_loss_reason::PRESENT as u16;
                $($(#[doc = $doc])* const $cause = data_loss_reason::$reason as u16;)*
            }
        }

        impl DataLoss {
            /// The causes and their names, in the order of their bits.
            pub const CAUSES: [(DataLoss, &'static str); [$($name),*].len()] = [$((Self::$cause, $name)),*];
        }
    };
}

causes! {
    /// Chunks are missing between two that were read, the table had forgotten the sequence, or an exporter could
    /// not write a packet.
    READ_GAP = READ_GAP, "read gap";
    /// A chunk was malformed or held fewer fragments than it declared; its rest was dropped. Or an exporter refused
    /// a packet as invalid, or attaching to the region could not place a chunk.
    CHUNK_CORRUPTED = CHUNK_CORRUPTED, "chunk corrupted";
    /// A fragment continues a packet whose beginning is not there.
    ORPHAN_CONTINUATION = ORPHAN_CONTINUATION, "orphan continuation";
    /// A chunk is missing in the middle of a fragmented packet.
    REASSEMBLY_GAP = REASSEMBLY_GAP, "reassembly gap";
    /// The chunk after a fragmented packet's fragment does not continue it.
    REASSEMBLY_BROKEN_CHAIN = REASSEMBLY_BROKEN_CHAIN, "reassembly broken chain";
    /// The ring overwrote packets that nobody had read, or a chunk came too late.
    OVERWRITE = OVERWRITE, "overwrite";
    /// The writer gave the packet up (size field `0x0FFF_FFFF`).
    WRITER_ABORT = WRITER_ABORT, "writer abort";
    /// The writer found no free chunk in shared memory. Set by producers only.
    SHARED_MEMORY_FULL = SMB_FULL, "shared memory full";
}

impl DataLoss {
    /// The causes that a sequence keeps until its next packet: all but those that only producers set.
    pub(super) const KEPT: Self = Self::all().difference(Self::ANY.union(Self::SHARED_MEMORY_FULL));

    /// The set as a packet carries it: with [`ANY`](Self::ANY) if it is not empty.
    pub(crate) fn marked(self) -> Self {
        if self.is_empty() { self } else { self | Self::ANY }
    }

    /// What a sequence keeps of the causes that a reader gives for the loss of a packet: some cause in any case.
    pub(super) fn of_unused_packet(self) -> Self {
        let kept = self & Self::KEPT;
        if kept.is_empty() { Self::READ_GAP } else { kept }
    }
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
