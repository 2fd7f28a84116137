//! A thread that runs sources: it starts them, drains each when it is time, and stops them.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use tracebuf_session::parts::made_by;
use tracebuf_session::{Recorder, SessionError, SidePackets};

use super::data_source::{DataSource, SourceOutput};

/// How long sources may take to start: some set up hundreds of events, a millisecond each.
const START: Duration = Duration::from_secs(60);
/// How long they may take to stop: with many processes some have much to tell. One may wait for ever, for a process whose
/// memory is locked.
const STOP: Duration = Duration::from_secs(30);

/// Sources that run on a thread of their own.
///
/// It writes like any thread that records: where the session [waits](tracebuf_session::SessionBuilder::exhaustion) for
/// shared memory, so do the sources. To be stopped before the session, or their last packets go nowhere. Dropping it
/// stops the sources too.
#[derive(Debug)]
pub struct SourceThread {
    tasks: Option<Sender<Task>>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    failed: Vec<(&'static str, io::Error)>,
}

enum Task {
    /// To flush, and then to answer here.
    Flush(SyncSender<()>),
    TellAgain,
}

struct Running {
    source: Box<dyn DataSource>,
    out: SourceOutput,
    due: Instant,
}

impl SourceThread {
    /// Starts sources, in their order, on a thread of this name. They write where the recorder does, and beside the
    /// session's buffers if there is a place. Those that cannot start [are told](Self::failed).
    ///
    /// # Errors
    /// No thread, or no answer of the sources for a minute.
    pub fn start<'s>(
        name: &str,
        recorder: &Recorder,
        side: impl Into<Option<&'s SidePackets>>,
        sources: Vec<Box<dyn DataSource>>,
    ) -> Result<Self, SessionError> {
        let starting = |error| SessionError::io("starting a thread for sources", error);
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = Arc::new(eventfd(0, flags).map_err(|error| starting(error.into()))?);
        let ((tasks, asked), (started, answers)) = (channel(), channel());
        let (recorder, side, woken) = (recorder.clone(), side.into().cloned(), wake.clone());
        let run = move || {
            let mut failed = Vec::new();
            let mut running = Vec::new();
            for mut source in sources {
                let begun = match SourceOutput::new(&recorder, side.clone()) {
                    Some(mut out) => source.start(&mut out).map(|()| out),
                    None => Err(io::Error::other("the session is over, or all its writers are taken")),
                };
                match begun {
                    Ok(out) => running.push(Running { source, out, due: Instant::now() }),
                    Err(error) => failed.push((source.name(), error)),
                }
            }
            let _ = started.send(failed);
            run(&mut running, &asked, &woken);
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run).map_err(starting)?;
        let mut this = Self { tasks: Some(tasks), wake, thread: Some(thread), failed: Vec::new() };
        this.failed = made_by(&answers, START)?;
        Ok(this)
    }

    /// The sources that could not start, and why.
    pub fn failed(&self) -> &[(&'static str, io::Error)] {
        &self.failed
    }

    /// Has all sources write what they have recorded until now.
    ///
    /// # Errors
    /// [`SessionError::Timeout`]; [`SessionError::Stopped`] if the thread has ended, as after a panic.
    pub fn flush(&self, timeout: Duration) -> Result<(), SessionError> {
        let (answer, answered) = sync_channel(1);
        let tasks = self.tasks.as_ref().ok_or(SessionError::Stopped)?;
        tasks.send(Task::Flush(answer)).map_err(|_| SessionError::Stopped)?;
        self.wake();
        made_by(&answered, timeout).map_err(|error| match error {
            SessionError::Timeout => error,
            _ => SessionError::Stopped,
        })
    }

    /// Has all sources [tell again](DataSource::tell_again) what they have told.
    pub fn tell_again(&self) {
        // A thread that has ended says so when it is to flush.
        let _ = self.tasks.as_ref().map(|tasks| tasks.send(Task::TellAgain));
        self.wake();
    }

    /// Stops the sources, in their order, each with all that it has recorded.
    ///
    /// # Errors
    /// [`SessionError::Stopped`] if the thread has ended before, as after a panic: what the sources held of the system
    /// is given back even so. [`SessionError::Timeout`] after half a minute: then the thread ends when the system lets it.
    pub fn stop(mut self) -> Result<(), SessionError> {
        self.end(STOP)
    }

    fn end(&mut self, patience: Duration) -> Result<(), SessionError> {
        self.tasks = None;
        self.wake();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let begun = Instant::now();
        while !thread.is_finished() {
            if begun.elapsed() > patience {
                return Err(SessionError::Timeout);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        thread.join().map_err(|_| SessionError::Stopped)
    }

    fn wake(&self) {
        // Full only if it was woken before.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

impl Drop for SourceThread {
    fn drop(&mut self) {
        let _ = self.end(STOP);
    }
}

fn run(running: &mut [Running], asked: &Receiver<Task>, woken: &OwnedFd) {
    loop {
        match asked.try_recv() {
            Ok(Task::Flush(answer)) => {
                running.iter_mut().for_each(|one| one.source.flush(&mut one.out));
                // It may have given up.
                let _ = answer.send(());
                continue;
            }
            Ok(Task::TellAgain) => {
                running.iter_mut().for_each(|one| {
                    one.source.tell_again();
                    one.due = Instant::now();
                });
                continue;
            }
            Err(TryRecvError::Disconnected) => break,
            Err(TryRecvError::Empty) => {}
        }
        let due = running.iter().map(|one| one.due).min();
        let ready = wait(running, due, woken);
        let now = Instant::now();
        for (one, is_ready) in running.iter_mut().zip(ready) {
            if is_ready || now >= one.due {
                let pause = one.source.drain(&mut one.out);
                one.due = Instant::now() + pause;
            }
        }
    }
    running.iter_mut().for_each(|one| one.source.stop(&mut one.out));
}

/// Waits until it is time, or something is to be done; returns which sources have something.
fn wait(running: &[Running], due: Option<Instant>, woken: &OwnedFd) -> Vec<bool> {
    let pause = due.map(|due| due.saturating_duration_since(Instant::now()));
    let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
    let files: Vec<_> = running.iter().map(|one| one.source.wakes_on()).collect();
    let mut polled: Vec<_> =
        files.iter().flatten().map(|file| PollFd::from_borrowed_fd(*file, PollFlags::IN)).collect();
    polled.push(PollFd::from_borrowed_fd(woken.as_fd(), PollFlags::IN));
    // An interruption is like the end of the time: what is due is looked up again.
    let _ = poll(&mut polled, pause.as_ref());
    let is_ready = |file: &PollFd<'_>| file.revents().contains(PollFlags::IN);
    let is_at_fault = |file: &PollFd<'_>| file.revents().intersects(PollFlags::ERR | PollFlags::NVAL);
    let mut ready: Vec<bool> = polled.iter().map(is_ready).collect();
    if polled.iter().any(is_at_fault) && !ready.contains(&true) {
        // A file that only tells of a fault, as of a processor that was never on, would do so for ever.
        let (places, mut sound): (Vec<usize>, Vec<PollFd<'_>>) =
            polled.into_iter().enumerate().filter(|(_, file)| !is_at_fault(file)).unzip();
        let _ = poll(&mut sound, pause.as_ref());
        for (place, file) in places.into_iter().zip(&sound) {
            ready[place] = is_ready(file);
        }
    }
    let _ = rustix::io::read(woken, &mut [0; 8]);
    let mut at = ready.into_iter();
    files.iter().map(|files| at.by_ref().take(files.len()).fold(false, |any, is| any | is)).collect()
}

#[cfg(test)]
mod tests;
