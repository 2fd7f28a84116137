//! The command `tracebuf size`.

use std::process::ExitCode;
use std::time::Duration;

use tracebuf_analysis::size::{Seconds, Sizing};
use tracebuf_std::display::Count;

use crate::failure::Failure;
use crate::options::{bytes, interval, rate};
use crate::terminal::print_and_exit;

/// Say how large buffers must be for a rate, or how long a buffer lasts.
///
/// Exit status: 0, 1 when the answer could not be written, or 2 when no memory can be that large.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Bytes of packets a second, from all producers together: 2MB, 512KiB; a /s may follow.
    ///
    /// As producers write them: in a trace file each has a few more bytes, which say who wrote it.
    ///
    /// Units: B, kB, MB, GB (of 1000), KiB, MiB, GiB or K, M, G (of 1024).
    #[arg(long, value_parser = rate)]
    rate: f64,
    /// Bytes of a packet on average: in a ring and in shared memory each has its size before it.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    packet: u32,
    /// How far back the ring is to reach: 10s, 2m.
    ///
    /// Units: ms, s, m, h; without one seconds.
    #[arg(long, value_parser = interval)]
    seconds: Option<Duration>,
    /// How often a long trace is written into its file: 500ms, 1s.
    ///
    /// Units: ms, s, m, h; without one seconds.
    #[arg(long, value_parser = interval)]
    drain_period: Option<Duration>,
    /// How long the service may be kept from running.
    ///
    /// Units: ms, s, m, h; without one seconds.
    #[arg(long, default_value = "10ms", value_parser = interval)]
    blocked: Duration,
    /// How long a ring of this size lasts.
    ///
    /// Units: B, kB, MB, GB (of 1000), KiB, MiB, GiB or K, M, G (of 1024).
    #[arg(long, value_parser = bytes)]
    buffer: Option<u64>,
    /// Bytes of a chunk of shared memory, from 32 to 65536; a session's have 2044, those of the firmware crate 120.
    #[arg(long, default_value_t = Sizing::SESSION_CHUNK, value_parser = clap::value_parser!(u32).range(32..=65536))]
    chunk: u32,
}

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<ExitCode, Failure> {
    let mut sizing = Sizing::of_rate(arguments.rate)
        .packet(arguments.packet)
        .blocked(arguments.blocked.as_secs_f64())
        .chunk(arguments.chunk);
    if let Some(seconds) = arguments.seconds {
        sizing = sizing.seconds(seconds.as_secs_f64());
    }
    if let Some(period) = arguments.drain_period {
        sizing = sizing.drain_period(period.as_secs_f64());
    }
    if let Some(beyond) = sizing.beyond() {
        return Err(Failure::new(beyond).of_arguments());
    }
    let mut text = sizing.to_string();
    if let Some(buffer) = arguments.buffer {
        let (size, time) = (Count(buffer, "byte"), Seconds(sizing.ring_lasts(buffer)));
        text += &format!("\na ring of {size} lasts {time}");
        text += &sizing.ring_fault(buffer).map_or_else(String::new, |fault| format!(": {fault}"));
    }
    if sizing.ring().is_none() && arguments.buffer.is_none() {
        text += "\nfor a ring, say how far it is to reach back, --seconds, or how often a long trace is written, \
                 --drain-period";
    }
    print_and_exit(&text, ExitCode::SUCCESS)
}
