//! The sources of a recording, and what they have done.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tracebuf::buffer::BufferStats;
use tracebuf_session::{Recorder, Session, SessionError, Summary};
use tracebuf_std::process::pid_namespace;

use super::pace::Pace;
use super::sampler::{Sampler, Seen};
use super::tracks::Tracks;
use crate::ftrace::{DEFAULT_SETS, FtraceStatus, expanded};
use crate::options::{KernelEvents, RecordOptions};
use crate::proc::Proc;
use crate::report::RecordProgress;
use crate::sources::{
    DataSource, FtraceOptions, FtraceSource, ProcessTreeSource, SourceThread, ThreadNumbers,
};

/// The kernel's events, if they are to be had.
#[derive(Default)]
pub(super) struct KernelSource {
    source: Option<FtraceSource>,
    /// The threads that they name.
    threads: ThreadNumbers,
    /// What there is to say of them.
    notes: Vec<String>,
}

/// Looks whether the kernel's events are to be had.
///
/// # Errors
/// They were asked for, and are not.
pub(super) fn kernel(
    options: &RecordOptions,
    processors: u64,
    memory: u64,
) -> Result<KernelSource, SessionError> {
    let mut found = KernelSource::default();
    let invalid = |why: String| {
        SessionError::io("events of the kernel", io::Error::new(io::ErrorKind::InvalidInput, why))
    };
    let (sets, is_asked) = match &options.kernel_events {
        KernelEvents::Off => return Ok(found),
        KernelEvents::IfPossible => (DEFAULT_SETS.map(str::to_owned).to_vec(), false),
        KernelEvents::These(sets) => (sets.clone(), true),
    };
    let events = sets.iter().map(|set| expanded(set)).collect::<Result<Vec<_>, _>>().map_err(invalid)?;
    let kib = options.kernel_buffer_kib(processors, memory);
    let mut wanted = FtraceOptions::new(events.concat()).buffer_kib(kib);
    if sets.iter().any(|set| set.starts_with("workqueue") || set.starts_with("timer")) {
        // Without names of the kernel's functions they say nothing.
        wanted = wanted.symbols();
    }
    if pid_namespace() == 0 {
        wanted = wanted.tell_threads(&found.threads);
    }
    match FtraceSource::new(wanted) {
        Ok(source) if is_asked && !source.has_events() => {
            Err(invalid(format!("this kernel has none of {}", sets.join(", "))))
        }
        Ok(source) => {
            let elsewhere = "processes and threads are named by what the kernel's events say only: this is a pid namespace \
                             of its own, with other numbers";
            found.notes.extend((pid_namespace() != 0).then(|| elsewhere.to_owned()));
            found.source = Some(source);
            Ok(found)
        }
        Err(error) if is_asked => Err(invalid(error.to_string())),
        Err(error) => {
            found.notes.push(format!("scheduling is not in the trace: {error}"));
            Ok(found)
        }
    }
}

/// The sources that run. The kernel's events have a thread of their own: its buffers do not wait for `/proc`.
pub(super) struct Sources {
    machine: Option<SourceThread>,
    kernel: Option<SourceThread>,
    /// What processes and threads are called.
    names: Option<SourceThread>,
    seen: Arc<Mutex<Seen>>,
    ftrace: Option<Arc<Mutex<FtraceStatus>>>,
    notes: Vec<String>,
}

impl Sources {
    pub(super) fn start(
        options: &RecordOptions,
        proc: Proc,
        tracks: Tracks,
        recorder: &Recorder,
        session: &Session,
        kernel: KernelSource,
    ) -> Result<Self, SessionError> {
        let KernelSource { source: ftrace, threads, mut notes } = kernel;
        let side = session.side_packets();
        let is_same_namespace = pid_namespace() == 0 || ftrace.is_none();
        let mut sampler =
            Sampler::new(proc.clone(), tracks, recorder.clone(), Pace::new(options.interval, Instant::now()))
                .tell_threads(&threads);
        if !is_same_namespace {
            sampler = sampler.in_other_namespace();
        }
        if ftrace.is_none() {
            sampler = sampler.with_run_times();
        }
        let seen = sampler.seen();
        let machine = SourceThread::start("tracebuf-machine", recorder, &side, vec![Box::new(sampler)])?;
        let status = ftrace.as_ref().map(FtraceSource::status);
        let tree = ProcessTreeSource::of(proc.clone(), threads);
        let tree = is_same_namespace.then(|| Box::new(tree) as Box<dyn DataSource>);
        let names = SourceThread::start("tracebuf-names", recorder, &side, tree.into_iter().collect())?;
        // All threads that there are now write the trace, or wait.
        let own = proc.numbers("self/task");
        let ftrace = ftrace.map(|ftrace| Box::new(ftrace.leave_out(own)) as Box<dyn DataSource>);
        let kernel = SourceThread::start("tracebuf-kernel", recorder, &side, ftrace.into_iter().collect())?;
        let failed = machine.failed().iter().chain(kernel.failed()).chain(names.failed());
        let failed: Vec<_> =
            failed.map(|(name, error)| format!("{name} is not in the trace: {error}")).collect();
        if let (crate::options::KernelEvents::These(_), Some(failed)) =
            (&options.kernel_events, failed.first())
        {
            return Err(SessionError::io("events of the kernel", io::Error::other(failed.clone())));
        }
        notes.extend(failed);
        if let Some(status) = &status {
            let status = status.lock().unwrap_or_else(PoisonError::into_inner);
            let told =
                [("this kernel does not have", &status.unknown), ("could not be enabled", &status.failed)];
            for (what, events) in told.into_iter().filter(|(_, events)| !events.is_empty()) {
                // The default has some that only other kinds of machines have.
                if matches!(options.kernel_events, KernelEvents::These(_)) || what.starts_with("could") {
                    notes.push(format!("events that {what}: {}", events.join(", ")));
                }
            }
        }
        let (machine, kernel, names) = (Some(machine), Some(kernel), Some(names));
        Ok(Self { machine, kernel, names, seen, ftrace: status, notes })
    }

    /// Stops them: first what looks at the machine, whose last look the kernel's events may still tell of; at last what
    /// names those that these have met.
    pub(super) fn stop(&mut self) {
        for thread in [self.machine.take(), self.kernel.take(), self.names.take()].into_iter().flatten() {
            let why = match thread.stop() {
                Ok(()) => continue,
                Err(SessionError::Timeout) => "a process lets nobody read what it is called",
                Err(_) => "a thread has failed",
            };
            self.notes.push(format!("the end of some of it is missing: {why}"));
        }
    }

    pub(super) fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn ftrace(&self) -> Option<FtraceStatus> {
        let status = self.ftrace.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(status.clone())
    }

    /// What is not in the trace, and why.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Has programs named that have recorded nothing until now, when the sources stop: those that record do it themselves.
    pub(super) fn silent(&self, summary: &Summary) {
        let silent = silent_programs(summary).collect();
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).silent = silent;
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
pub(super) fn progress_of(
    options: &RecordOptions,
    start: Instant,
    summary: Result<Summary, SessionError>,
    sources: &Sources,
    programs: Option<u64>,
) -> Result<Option<RecordProgress>, SessionError> {
    let summary = match summary {
        Err(SessionError::Timeout) => return Ok(None),
        other => other?,
    };
    let seen = {
        let mut seen = sources.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.programs = programs_of(&summary).map(|(_, pid)| pid).collect();
        seen.clone()
    };
    let held = |buffer: &BufferStats| {
        let cleared = buffer.bytes_overwritten + buffer.bytes_read + buffer.padding_bytes_cleared;
        (buffer.bytes_written + buffer.padding_bytes_written).saturating_sub(cleared)
    };
    Ok(Some(RecordProgress {
        elapsed: start.elapsed(),
        duration: options.duration.filter(|_| options.command.is_none()),
        events: seen.events,
        kernel_events: sources.ftrace().map(|status| status.events),
        ring_used: summary.buffers.iter().map(held).sum(),
        ring: summary.buffers.iter().map(|buffer| buffer.buffer_size).sum(),
        file: summary.file,
        file_error: summary.long_trace.and_then(|file| file.error),
        chunks_overwritten: summary.buffers.iter().map(|buffer| buffer.chunks_overwritten).sum(),
        dropped: seen.dropped,
        programs,
        notes: sources.notes.clone(),
    }))
}
