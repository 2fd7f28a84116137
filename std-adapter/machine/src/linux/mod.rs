//! A recording of the machine, from its start to its report.

mod proc;
mod processes;
mod programs;
mod sampler;
mod tracks;

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tracebuf::buffer::BufferStats;

use tracebuf_session::{LongTrace, Session, SessionError, Summary};
use tracebuf_std::display::Count;
use tracebuf_std::whole_file::check_writable;

use crate::options::RecordOptions;
use crate::report::{RecordProgress, RecordReport};
use proc::Proc;
use programs::ListenSockets;
use sampler::Sampler;
use tracks::Tracks;

/// The machine's data source, in a session that others also record into: their recorders go to the first buffer unless
/// they say otherwise.
const MACHINE: &str = "machine";

/// The name of this process in the trace.
const NAME: &str = "tracebuf record";

/// Records until the time is over or `stop` is set, and tells how it goes twice a second.
///
/// # Errors
/// No `/proc`, a ring too small or too large, a file that cannot be written (reported before anything is recorded, if
/// it can be known then), or whatever ends a session. A long trace's file that takes nothing for a while does not end
/// it: the progress says so, and [`RecordReport::is_whole`] whether the file took everything in the end. A pipe whose
/// reader has gone does end it.
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
    check_ring(options.ring)?;
    // Before the session starts: it empties the file of a long trace.
    proc.read("stat").map_err(|error| SessionError::io("/proc/stat", error))?;
    let sockets = ListenSockets::of(options)?;
    let mut builder = Session::builder().process_name(NAME);
    if options.has_programs() {
        builder = builder.buffer(options.ring_of_programs());
    }
    builder = builder.ring(options.ring).data_source(MACHINE, options.has_programs().into());
    if options.long {
        let trace = LongTrace::to(output).period(crate::options::LONG_TRACE_PERIOD);
        builder = builder.long_trace(trace.compress(options.compression));
    } else {
        check_writable(output).map_err(writing)?;
    }
    let session = Arc::new(builder.start()?);
    let programs = sockets.open(options, &session)?;
    let recorder = session.recorder_of(MACHINE).ok_or(SessionError::Stopped)?;
    let tracks = Tracks::new(&recorder, session.side_packets(), options.ring).ok_or(SessionError::Stopped)?;
    let mut sampler = Sampler::new(proc, tracks.named(std::process::id(), NAME));

    let start = Instant::now();
    let look = |sampler: &mut Sampler, how: fn(&mut Sampler)| {
        let _look = recorder.enter("look at /proc");
        how(sampler);
    };
    let mut tell = |sampler: &mut Sampler| {
        let summary = session.summary();
        if let Ok(summary) = &summary {
            sampler.tracks.programs(programs_of(summary).map(|(_, pid)| pid));
        }
        let told = progress_of(options, start, summary, &sampler.tracks, programs.seen())?;
        told.iter().for_each(&mut progress);
        Ok::<_, SessionError>(())
    };
    // The first look even if the time is over already: the last one is compared with it.
    look(&mut sampler, Sampler::look);
    let mut pace = Pace::new(options.interval, start, Instant::now());
    let is_left = || options.duration.is_none_or(|duration| start.elapsed() < duration);
    // Nobody else comes to read what a reader has left.
    let is_read = || session.long_trace().is_none_or(|file| !file.has_no_reader);
    while !stop.load(Ordering::Relaxed) && is_left() && is_read() {
        let now = Instant::now();
        match pace.next(now) {
            Step::Look => {
                look(&mut sampler, Sampler::look);
                pace.looked(now, Instant::now());
            }
            Step::Tell => {
                tell(&mut sampler)?;
                pace.told(Instant::now());
            }
            Step::Wait(time) => std::thread::sleep(time),
        }
    }
    // What happened since the last look.
    look(&mut sampler, Sampler::last_look);
    let elapsed = start.elapsed();
    tell(&mut sampler)?;
    if options.has_programs() {
        // What they have recorded may still lie in their shared memory. The stop waits longer for those that are late.
        let _ = session.flush(Duration::from_secs(1));
        if let Ok(summary) = session.summary() {
            sampler.tracks.silent(silent_programs(&summary));
        }
    }
    let (cores, processes) = sampler.seen();
    let missing = sampler.missing().map(|file| format!("/proc/{file}")).collect();
    let (events, dropped) = (sampler.tracks.events, sampler.tracks.dropped());

    let seen = programs.seen();
    drop(programs);
    let mut stopped = session.stop()?;
    let written = match stopped.file {
        Some(written) => written,
        None => stopped.write_to(output).map_err(writing)?,
    };
    Ok(RecordReport {
        output: output.clone(),
        elapsed,
        events,
        cores,
        processes,
        programs: seen,
        missing,
        dropped,
        ring: options.ring,
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

/// The times to look, and to report progress.
struct Pace {
    interval: Duration,
    next_look: Instant,
    next_word: Instant,
}

/// What it is time for.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Look,
    Tell,
    Wait(Duration),
}

impl Pace {
    /// Begins at the end of the first look.
    fn new(interval: Duration, begun: Instant, now: Instant) -> Self {
        let mut pace = Self { interval, next_look: begun, next_word: now };
        pace.looked(begun, now);
        pace
    }

    fn next(&self, now: Instant) -> Step {
        // First, so that it is not forgotten however long looks take.
        if now >= self.next_word {
            return Step::Tell;
        }
        // No longer than it may take to notice a stop.
        let wait = self.next_look.saturating_duration_since(now).min(Duration::from_millis(20));
        if wait.is_zero() { Step::Look } else { Step::Wait(wait) }
    }

    /// Notes that progress was told, which may have taken long too: there is time for a look before the next word.
    fn told(&mut self, now: Instant) {
        self.next_word = now + Duration::from_millis(500);
    }

    /// Notes that a look has ended. The next is at least as far away as this one took, to leave the machine to others.
    fn looked(&mut self, begun: Instant, now: Instant) {
        let due = self.next_look;
        // One that came late by more than the interval is not followed by another to make up for it.
        let due = if begun >= due + self.interval { begun } else { due };
        self.next_look = (due + self.interval).max(now + (now - begun));
    }
}

/// The programs that are there: their numbers, and their processes.
fn programs_of(summary: &Summary) -> impl Iterator<Item = (u16, u32)> {
    let others = summary.producers.iter().filter_map(|producer| producer.identity);
    let others = others.filter(|identity| identity.producer_id != Session::OWN_PRODUCER_ID);
    others.filter_map(|identity| Some((identity.producer_id, u32::try_from(identity.pid).ok()?)))
}

/// Those of them that have recorded nothing.
fn silent_programs(summary: &Summary) -> impl Iterator<Item = u32> {
    let recorded: HashSet<u16> = summary.sequences.iter().map(|sequence| sequence.producer_id).collect();
    programs_of(summary).filter(move |(id, _)| !recorded.contains(id)).map(|(_, pid)| pid)
}

/// Progress. `None` if the session has no time to answer: that is one word less, not the end of the recording.
fn progress_of(
    options: &RecordOptions,
    start: Instant,
    summary: Result<Summary, SessionError>,
    tracks: &Tracks,
    programs: Option<u64>,
) -> Result<Option<RecordProgress>, SessionError> {
    let summary = match summary {
        Err(SessionError::Timeout) => return Ok(None),
        other => other?,
    };
    let held = |buffer: &BufferStats| {
        let cleared = buffer.bytes_overwritten + buffer.bytes_read + buffer.padding_bytes_cleared;
        (buffer.bytes_written + buffer.padding_bytes_written).saturating_sub(cleared)
    };
    Ok(Some(RecordProgress {
        elapsed: start.elapsed(),
        duration: options.duration,
        events: tracks.events,
        ring_used: summary.buffers.iter().map(held).sum(),
        ring: summary.buffers.iter().map(|buffer| buffer.buffer_size).sum(),
        file: summary.file,
        file_error: summary.long_trace.and_then(|file| file.error),
        chunks_overwritten: summary.buffers.iter().map(|buffer| buffer.chunks_overwritten).sum(),
        dropped: tracks.dropped(),
        programs,
    }))
}

#[cfg(test)]
mod tests;
