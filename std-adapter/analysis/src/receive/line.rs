//! Lines that traces are received from: the loop from their bytes to the trace.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracebuf::producer::track_event::Clock;
use tracebuf_session::BootClock;
use tracebuf_std::line::{Line, is_silence, with_timeout};
use tracebuf_std::whole_file::about;

use super::chunks::DeviceOptions;
use super::destination::{Destination, Output, name_of};
use super::options::ReceiveOptions;
use super::source::{Open, Source, open};
use super::{ReceiveReport, Receiver};
use crate::in_place::Identity;

/// Bytes of a sequence between two descriptions of its tracks in a session, whose ring may overwrite them.
const STATE_EVERY: usize = 32 << 10;

/// Receives from a regular file, a named pipe (on a Unix), a serial port or a server into a trace file, until the file
/// ends, the pipe's last writer closes it, the port or server [is gone](ReceiveOptions::waits), or `stop` is set.
/// Reports progress twice a second, and the totals at the end, even after an error.
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
    let (line, is_live) = open(options).map_err(|error| about(&options.port, &error))?;
    let options = options.clone().live(options.is_live && is_live);
    receive_line(line, &options, stop, progress)
}

/// Receives from several devices, or from one into a session, all of them in one trace: each is a process, by its
/// [name](ReceiveOptions::device), and has the host's time. Their options' files do not count. `progress` is told which
/// of the lines a report is about. Ends when all lines have ended, or the session has.
///
/// Devices must record in place: of one that sends packets, nothing is passed on.
///
/// # Errors
/// The destination cannot be written. Those of each line are in its place: see [`receive`].
///
/// ```no_run
/// use std::sync::atomic::AtomicBool;
/// use tracebuf_analysis::receive::{Destination, ReceiveOptions, receive_all};
/// use tracebuf_session::Session;
///
/// let session = Session::builder().ring(16 << 20).start()?;
/// let lines = [("oven", "/dev/ttyACM0"), ("door", "/dev/ttyACM1")];
/// let lines = lines.map(|(name, port)| ReceiveOptions::new(port, "").device(name).waits(true));
/// let into = Destination::Session(session.recorder());
/// receive_all(&lines, &into, &AtomicBool::new(false), |line, report| println!("{line}: {report}"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn receive_all(
    lines: &[ReceiveOptions],
    into: &Destination,
    stop: &AtomicBool,
    progress: impl FnMut(usize, &ReceiveReport) + Send,
) -> io::Result<Vec<io::Result<ReceiveReport>>> {
    let output = Mutex::new(Output::to(into, lines.len())?);
    let (sequences, progress) = (Arc::new(AtomicU32::new(1)), Mutex::new(progress));
    let is_alone = lines.len() == 1 && matches!(into, Destination::File(_));
    let receive_one = |at: usize, options: &ReceiveOptions, name| {
        let (line, is_live) = open(options).map_err(|error| about(&options.port, &error))?;
        let options = options.clone().live(options.is_live && is_live);
        let device = device_of(&options, into, name, &sequences);
        Receiving { options: &options, output: &output, stop, is_alone }.run(line, device, &mut |report| {
            progress.lock().unwrap_or_else(PoisonError::into_inner)(at, report);
        })
    };
    let receive_one = &receive_one;
    Ok(std::thread::scope(|scope| {
        let lines = lines.iter().zip(names_of(lines, into)).enumerate();
        let receivers: Vec<_> =
            lines.map(|(at, (options, name))| scope.spawn(move || receive_one(at, options, name))).collect();
        let panicked = |_| Err(io::Error::other("its thread has panicked"));
        receivers.into_iter().map(|receiver| receiver.join().unwrap_or_else(panicked)).collect()
    }))
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
    let line = Box::new(Open(with_timeout(line)?));
    receive_line(line, options, stop, progress)
}

/// Receives from one line that is open into files.
fn receive_line(
    line: Box<dyn Source + '_>,
    options: &ReceiveOptions,
    stop: &AtomicBool,
    mut progress: impl FnMut(&ReceiveReport),
) -> io::Result<ReceiveReport> {
    let destination = Destination::File(options.output.clone());
    let output = Mutex::new(Output::to(&destination, 1)?);
    let device = device_of(options, &destination, options.device.clone(), &Arc::new(AtomicU32::new(1)));
    Receiving { options, output: &output, stop, is_alone: true }.run(line, device, &mut progress)
}

/// What a device's packets are to be: it is `named` unless it is alone in its trace.
fn device_of(
    options: &ReceiveOptions,
    destination: &Destination,
    named: Option<String>,
    sequences: &Arc<AtomicU32>,
) -> DeviceOptions {
    let state_every = match destination {
        Destination::File(_) => usize::MAX,
        Destination::Session(_) => STATE_EVERY,
    };
    let identity = match &named {
        Some(name) => Identity::among_others(Some(name)),
        None => Identity::alone(None),
    };
    let (sequences, linked) = (sequences.clone(), options.linked.clone());
    DeviceOptions { identity, sequences, at_host: options.is_live, state_every, linked }
}

/// Names for the devices of several lines, or of a session's.
fn names_of(lines: &[ReceiveOptions], destination: &Destination) -> Vec<Option<String>> {
    let needs_name = lines.len() > 1 || matches!(destination, Destination::Session(_));
    let mut taken = BTreeSet::new();
    let mut name = |line: &ReceiveOptions| {
        let name = line.device.clone().or_else(|| needs_name.then(|| name_of(&line.port)))?;
        let numbered = (2..).map(|number| format!("{name} {number}"));
        let mut free = std::iter::once(name.clone()).chain(numbered);
        free.find(|name| taken.insert(name.clone()))
    };
    lines.iter().map(&mut name).collect()
}

/// Receiving from one line.
struct Receiving<'r> {
    options: &'r ReceiveOptions,
    output: &'r Mutex<Output>,
    stop: &'r AtomicBool,
    /// Whether all packets of the output are of this line.
    is_alone: bool,
}

impl Receiving<'_> {
    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Option<u64> {
        self.options.is_live.then(|| BootClock.now())
    }

    /// Receives from a line whose silence ends in an error from time to time.
    fn run(
        &self,
        mut line: Box<dyn Source + '_>,
        device: DeviceOptions,
        progress: &mut dyn FnMut(&ReceiveReport),
    ) -> io::Result<ReceiveReport> {
        let mut receiver = Receiver::of_device(device, !self.is_alone);
        let received = self.receive_all(&mut *line, &mut receiver, progress);
        let released = receiver.release(|start, packet| self.output().packet(start, packet));
        let flushed = self.output().flush();
        let mut report = receiver.finish();
        self.count(&mut report);
        let received = received.and(released);
        let is_over =
            received.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe && !self.is_alone);
        report.session_ended = is_over;
        progress(&report);
        flushed.and(if is_over { Ok(()) } else { received })?;
        if report.packets == 0 && !is_over {
            let none = match &report {
                ReceiveReport { packets_refused: 1.., .. } => {
                    "it sends packets: only a device that records in place can be in a trace with others"
                        .to_owned()
                }
                ReceiveReport { frames: 0, .. } => {
                    "not one intact frame came, so nothing is written".to_owned()
                }
                _ => "not one whole packet came, so nothing is written".to_owned(),
            };
            return Err(self.receiving(io::Error::new(ErrorKind::InvalidData, none)));
        }
        Ok(report)
    }

    fn receiving(&self, error: io::Error) -> io::Error {
        about(&self.options.port, &error)
    }

    /// What became of the packets, as far as that is known of this line's.
    fn count(&self, report: &mut ReceiveReport) {
        let output = self.output();
        if self.is_alone {
            (report.packets, report.packets_unwritten) = output.packets();
        }
        report.files = output.paths();
    }

    fn receive_all(
        &self,
        line: &mut dyn Source,
        receiver: &mut Receiver,
        progress: &mut dyn FnMut(&ReceiveReport),
    ) -> io::Result<()> {
        let mut bytes = vec![0; 1 << 16];
        let mut next_word = Instant::now() + Duration::from_millis(500);
        while !self.stop.load(Ordering::Relaxed) {
            let read = line.read(&mut bytes);
            let now = self.now();
            let pass = |start, packet: &[u8]| self.output().packet(start, packet);
            match read {
                Ok(0) => break,
                Ok(count) => receiver.push_at(now, bytes.get(..count).unwrap_or_default(), pass)?,
                Err(error) if is_silence(&error) => {
                    if line.take_interruption() {
                        receiver.interrupt();
                    }
                    if let Some(now) = now {
                        receiver.look(now, pass)?;
                    }
                    // While the device is silent, the files have everything that came.
                    self.output().flush()?;
                }
                Err(error) => return Err(self.receiving(error)),
            }
            let now = Instant::now();
            if now >= next_word {
                // Words that are overdue, as after the process was stopped, are not made up for.
                next_word = now + Duration::from_millis(500);
                let mut report = receiver.report();
                (report.files, report.is_waiting) = (self.output().paths(), !line.is_there());
                progress(&report);
            }
        }
        Ok(())
    }
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
