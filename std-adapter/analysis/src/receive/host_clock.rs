//! Packets that tell what the host's clocks, and a device's, showed at one moment.

use tracebuf::proto::fields::builtin_clock;
use tracebuf::proto::{ClockTimes, Message, SequenceId, TraceFileWriter, TrustedFields};

use super::timeline::Timeline;

/// Nanoseconds of a device between two such packets.
const PERIOD: u64 = 10_000_000_000;

/// The packet that is to come before a device's next ones, if it is time: what its clock showed by the host's. Events have
/// the host's time already: this is for who wants to know the device's.
pub(super) fn pair(timeline: &Timeline, device_clock: u64, told: &mut Option<u64>) -> Option<Vec<u8>> {
    let newest = timeline.newest()?;
    if told.is_some_and(|told| newest.device < told.saturating_add(PERIOD)) {
        return None;
    }
    *told = Some(newest.device);
    let both = [(builtin_clock::BOOTTIME, newest.host), (device_clock, newest.device)];
    Some(of_service(&ClockTimes(&both)))
}

/// A packet of the service, as it is in a file.
pub(super) fn of_service(message: &impl Message) -> Vec<u8> {
    let mut file = vec![0; 256];
    let mut writer = TraceFileWriter::new(&mut file[..]);
    // It has room for a few clocks.
    let written = writer.message(message, &TrustedFields::new(0, SequenceId::SERVICE));
    let written = written.map_or(0, |_| writer.bytes() as usize);
    file.truncate(written);
    file
}
