//! Machines that observe a buffer: each whole packet that is overwritten unread is their patch.

use super::{Vm, VmStatus};
use crate::buffer::{OverwriteObserver, Packet};

/// A machine, and the producers whose packets are its patches.
///
/// ```
/// use tracebuf::vm::{ProducerVm, Program, StackFrame, Vm};
///
/// let (mut memory, mut frames) = ([0; 1024], [StackFrame::default(); 4]);
/// let vm = Vm::new(&mut memory, Program::new(&[], &mut [])?, &mut frames)?;
/// let of = ProducerVm { vm, producers: &[2, 7] };
/// # let _ = of;
/// # Ok::<(), tracebuf::vm::VmError>(())
/// ```
pub struct ProducerVm<'m> {
    /// The machine.
    pub vm: Vm<'m>,
    /// The producers' numbers.
    pub producers: &'m [u16],
}

/// Folds what a ring overwrites into the states of machines. Of those that a packet's producer has, they are tried in
/// their order, until one knows it. Such a packet is not lost; what none of them knows is.
///
/// ```
/// use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
/// use tracebuf::vm::{Keep, ProducerVm, Program, StackFrame, Step, Vm, VmObserver};
///
/// let (mut bytes, mut steps) = ([0; 256], [Step::default(); 64]);
/// let program = Program::new(Program::keep_last_by(&Keep::DESCRIPTIONS, &mut bytes)?, &mut steps)?;
/// let (mut memory, mut frames) = ([0; 4096], [StackFrame::default(); 16]);
/// let vm = Vm::new(&mut memory, program, &mut frames)?;
///
/// let (mut vms, mut scratch) = ([ProducerVm { vm, producers: &[7] }], [0; 1024]);
/// let observer = VmObserver::new(&mut vms, &mut scratch);
/// let buffer = TraceBuffer::new(vec![0; 4096], Config::new(FillPolicy::RingBuffer).sequences(4))?;
/// let mut buffer = buffer.observed_by(observer);
///
/// // The descriptor of a track, and then what laps over it.
/// let header = ChunkHeader { producer_id: 7, fragments: 1, ..ChunkHeader::default() };
/// buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x0B\xE2\x03\x08\x08\x07\x12\x04main" });
/// for chunk_id in 1..200 {
///     let header = ChunkHeader { chunk_id, ..header };
///     buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x04\x5A\x02\x48\x01" });
/// }
/// assert!(buffer.observer_mut().vms()[0].vm.state_len() > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct VmObserver<'o, 'm> {
    vms: &'o mut [ProducerVm<'m>],
    scratch: &'o mut [u8],
    too_long: u64,
}

impl<'o, 'm> VmObserver<'o, 'm> {
    /// These machines, in this order. A packet that lies in one piece is looked at where it is; one over several
    /// fragments is copied into `scratch` before, and is lost if it has no room there.
    pub fn new(vms: &'o mut [ProducerVm<'m>], scratch: &'o mut [u8]) -> Self {
        Self { vms, scratch, too_long: 0 }
    }

    /// The machines, whose states are to be written out.
    pub fn vms(&mut self) -> &mut [ProducerVm<'m>] {
        self.vms
    }

    /// Packets that were lost because they had no room in the scratch.
    pub const fn too_long(&self) -> u64 {
        self.too_long
    }
}

impl OverwriteObserver for VmObserver<'_, '_> {
    fn packet(&mut self, packet: &Packet<'_>) -> bool {
        let Self { vms, scratch, too_long } = self;
        let producer = packet.producer_id();
        let mut of_producer =
            vms.iter_mut().filter(|of| of.producers.contains(&producer)).map(|of| &mut of.vm).peekable();
        if of_producer.peek().is_none() {
            return false;
        }
        let mut slices = packet.slices();
        let patch = match (slices.next(), slices.next()) {
            (Some(only), None) => Some(only),
            _ => packet.copy_to(scratch).and_then(|len| scratch.get(..len)),
        };
        let Some(patch) = patch else {
            *too_long = too_long.saturating_add(1);
            return false;
        };
        of_producer.any(|vm| vm.apply(patch) == VmStatus::Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Keep, Program, StackFrame, Step};
    use super::*;
    use crate::buffer::{Chunk, ChunkFlags, ChunkHeader, Config, FillPolicy, TraceBuffer};
    use crate::proto::Sink;
    use std::vec::Vec;

    fn keeps(kinds: &[Keep<'_>], producers: &'static [u16]) -> ProducerVm<'static> {
        let bytes = Program::keep_last_by(kinds, Vec::leak(std::vec![0; 256])).unwrap();
        let program = Program::new(bytes, Vec::leak(std::vec![Step::default(); 128])).unwrap();
        let frames = Vec::leak(std::vec![StackFrame::default(); 16]);
        ProducerVm { vm: Vm::new(Vec::leak(std::vec![0; 4096]), program, frames).unwrap(), producers }
    }

    fn state(of: &mut ProducerVm<'_>) -> Vec<u8> {
        let mut state = Vec::new();
        let Ok(()) = of.vm.write_state(&mut state);
        state
    }

    /// A packet: the descriptor of a track.
    fn track(uuid: u64, name: &str) -> Vec<u8> {
        let (mut packet, mut descriptor) = (Vec::new(), Vec::new());
        let Ok(()) = descriptor.varint(1, uuid);
        let Ok(()) = descriptor.string(2, name);
        let Ok(()) = packet.bytes(60, &descriptor);
        packet
    }

    fn kept(packets: &[&[u8]]) -> Vec<u8> {
        let mut state = Vec::new();
        packets.iter().for_each(|packet| {
            let Ok(()) = state.bytes(1000, packet);
        });
        state
    }

    /// Writes packets, cut after so many bytes, as one producer, and laps the ring.
    fn lapped(vms: &mut [ProducerVm<'_>], producer_id: u16, packets: &[&[u8]], cut: usize) -> (u64, u64) {
        let mut scratch = [0; 64];
        let config = Config::new(FillPolicy::RingBuffer).sequences(4);
        let buffer = TraceBuffer::new(std::vec![0; 4096], config).unwrap();
        let mut buffer = buffer.observed_by(VmObserver::new(vms, &mut scratch));
        let mut chunk_id = 0;
        let mut write = |fragment: &[u8], flags| {
            let mut payload = std::vec![fragment.len() as u8];
            payload.extend_from_slice(fragment);
            let header = ChunkHeader {
                producer_id,
                chunk_id,
                fragments: 1,
                flags,
                complete: true,
                ..ChunkHeader::default()
            };
            buffer.copy_chunk_untrusted(&Chunk { header, payload: &payload });
            chunk_id += 1;
        };
        for packet in packets {
            let (first, rest) = packet.split_at(cut.min(packet.len()));
            if rest.is_empty() {
                write(first, ChunkFlags::empty());
            } else {
                write(first, ChunkFlags::CONTINUES_ON_NEXT);
                write(rest, ChunkFlags::CONTINUES_FROM_PREVIOUS);
            }
        }
        (0..200).for_each(|_| write(b"\x5A\x02\x48\x01", ChunkFlags::empty()));
        (buffer.observer().too_long(), buffer.stats().chunks_overwritten)
    }

    #[test]
    fn the_first_machine_of_a_producer_that_knows_a_packet_takes_it() {
        let counters = [Keep::COUNTERS, Keep::DOUBLE_COUNTERS];
        let mut vms = [keeps(&counters, &[7]), keeps(&[Keep::TRACKS], &[8]), keeps(&[Keep::TRACKS], &[9, 7])];
        let (a, b, again) = (track(1, "a"), track(2, "b"), track(1, "again"));
        let (too_long, overwritten) = lapped(&mut vms, 7, &[&a, &b, &again], usize::MAX);
        assert!(too_long == 0 && overwritten > 3);
        let [first, other, third] = &mut vms;
        assert_eq!((state(first), state(other)), (Vec::new(), Vec::new()));
        assert_eq!(state(third), kept(&[&again, &b]));
        assert_eq!(other.vm.stats().patches, 0);
        assert!(first.vm.stats().errors > 3 && first.vm.stats().aborts == 0);
    }

    #[test]
    fn a_packet_over_fragments_is_whole_and_one_without_room_in_the_scratch_is_counted() {
        let (short, long) = (track(1, "in two chunks"), track(2, &"x".repeat(80)));
        for cut in [1, 5, short.len() - 1] {
            let mut vms = [keeps(&Keep::DESCRIPTIONS, &[7])];
            assert_eq!(lapped(&mut vms, 7, &[&short, &long], cut).0, 1, "cut at {cut}");
            assert_eq!(state(&mut vms[0]), kept(&[&short]));
        }
        // In one piece it needs no room.
        let mut vms = [keeps(&Keep::DESCRIPTIONS, &[7])];
        assert_eq!(lapped(&mut vms, 7, &[&short, &long], usize::MAX).0, 0);
        assert_eq!(state(&mut vms[0]), kept(&[&short, &long]));
        // Nobody's packets cost nothing.
        assert_eq!(lapped(&mut vms, 6, &[&short, &long], 5).0, 0);
    }
}
