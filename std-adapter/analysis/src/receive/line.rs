//! A line that a trace is received from: its options, its opening, and the loop from its bytes to the files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracebuf_std::line::{Line, is_silence, with_timeout};
use tracebuf_std::whole_file::about;

use super::files::Files;
use super::source::{Open, Source, open};
use super::{ReceiveReport, Receiver};

/// The line to receive from, and the file to write.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    pub(super) port: PathBuf,
    output: PathBuf,
    pub(super) baud: u32,
    pub(super) waits: bool,
}

impl ReceiveOptions {
    /// Bits a second of a serial port, unless set otherwise.
    pub const DEFAULT_BAUD: u32 = 115_200;

    /// Receives from a serial port, a named pipe (on a Unix) or a regular file into a trace file.
    pub fn new(port: impl AsRef<Path>, output: impl AsRef<Path>) -> Self {
        let (port, output) = (port.as_ref().to_owned(), output.as_ref().to_owned());
        Self { port, output, baud: Self::DEFAULT_BAUD, waits: false }
    }

    /// Sets the bits a second of a serial port.
    #[must_use]
    pub fn baud(mut self, baud: u32) -> Self {
        self.baud = baud;
        self
    }

    /// Waits for a serial port that is not there, and again whenever it is gone, as when its device is unplugged or
    /// reset. Otherwise both are errors.
    #[must_use]
    pub fn waits(mut self, waits: bool) -> Self {
        self.waits = waits;
        self
    }
}

/// Receives from a regular file, a named pipe (on a Unix) or a serial port into a trace file, until the file ends, the
/// pipe's last writer closes it, the port [is gone](ReceiveOptions::waits), or `stop` is set. Reports progress twice a second, and the totals at the end, even
/// after an error.
///
/// # Errors
/// Those of the port or the file system, no free name for another start's file, or
/// [`InvalidData`](io::ErrorKind::InvalidData) if not one whole packet came. The files hold what came until then, as
/// far as it could be written; the first file keeps its former content until the first packet comes.
///
/// # Starts
/// Each further start of the device, as a [`Receiver`] tells them apart, has its own file: `trace-2.pftrace` beside
/// `trace.pftrace`. It replaces a trace or an empty file; if the name is anything else's, or in use, the next number is
/// taken. After 100 files everything goes into the last one. A pipe or a device gets everything.
pub fn receive(
    options: &ReceiveOptions,
    stop: &AtomicBool,
    progress: impl FnMut(&ReceiveReport),
) -> io::Result<ReceiveReport> {
    let line = open(options).map_err(|error| about(&options.port, &error))?;
    receive_line(line, options, stop, progress)
}

/// Like [`receive`], from something already open: standard input, a socket, a debug probe's output. Of the options'
/// port only the name counts, which errors give; the speed does not.
///
/// ```
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
/// use std::sync::atomic::AtomicBool;
/// use tracebuf_analysis::receive::{ReceiveOptions, receive_from};
///
/// let (line, mut device) = UnixStream::pair()?;
/// device.write_all(b"\0\x03\x03\x01\x0D\x0A\x06\x40\x05\x18\x01\x50\x02\x02\x39\xD5\xE8\0")?;
/// drop(device);
/// # let trace = &std::env::temp_dir().join(format!("receive-from-{}.pftrace", std::process::id()));
/// let options = ReceiveOptions::new("the device", trace);
/// let report = receive_from(line, &options, &AtomicBool::new(false), |_| {})?;
/// assert_eq!(report.packets, 1);
/// # std::fs::remove_file(trace)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn receive_from(
    line: impl Line,
    options: &ReceiveOptions,
    stop: &AtomicBool,
    progress: impl FnMut(&ReceiveReport),
) -> io::Result<ReceiveReport> {
    receive_line(Box::new(Open(with_timeout(line)?)), options, stop, progress)
}

/// Receives from a line whose silence ends in an error from time to time.
fn receive_line(
    mut line: Box<dyn Source + '_>,
    options: &ReceiveOptions,
    stop: &AtomicBool,
    mut progress: impl FnMut(&ReceiveReport),
) -> io::Result<ReceiveReport> {
    let receiving = |error| about(&options.port, &error);
    let mut files = Files::to(&options.output)?;
    let mut receiver = Receiver::new();
    let mut bytes = vec![0; 1 << 16];
    let mut next_word = Instant::now() + Duration::from_millis(500);
    let mut receive_all = || {
        while !stop.load(Ordering::Relaxed) {
            match line.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => {
                    let bytes = bytes.get(..count).unwrap_or_default();
                    receiver.push(bytes, |start, packet| files.packet(start, packet))?;
                }
                Err(error) if is_silence(&error) => {
                    if line.take_interruption() {
                        receiver.interrupt();
                    }
                    // While the device is silent, the files have everything that came.
                    files.flush()?;
                }
                Err(error) => return Err(receiving(error)),
            }
            let now = Instant::now();
            if now >= next_word {
                // Words that are overdue, as after the process was stopped, are not made up for.
                next_word = now + Duration::from_millis(500);
                let (files, is_waiting) = (files.paths(), !line.is_there());
                progress(&ReceiveReport { files, is_waiting, ..receiver.report() });
            }
        }
        Ok(())
    };
    let received = receive_all();
    let flushed = files.flush();
    let mut report = receiver.finish();
    (report.packets, report.packets_unwritten) = files.packets();
    report.files = files.paths();
    progress(&report);
    flushed.and(received)?;
    if report.packets == 0 {
        let what = if report.frames == 0 { "intact frame" } else { "whole packet" };
        let none = format!("not one {what} came, so nothing is written");
        return Err(receiving(io::Error::new(io::ErrorKind::InvalidData, none)));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// A line that is silent for long, as if the process had been stopped, and then gives some bytes, one at a time.
    struct Stopped(u8);

    impl Read for Stopped {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                std::thread::sleep(Duration::from_millis(1700));
            }
            self.0 += 1;
            let len = bytes.len().min(1).min((10 - self.0).into());
            bytes[..len].fill(0);
            Ok(len)
        }
    }

    #[test]
    fn after_a_long_pause_progress_is_told_once() {
        let trace = std::env::temp_dir().join(format!("tracebuf-pause-{}.pftrace", std::process::id()));
        let (mut words, stop) = (0, AtomicBool::new(false));
        let options = ReceiveOptions::new("the line", trace);
        let received = receive_line(Box::new(Open(Stopped(0))), &options, &stop, |_| words += 1);
        assert!(received.is_err(), "no packet came");
        // The other is that of the end.
        assert_eq!(words, 2);
    }
}
