//! Progress and report of a recording.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tracebuf::buffer::BufferStats;

use crate::ftrace::FtraceStatus;
use crate::options::{LONG_TRACE_PERIOD, RecordOptions};
use tracebuf_session::{RefusedProgram, Summary, Written};
use tracebuf_std::display::{Bytes, Count, Escaped};

/// Progress of a recording. Its `Display` is the progress line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordProgress {
    /// Time since the start.
    pub elapsed: Duration,
    /// Time in all; `None` if it records until it is told to end.
    pub duration: Option<Duration>,
    /// Values recorded.
    pub events: u64,
    /// Events of the kernel recorded; `None` where they are not.
    pub kernel_events: Option<u64>,
    /// Bytes of the ring that are in use; of both, where programs record too.
    pub ring_used: u64,
    /// Bytes of the ring; of both, where programs record too.
    pub ring: u64,
    /// Content of the file so far, if it is written while recording.
    pub file: Option<Written>,
    /// The reason why writing makes no progress just now, or why what is written will not be there. Writing is tried
    /// again, and the ring keeps what it can meanwhile.
    pub file_error: Option<String>,
    /// Chunks that were overwritten before anybody read them.
    pub chunks_overwritten: u64,
    /// Packets that shared memory had no room for.
    pub dropped: u64,
    /// Programs that have come to record too, at [one](RecordOptions::listen) or the [other](RecordOptions::perfetto)
    /// socket; `None` where there is none.
    pub programs: Option<u64>,
    /// What is not in the trace, and why, and what to do about it: known from the start.
    pub notes: Vec<String>,
}

impl fmt::Display for RecordProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed.as_secs_f64();
        write!(f, "{seconds:.1} s")?;
        if let Some(duration) = self.duration {
            write!(f, " of {:.1} s", duration.as_secs_f64())?;
        }
        if let Some(programs) = self.programs {
            write!(f, " · {}", Count(programs, "program"))?;
        }
        if let Some(events) = self.kernel_events {
            let rate = events as f64 / seconds.max(0.1);
            write!(f, " · {} ({rate:.0}/s)", Count(events, "kernel event"))?;
        }
        write!(f, " · {}", Count(self.events, "value"))?;
        match &self.file {
            Some(file) => write!(f, " · {} written", Bytes(file.bytes))?,
            None => {
                let percent = 100.0 * self.ring_used as f64 / self.ring.max(1) as f64;
                write!(f, " · ring {percent:.0}% of {}", Bytes(self.ring))?;
            }
        }
        if let Some(error) = &self.file_error {
            write!(f, " ({error})")?;
        }
        match (Count(self.chunks_overwritten, "chunk"), Count(self.dropped, "packet")) {
            (Count(0, _), Count(0, _)) => f.write_str(" · nothing lost"),
            (Count(0, _), dropped) => write!(f, " · {dropped} dropped"),
            (chunks, Count(0, _)) => write!(f, " · {chunks} overwritten"),
            (chunks, dropped) => write!(f, " · {chunks} overwritten, {dropped} dropped"),
        }
    }
}

/// Report of a recording. Its `Display` is the summary that the command prints.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordReport {
    /// The file.
    pub output: PathBuf,
    /// The time that recording took.
    pub elapsed: Duration,
    /// Values recorded.
    pub events: u64,
    /// Cores that are on.
    pub cores: usize,
    /// Processes that were among the busiest at some time.
    pub processes: u64,
    /// Programs that recorded too; `None` where there was no socket for them.
    pub programs: Option<u64>,
    /// Files that this machine does not have.
    pub missing: Vec<String>,
    /// What else is not in the trace, and why, and what to do about it.
    pub notes: Vec<String>,
    /// Events of the kernel, and their losses; `None` where there are none.
    pub ftrace: Option<FtraceStatus>,
    /// The exit status of the command, if one was run, as shells have it: 128 and the signal, if one ended it. `None`
    /// within if it goes on.
    pub command: Option<Option<u8>>,
    /// Packets that shared memory had no room for.
    pub dropped: u64,
    /// Bytes of the ring that were asked for; where programs record too there are two.
    pub ring: u64,
    /// Content of the file.
    pub written: Written,
    /// The session's own counters.
    pub summary: Summary,
}

impl RecordReport {
    /// Returns true if the file holds all that it should: no write failed at the end, and the disk has all of it.
    pub fn is_whole(&self) -> bool {
        let losses = self.summary.losses();
        losses.bytes_not_written == 0 && losses.packets_not_written == 0 && losses.file_error.is_none()
    }

    /// A ring that may be enough, of four times the size or with room for this many bytes more, if there is one.
    fn larger_ring(&self, more: u64) -> Option<String> {
        let enough = self.ring.saturating_add(more).checked_next_power_of_two()?;
        let larger = self.ring.checked_mul(4)?.max(enough);
        let larger = Some(larger).filter(|larger| RecordOptions::RING.contains(larger))?;
        // Whole units: rounded up, it could be larger than a ring can be.
        let (unit, name) = Bytes::UNITS.into_iter().find(|(unit, _)| larger >= *unit)?;
        Some(format!("--ring {}{name}", larger / unit))
    }

    /// What had to make room in rings that were full, and in others.
    fn all_overwritten(&self) -> impl Iterator<Item = String> {
        [true, false].into_iter().filter_map(|was_full| {
            let rings = self.summary.buffers.iter().filter(|ring| (ring.write_wrap_count > 0) == was_full);
            let count = |(chunks, bytes), ring: &BufferStats| {
                (chunks + ring.chunks_overwritten, bytes + ring.bytes_overwritten)
            };
            let (chunks, bytes) = rings.fold((0, 0), count);
            let lost = format!("{} ({})", Count(chunks, "chunk"), Bytes(bytes));
            let told = || if was_full { self.overwritten(&lost, bytes) } else { self.without_place(&lost) };
            (chunks > 0).then(told)
        })
    }

    /// What had to go because the table was full, not the ring. A larger ring has places for more, up to 65,535.
    fn without_place(&self, lost: &str) -> String {
        let why = "because more threads wrote than the ring has room to track";
        if self.summary.long_trace.is_some() {
            return format!("in between: {lost} had to go before they were in the file, {why}");
        }
        let larger = self.larger_ring(0).map_or_else(String::new, |larger| format!("{larger} or "));
        format!("the beginning: {lost} had to go, {why}; record fewer programs, or with {larger}--long")
    }

    /// What had to make room in the ring, and what to do about it.
    fn overwritten(&self, lost: &str, bytes: u64) -> String {
        if self.summary.long_trace.is_none() {
            // The ring was to hold everything.
            let larger = self.larger_ring(bytes).map_or_else(String::new, |larger| format!("{larger} or "));
            return format!("the beginning: {lost} had to make room; record with {larger}--long");
        }
        // The ring was to hold what is recorded in a period. More may have been lost in one than in another, but not
        // twice as much.
        let periods = (self.elapsed.as_nanos() / LONG_TRACE_PERIOD.as_nanos()).max(1);
        let more = (u128::from(bytes) * 2 / periods).min(bytes.into()) as u64;
        let larger =
            self.larger_ring(more).map_or_else(String::new, |larger| format!("; record with {larger}"));
        format!("in between: {lost} had to make room before they were in the file{larger}")
    }

    /// What the kernel's buffers lost, of each processor.
    fn lost_in_kernel(&self) -> impl Iterator<Item = String> {
        let ftrace = self.ftrace.iter();
        let of_processors = ftrace.clone().flat_map(|ftrace| {
            let larger = ftrace.buffer_kib.saturating_mul(4).checked_next_power_of_two().unwrap_or(u64::MAX);
            ftrace.lost.iter().map(move |cpu| {
                let lost = Count(cpu.lost(), "event");
                format!(
                    "in between: {lost} of processor {}, before they were read from the kernel; record with \
                     --kernel-buffer {larger}KiB or fewer --events",
                    cpu.cpu
                )
            })
        });
        let faults = ftrace.filter(|ftrace| ftrace.faults > 0);
        of_processors
            .chain(faults.map(|_| "parts of the kernel's pages, which could not be understood".to_owned()))
    }

    /// Losses, and what to do about them, a line each.
    pub fn losses(&self) -> Vec<String> {
        let mut lost = self.summary.losses();
        let mut losses: Vec<_> = self.all_overwritten().chain(self.lost_in_kernel()).collect();
        if self.dropped > 0 {
            let dropped = Count(self.dropped, "packet");
            losses.push(format!("{dropped} dropped: the drain thread did not run in time"));
        }
        match (lost.bytes_not_written, &lost.file_error) {
            (0, None) => {}
            (0, Some(error)) => losses.push(format!("perhaps the file, or its end: {error}")),
            (given_up, error) => {
                let has_no_reader = self.summary.long_trace.as_ref().is_some_and(|file| file.has_no_reader);
                let error = if has_no_reader { Some("nobody reads it any more") } else { error.as_deref() };
                let error = error.unwrap_or("the file takes no more");
                losses.push(format!("the end: {} could not be written: {error}", Bytes(given_up)));
            }
        }
        // The values' are reported above; the buffer's counter has them too.
        lost.packets_given_up = lost.packets_given_up.saturating_sub(self.dropped);
        losses.extend(self.summary.refused.iter().map(RefusedProgram::to_string));
        let others = self.summary.refusals
            - self.summary.refused.iter().map(|one| one.times).sum::<u64>().min(self.summary.refusals);
        if others > 0 {
            losses.push(format!("{} more sent away", Count(others, "program")));
        }
        losses.extend(lost.counts().map(|(count, what)| format!("{count} {what}")));
        let silent = self.summary.silent().filter_map(|producer| producer.identity);
        losses.extend(silent.map(|silent| {
            format!("perhaps the last packets of process {}, which did not answer", silent.pid)
        }));
        losses
    }
}

impl fmt::Display for RecordReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {:.1} s of this machine, {}, {}",
            Escaped(self.output.display()),
            self.elapsed.as_secs_f64(),
            Count(self.cores as u64, "core"),
            Count(self.processes, "busy process"),
        )?;
        if let Some(programs) = self.programs {
            write!(f, ", and of {}", Count(programs, "program"))?;
        }
        if let Some(ftrace) = &self.ftrace {
            write!(f, "; {}", Count(ftrace.events, "kernel event"))?;
        }
        writeln!(f, "; {}, {}", Count(self.events, "value"), Bytes(self.written.bytes))?;
        for file in &self.missing {
            writeln!(f, "not available: {file}")?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "{note}"))?;
        match &self.losses()[..] {
            [] => writeln!(f, "lost: nothing")?,
            losses => losses.iter().try_for_each(|loss| writeln!(f, "lost: {loss}"))?,
        }
        match self.written.bytes {
            0 => write!(f, "no trace was written"),
            _ => write!(f, "open it in your browser: https://ui.perfetto.dev, \"Open trace file\""),
        }
    }
}

#[cfg(test)]
mod tests;
