//! A recording of the machine, from its start to its report.

mod command;
mod pace;
mod processes;
mod programs;
mod running;
mod sampler;
mod tracks;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracebuf_session::{BufferConfig, Exhaustion, LongTrace, Session, SessionError};
use tracebuf_std::display::Count;
use tracebuf_std::whole_file::check_writable;

use crate::options::RecordOptions;
use crate::proc::{Proc, processors_and_memory};
use crate::report::{RecordProgress, RecordReport};
use crate::sources::SystemInfo;
use command::Running;
use programs::ListenSockets;
use running::Sources;
use tracks::Tracks;

/// The machine's data source, in a session that others also record into: their recorders go to the first buffer unless
/// they say otherwise.
const MACHINE: &str = "machine";

/// The name of this process in the trace.
const NAME: &str = "tracebuf record";

/// Writers into the machine's ring, with much to spare: its sources, and threads of this process.
const WRITERS: u16 = 256;

/// Time between two words of progress.
const WORDS: Duration = Duration::from_millis(500);
/// No longer than it may take to notice a stop.
const NOTICE: Duration = Duration::from_millis(100);
/// No longer than it may take to notice the end of a command, which somebody waits for.
const NOTICE_OF_COMMAND: Duration = Duration::from_millis(20);

/// Records until the time is over, the [command](RecordOptions::command) has ended or `stop` is set, and tells how it goes
/// twice a second.
///
/// # Errors
/// No `/proc`, a ring too small or too large, a file that cannot be written, events of the kernel that
/// [were asked for](RecordOptions::events) and are not to be had, a command that is not there (all reported before anything
/// is recorded, if it can be known then), or whatever ends a session. A long trace's file that takes nothing for a while
/// does not end it: the progress says so, and [`RecordReport::is_whole`] whether the file took everything in the end. A
/// pipe whose reader has gone does end it.
pub fn record(
    options: &RecordOptions,
    stop: &AtomicBool,
    progress: impl FnMut(&RecordProgress),
) -> Result<RecordReport, SessionError> {
    record_from(Proc::new(), options, stop, progress)
}

fn record_from(
    proc: Proc,
    options: &RecordOptions,
    stop: &AtomicBool,
    mut progress: impl FnMut(&RecordProgress),
) -> Result<RecordReport, SessionError> {
    let output = &options.output;
    let writing = |error| SessionError::writing(output, error);
    let (processors, memory) = processors_and_memory(&proc);
    let ring = options.machine_ring(processors, memory);
    check_ring(ring)?;
    // Before the session starts: it empties the file of a long trace.
    proc.read("stat").map_err(|error| SessionError::io("/proc/stat", error))?;
    let sockets = ListenSockets::of(options)?;
    options.command.iter().try_for_each(|command| command::check(command))?;
    let kernel = running::kernel(options, processors, memory)?;
    let mut builder = Session::builder().process_name(NAME).exhaustion(Exhaustion::Stall);
    if options.has_programs() {
        builder = builder.buffer(options.ring_of_programs());
    }
    // Few write into it. Much of it may stay empty, and then is not to cost anything.
    let buffer = BufferConfig::ring(ring).sequences(WRITERS).small_pages();
    builder = builder.buffer(buffer).data_source(MACHINE, options.has_programs().into());
    if options.long {
        let trace = LongTrace::to(output).period(crate::options::LONG_TRACE_PERIOD);
        builder = builder.long_trace(trace.compress(options.compression));
    } else {
        check_writable(output).map_err(writing)?;
    }
    let session = Arc::new(builder.start()?);
    let programs = sockets.open(options, &session)?;
    let recorder = session.recorder_of(MACHINE).ok_or(SessionError::Stopped)?;
    let side = session.side_packets();
    side.add(&SystemInfo::new(processors, memory));
    let tracks = Tracks::new(&recorder, side, ring).ok_or(SessionError::Stopped)?;
    let tracks = tracks.named(std::process::id(), NAME);

    let start = Instant::now();
    let mut sources = Sources::start(options, proc, tracks, &recorder, &session, kernel)?;
    let mut command =
        options.command.as_ref().map(|command| Running::start(command, &recorder)).transpose()?;
    let mut tell = |sources: &Sources| {
        let told = running::progress_of(options, start, session.summary(), sources, programs.seen())?;
        told.iter().for_each(&mut progress);
        Ok::<_, SessionError>(())
    };
    let mut next_word = Instant::now();
    let is_left = || options.duration.is_none_or(|duration| start.elapsed() < duration);
    // Nobody else comes to read what a reader has left.
    let is_read = || session.long_trace().is_none_or(|file| !file.has_no_reader);
    let goes_on = |command: &mut Option<Running>| command.as_mut().map_or_else(is_left, Running::goes_on);
    while goes_on(&mut command) && !stop.load(Ordering::Relaxed) && is_read() {
        let now = Instant::now();
        if now >= next_word {
            tell(&sources)?;
            next_word = Instant::now() + WORDS;
            continue;
        }
        let left =
            options.duration.filter(|_| command.is_none()).map(|all| all.saturating_sub(start.elapsed()));
        let notice = if command.is_some() { NOTICE_OF_COMMAND } else { NOTICE };
        std::thread::sleep(left.unwrap_or(notice).min(notice).min(next_word - now));
    }
    let command = command.map(Running::end);
    let elapsed = start.elapsed();
    if options.has_programs() {
        // What they have recorded may still lie in their shared memory. The stop waits longer for those that are late.
        let _ = session.flush(Duration::from_secs(1));
        if let Ok(summary) = session.summary() {
            sources.silent(&summary);
        }
    }
    // What happened since the last look, and what the kernel's buffers hold.
    sources.stop();
    tell(&sources)?;
    let seen = sources.seen();
    let programs_seen = programs.seen();
    drop(programs);
    let mut stopped = session.stop()?;
    let written = match stopped.file {
        Some(written) => written,
        None => stopped.write_to(output).map_err(writing)?,
    };
    Ok(RecordReport {
        output: output.clone(),
        elapsed,
        events: seen.events,
        cores: seen.cores,
        processes: seen.processes,
        programs: programs_seen,
        missing: seen.missing.iter().map(|file| format!("/proc/{file}")).collect(),
        notes: sources.notes().to_vec(),
        ftrace: sources.ftrace(),
        command,
        dropped: seen.dropped,
        ring,
        written,
        summary: stopped.summary(),
    })
}

/// Checks the size of the ring: one that holds no chunk would lose everything.
fn check_ring(bytes: u64) -> Result<(), SessionError> {
    if RecordOptions::RING.contains(&bytes) {
        return Ok(());
    }
    let error = io::Error::new(io::ErrorKind::InvalidInput, "it is 4 KiB at least, and less than 4 GiB");
    Err(SessionError::io(format!("in the size of the ring, {}", Count(bytes, "byte")), error))
}

#[cfg(test)]
pub(crate) mod tests;
