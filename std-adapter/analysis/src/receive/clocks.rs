//! Clocks of a device that are not boot time, related to it where the device does not tell how.

use tracebuf::proto::fields::{builtin_clock, clock};
use tracebuf::proto::reader::number;
use tracebuf::proto::{ClockTimes, PacketView, SequenceId};

use super::host_clock::of_service;

/// The clocks that a trace relates to boot time: a bit for each number of a builtin clock.
pub(super) struct RelatedClocks(u64);

impl RelatedClocks {
    pub(super) fn new() -> Self {
        Self(1 << builtin_clock::BOOTTIME)
    }

    /// What is to come before a packet, if it has a clock of which the trace does not tell yet: a packet which says that
    /// this clock shows boot time. Without it readers would leave out all that has this clock.
    pub(super) fn before(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let packet = PacketView::of_file(packet)?;
        if packet.sequence_id == SequenceId::SERVICE.get().into() {
            let told = packet.clocks().filter_map(|told| number(told, clock::CLOCK_ID));
            told.for_each(|id| _ = self.is_new(id));
            return None;
        }
        let (id, time) = packet.clock.zip(packet.time).filter(|(id, _)| self.is_new(*id))?;
        Some(of_service(&ClockTimes(&[(builtin_clock::BOOTTIME, time), (id, time)])))
    }

    fn is_new(&mut self, id: u64) -> bool {
        let bit = if (1..=builtin_clock::MAX_ID).contains(&id) { 1 << id } else { 0 };
        let is_new = bit != 0 && self.0 & bit == 0;
        self.0 |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(content: &[u8]) -> Vec<u8> {
        [&[0x0A, content.len() as u8], content].concat()
    }

    #[test]
    fn a_clock_of_which_a_device_does_not_tell_is_related_once() {
        let mut clocks = RelatedClocks::new();
        let of = |time, clock| packet(&[0x40, time, 0xD0, 3, clock, 0x50, 2]);
        let related = clocks.before(&of(51, 3)).expect("a packet");
        let view = PacketView::of_file(&related).expect("one");
        let told: Vec<_> = view.clocks().map(|told| [1, 2].map(|field| number(told, field))).collect();
        assert_eq!(told, [[Some(6), Some(51)], [Some(3), Some(51)]]);
        assert_eq!((view.sequence_id, number(view.snapshot, 2)), (1, Some(6)));
        for other in [of(52, 3), of(52, 6), of(52, 64), packet(&[0x40, 1, 0x50, 2]), packet(&[0x40, 0x80])] {
            assert_eq!(clocks.before(&other), None);
        }
        // The device tells of clock 1 itself.
        let told = packet(&[0x50, 1, 0x32, 10, 0x0A, 4, 8, 6, 16, 1, 0x0A, 2, 8, 1]);
        assert_eq!((clocks.before(&told), clocks.before(&of(53, 1))), (None, None));
    }
}
