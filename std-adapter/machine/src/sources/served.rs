//! The machine's data sources for the sessions of a tracing service: [`offer_machine`].

use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tracebuf_ipc::{RunningSource, SourceHost, SourceProducer, SourceRequest};
use tracebuf_session::{Recorder, SessionError};
use tracebuf_std::process::pid_namespace;

use super::cpu_info::SystemInfoSource;
use super::data_source::{DataSource, SourceOutput};
use super::ftrace_source::FtraceSource;
use super::polled::{ProcessStatsSource, SysStatsSource};
use super::source_thread::SourceThread;
use super::thread_numbers::ThreadNumbers;
use super::wanted::{WantedEvents, WantedProcesses, WantedStats, wants_interrupts};
use crate::ftrace::{FtraceReader, FtraceStats, Instance, StatsPhase};
use crate::options::kernel_buffer;
use crate::proc::{Proc, processors_and_memory};

/// What the producer is called.
const PRODUCER: &str = "tracebuf.machine";
const FTRACE: &str = "linux.ftrace";
const PROCESS_STATS: &str = "linux.process_stats";
const SYS_STATS: &str = "linux.sys_stats";
const SYSTEM_INFO: &str = "linux.system_info";
/// How long a source has to write what it has: less than what services wait for a flush.
const FLUSH: Duration = Duration::from_secs(4);

/// Offers the machine's data sources to a service that speaks Perfetto's protocol, over a connection to it, as Perfetto's
/// `traced_probes` does: `linux.ftrace`, `linux.process_stats`, `linux.sys_stats` and `linux.system_info`, with their
/// configurations. Each session has its own, several at a time; of the kernel, a set of buffers of its own.
///
/// `log` is told what is not recorded, and why; without the right to the kernel's events, a session has the rest, and its
/// trace says the same.
///
/// ```no_run
/// use std::os::unix::net::UnixStream;
/// use tracebuf_machine::sources::offer_machine;
///
/// let service = UnixStream::connect("/run/perfetto/traced-producer.sock")?;
/// let _offered = offer_machine(service, |line| eprintln!("{line}"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of [`SourceProducer::start`].
pub fn offer_machine(service: UnixStream, log: fn(&str)) -> Result<SourceProducer, SessionError> {
    // What a killed process has left records until somebody removes it.
    if let Ok(top) = Instance::find() {
        Instance::remove_dead(&top);
    }
    let host = MachineHost { proc: Proc::new(), sessions: HashMap::new(), log };
    SourceProducer::start(service, PRODUCER, &[FTRACE, PROCESS_STATS, SYS_STATS, SYSTEM_INFO], host)
}

struct MachineHost {
    proc: Proc,
    sessions: HashMap<u64, SessionSources>,
    log: fn(&str),
}

/// What the sources of a session have in common.
#[derive(Default)]
struct SessionSources {
    /// Threads that the kernel's events name; gone with the last source.
    threads: Weak<ThreadNumbers>,
    has_events: bool,
    has_processes: bool,
}

impl MachineHost {
    fn source(
        &mut self,
        request: &SourceRequest<'_>,
        threads: &ThreadNumbers,
    ) -> Result<Box<dyn DataSource>, String> {
        let session = self.sessions.entry(request.session).or_default();
        let is_elsewhere = pid_namespace() != 0;
        let other_numbers = "processes have other numbers here than in the kernel's events, in a pid namespace of its own: a \
                             session has either linux.ftrace or linux.process_stats";
        match request.name {
            FTRACE if is_elsewhere && session.has_processes => Err(other_numbers.to_owned()),
            FTRACE if is_elsewhere && WantedEvents::chooses_threads(request.config) => {
                Err("tids_to_trace has the kernel's numbers, which are others in a pid namespace of its own"
                    .to_owned())
            }
            FTRACE => {
                let (processors, memory) = processors_and_memory(&self.proc);
                let kib = kernel_buffer(processors, memory).div_ceil(1024);
                // It is the kernel's memory, which no limit of this process counts.
                let most = (memory / 8 / processors.max(1) / 1024).max(kib);
                let WantedEvents { mut options, without } = WantedEvents::of(request.config, [kib, most]);
                if !without.is_empty() {
                    (self.log)(options.told());
                }
                if !is_elsewhere {
                    options = options.tell_threads(threads);
                }
                // All threads that there are now write traces, or wait.
                let own = self.proc.numbers("self/task");
                let source = FtraceSource::new(options.leave_out(own)).map_err(|error| error.to_string())?;
                Ok(Box::new(source))
            }
            PROCESS_STATS if is_elsewhere && session.has_events => Err(other_numbers.to_owned()),
            PROCESS_STATS => {
                let wanted = WantedProcesses::of(request.config);
                Ok(Box::new(ProcessStatsSource::new(self.proc.clone(), threads.clone(), wanted)))
            }
            SYS_STATS => {
                Ok(Box::new(SysStatsSource::new(self.proc.clone(), WantedStats::of(request.config))))
            }
            SYSTEM_INFO => {
                Ok(Box::new(SystemInfoSource::new(self.proc.clone(), wants_interrupts(request.config))))
            }
            _ => Err("there is no such data source".to_owned()),
        }
    }
}

impl SourceHost for MachineHost {
    fn start(&mut self, request: &SourceRequest<'_>, recorder: &Recorder) -> Option<Box<dyn RunningSource>> {
        self.sessions.retain(|_, session| session.threads.strong_count() > 0);
        let known = self.sessions.entry(request.session).or_default();
        let threads = known.threads.upgrade().unwrap_or_default();
        known.threads = Arc::downgrade(&threads);
        let started = self.source(request, &threads).and_then(|source| {
            let thread = SourceThread::start("tracebuf-source", recorder, None, vec![source]);
            let thread = thread.map_err(|error| error.to_string())?;
            match thread.failed().first() {
                Some((_, error)) => Err(error.to_string()),
                None => Ok(thread),
            }
        });
        match started {
            Ok(thread) => {
                if let Some(session) = self.sessions.get_mut(&request.session) {
                    session.has_events |= request.name == FTRACE;
                    session.has_processes |= request.name == PROCESS_STATS;
                }
                Some(Box::new(Running { thread, _threads: threads }))
            }
            Err(why) => {
                let why = format!("{} is not recorded: {why}", request.name);
                (self.log)(&why);
                if request.name == FTRACE {
                    tell(why, recorder);
                }
                None
            }
        }
    }
}

/// Says in the trace why there are no events of the kernel.
fn tell(why: String, recorder: &Recorder) {
    let mut stats = FtraceStats::new(StatsPhase::Start, Vec::new());
    stats.error = why;
    if let Some(mut out) = SourceOutput::new(recorder, None) {
        FtraceReader::write_stats(&stats, &mut |packet| out.bytes(packet));
    }
}

struct Running {
    thread: SourceThread,
    _threads: Arc<ThreadNumbers>,
}

impl RunningSource for Running {
    fn flush(&mut self) {
        // One that takes longer has its say at the next flush, and at the end.
        let _ = self.thread.flush(FLUSH);
    }

    fn clear_state(&mut self) {
        self.thread.tell_again();
    }
}
