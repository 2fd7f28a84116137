//! Packets that tell what the host's clocks, and a device's, showed at one moment.

use tracebuf::proto::fields::builtin_clock;
use tracebuf::proto::{ClockTimes, Message, SequenceId, TraceFileWriter, TrustedFields};
use tracebuf_session::parts::ClockReading;

use super::timeline::Timeline;

/// Nanoseconds of a device between two such packets.
const PERIOD: u64 = 1_000_000_000;

/// The trace in which a device's events have the host's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostClock {
    /// A file, which is to tell the time of day.
    InFile,
    /// A session's trace, which tells that itself.
    InSession,
}

impl HostClock {
    /// Passes on the packets that are to come before a device's next ones, if it is time. Events have the host's time
    /// already: these are for the time of day, and for who wants to know the device's time.
    pub(super) fn tell(
        self,
        timeline: &Timeline,
        device_clock: u64,
        told: &mut Option<u64>,
        pass: &mut dyn FnMut(Vec<u8>),
    ) {
        let Some(newest) = timeline.newest() else { return };
        if told.is_some_and(|told| newest.device < told.saturating_add(PERIOD)) {
            return;
        }
        *told = Some(newest.device);
        if self == Self::InFile {
            pass(of_service(&ClockReading::now()));
        }
        let both = [(builtin_clock::BOOTTIME, newest.host), (device_clock, newest.device)];
        pass(of_service(&ClockTimes(&both)));
    }
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
