//! The trusted fields of a packet, which only the service may write: [`TrustedFields`].

use core::num::NonZeroU32;

use super::fields::trace_packet as field;
use super::{Encoder, Message, Sink};

/// A `trusted_packet_sequence_id`: which writer of which producer wrote a packet.
///
/// Never 0, which readers take for unset; 1 is the service itself, so writers' ids begin at 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SequenceId(NonZeroU32);

impl SequenceId {
    /// The service's own packets, such as `TraceStats`.
    pub const SERVICE: Self = Self(NonZeroU32::MIN);

    /// The lowest id for a writer.
    pub const FIRST_WRITER: Self = Self(NonZeroU32::MIN.saturating_add(1));

    /// `None` for 0.
    pub const fn new(id: u32) -> Option<Self> {
        match NonZeroU32::new(id) {
            Some(id) => Some(Self(id)),
            None => None,
        }
    }

    /// The number.
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// The fields that the service appends to each packet.
///
/// Appended, not prepended: if a field is there twice, the last one wins, so `previous_packet_dropped`, which producers
/// may set too, ends up as given here. OR the producer's value ([`ValidPacket`](super::ValidPacket)) and the buffer's
/// into it.
///
/// ```
/// use tracebuf::proto::{SequenceId, TrustedFields};
///
/// let trusted = TrustedFields {
///     pid: Some(42),
///     previous_packet_dropped: 1 | 64,
///     ..TrustedFields::new(1000, SequenceId::FIRST_WRITER)
/// };
/// assert_eq!(
///     trusted.suffix().as_bytes(),
///     [0x18, 0xE8, 0x07, 0x50, 0x02, 0xF8, 0x04, 42, 0xD0, 0x02, 65]
/// );
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct TrustedFields {
    /// The producer's user id. Above `i32::MAX` it is written as the negative `int32` of the same bits.
    pub uid: u32,
    /// The writer.
    pub sequence_id: SequenceId,
    /// The producer's process id, if known.
    pub pid: Option<i32>,
    /// Bits of [`data_loss_reason`](super::fields::data_loss_reason); 0 is not written.
    pub previous_packet_dropped: u32,
    /// The machine the producer runs on, if not the service's.
    pub machine_id: Option<u32>,
}

impl TrustedFields {
    /// The most bytes that they take, as a test shows.
    const MAX_LEN: usize = 43;

    /// Neither process nor machine known, nothing lost.
    pub const fn new(uid: u32, sequence_id: SequenceId) -> Self {
        Self { uid, sequence_id, pid: None, previous_packet_dropped: 0, machine_id: None }
    }

    /// The fields as bytes.
    pub fn suffix(&self) -> TrustedSuffix {
        let mut bytes = [0; Self::MAX_LEN];
        let mut out = Encoder::new(&mut bytes);
        let len = self.encode(&mut out).map_or(0, |()| out.len());
        TrustedSuffix { bytes, len }
    }
}

impl Message for TrustedFields {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.int(field::TRUSTED_UID, i64::from(self.uid as i32))?;
        out.varint(field::TRUSTED_PACKET_SEQUENCE_ID, self.sequence_id.get().into())?;
        if let Some(pid) = self.pid {
            out.int(field::TRUSTED_PID, pid.into())?;
        }
        if self.previous_packet_dropped != 0 {
            out.varint(field::PREVIOUS_PACKET_DROPPED, self.previous_packet_dropped.into())?;
        }
        if let Some(machine) = self.machine_id {
            out.varint(field::MACHINE_ID, machine.into())?;
        }
        Ok(())
    }
}

/// [`TrustedFields`] as bytes, to be put after a packet's own.
#[derive(Debug, Clone, Copy)]
pub struct TrustedSuffix {
    bytes: [u8; TrustedFields::MAX_LEN],
    len: usize,
}

impl TrustedSuffix {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_form_of_every_field_just_fits() {
        let trusted = TrustedFields {
            uid: u32::MAX,
            sequence_id: SequenceId::new(u32::MAX).unwrap(),
            pid: Some(-1),
            previous_packet_dropped: u32::MAX,
            machine_id: Some(u32::MAX),
        };
        assert_eq!(trusted.suffix().as_bytes().len(), TrustedFields::MAX_LEN);
        assert_eq!(TrustedFields::MAX_LEN, 43);
    }

    #[test]
    fn without_room_for_all_fields_it_is_an_error_whichever_is_the_first_without() {
        let trusted = TrustedFields {
            pid: Some(1),
            previous_packet_dropped: 1,
            machine_id: Some(1),
            ..TrustedFields::new(1, SequenceId::FIRST_WRITER)
        };
        let (mut memory, needed) = ([0; 64], trusted.suffix().as_bytes().len());
        for room in 0..needed {
            assert!(trusted.encode(&mut Encoder::new(&mut memory[..room])).is_err(), "{room}");
        }
        assert!(trusted.encode(&mut Encoder::new(&mut memory[..needed])).is_ok());
    }

    #[test]
    fn what_is_not_known_is_not_written() {
        let trusted = TrustedFields::new(0, SequenceId::SERVICE);
        assert_eq!(trusted.suffix().as_bytes(), [0x18, 0, 0x50, 1]);
        let trusted = TrustedFields { machine_id: Some(3), ..trusted };
        assert_eq!(trusted.suffix().as_bytes(), [0x18, 0, 0x50, 1, 0x90, 0x06, 3]);
    }

    #[test]
    fn sequence_ids_count_from_the_service() {
        let ids = [SequenceId::new(1), SequenceId::new(2), SequenceId::new(0)];
        assert_eq!(ids, [Some(SequenceId::SERVICE), Some(SequenceId::FIRST_WRITER), None]);
    }
}
