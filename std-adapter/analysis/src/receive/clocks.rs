//! Clocks of a device related to boot time where the device does not tell how, and the host's to the time of day.

use tracebuf::proto::fields::{builtin_clock, clock};
use tracebuf::proto::reader::number;
use tracebuf::proto::{ClockTimes, PacketView, SequenceId};
use tracebuf_session::parts::ClockReading;

use super::host_clock::of_service;

/// The clocks that a trace relates to boot time.
pub(super) struct RelatedClocks {
    /// A bit for each number of a builtin clock.
    known: u64,
    /// The host's clocks when the trace began.
    start: ClockReading,
    /// The boot time of the host's clocks that were told last.
    told: Option<u64>,
}

impl RelatedClocks {
    pub(super) fn new() -> Self {
        Self { known: 1 << builtin_clock::BOOTTIME, start: ClockReading::now(), told: None }
    }

    /// What is to come before a packet, if it has a clock of which the trace does not tell yet: a packet which says that
    /// this clock shows boot time. Without it readers would leave out all that has this clock.
    ///
    /// Before a packet that relates a device's clock to the host's: what the host's other clocks show.
    pub(super) fn before(&mut self, packet: &[u8]) -> Option<Vec<u8>> {
        let packet = PacketView::of_file(packet)?;
        if packet.sequence_id == SequenceId::SERVICE.get().into() {
            let read =
                |told| [clock::CLOCK_ID, clock::TIMESTAMP].map(|field| number(told, field).unwrap_or(0));
            let told: Vec<_> = packet.clocks().map(read).collect();
            told.iter().for_each(|[id, _]| _ = self.is_new(*id));
            return match told[..] {
                [[builtin_clock::BOOTTIME, host], [id, device]] if id > 127 => {
                    self.of_host(host.saturating_sub(device))
                }
                _ => None,
            };
        }
        let (id, time) = packet.clock.zip(packet.time).filter(|(id, _)| self.is_new(*id))?;
        Some(of_service(&ClockTimes(&[(builtin_clock::BOOTTIME, time), (id, time)])))
    }

    fn is_new(&mut self, id: u64) -> bool {
        let bit = if (1..=builtin_clock::MAX_ID).contains(&id) { 1 << id } else { 0 };
        let is_new = bit != 0 && self.known & bit == 0;
        self.known |= bit;
        is_new
    }

    /// The host's clocks, of a device that has run since then. Readers count from the pair before an event, so the first
    /// is of that time, by what the clocks showed when the trace began.
    fn of_host(&mut self, device_start: u64) -> Option<Vec<u8>> {
        let reading = match self.told {
            None => {
                let ClockReading { boottime, monotonic, realtime } = self.start;
                let before = boottime.saturating_sub(device_start);
                let [boottime, monotonic, realtime] =
                    [boottime, monotonic, realtime].map(|clock| clock.saturating_sub(before));
                ClockReading { boottime, monotonic, realtime }
            }
            Some(_) => ClockReading::now(),
        };
        if self.told.is_some_and(|told| reading.boottime <= told) {
            return None;
        }
        self.told = Some(reading.boottime);
        Some(of_service(&reading))
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
