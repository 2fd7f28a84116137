//! A thread for each file: a slow disk, or a pipe that nobody reads, keeps nobody else waiting.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use tracebuf::proto::varint;
use tracebuf_service::FileToken;

/// What a file's thread is to do.
enum Job {
    Write(Vec<u8>),
    Sync,
    Finish,
}

/// What it has done.
#[derive(Debug)]
pub(crate) enum Done {
    Written(usize),
    Failed(String),
    Finished,
}

/// All files that are written, and what has become of them.
#[derive(Debug)]
pub(crate) struct Outputs {
    said: Sender<(FileToken, Done)>,
    hear: Receiver<(FileToken, Done)>,
    bell: Arc<OwnedFd>,
    files: std::collections::HashMap<u64, Sender<Job>>,
}

impl Outputs {
    pub(crate) fn new() -> io::Result<Self> {
        let (said, hear) = mpsc::channel();
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        Ok(Self { said, hear, bell, files: std::collections::HashMap::new() })
    }

    /// Readable when there is something to hear.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.bell
    }

    /// What was done since the last time.
    pub(crate) fn heard(&mut self) -> Vec<(FileToken, Done)> {
        let mut count = [0; 8];
        // Not rung: there is nothing, or it comes with the next.
        let _ = rustix::io::read(&*self.bell, &mut count);
        let all: Vec<_> = self.hear.try_iter().collect();
        for (token, done) in &all {
            if matches!(done, Done::Finished) {
                self.files.remove(&token.0);
            }
        }
        all
    }

    /// Whether a file has a thread.
    pub(crate) fn has(&self, token: FileToken) -> bool {
        self.files.contains_key(&token.0)
    }

    /// Starts a thread for a file.
    pub(crate) fn add(&mut self, token: FileToken, file: OwnedFd) {
        let (jobs, todo) = mpsc::channel();
        let (said, bell) = (self.said.clone(), self.bell.clone());
        let say = move |done| {
            let _ = said.send((token, done));
            let _ = rustix::io::write(&*bell, &1_u64.to_ne_bytes());
        };
        let work = {
            let say = say.clone();
            move || work(file.into(), &todo, say)
        };
        match thread::Builder::new().name("tracebuf-file".into()).spawn(work) {
            Ok(_) => _ = self.files.insert(token.0, jobs),
            Err(error) => {
                say(Done::Failed(format!("no thread: {error}")));
                say(Done::Finished);
            }
        }
    }

    fn job(&self, token: FileToken, job: Job) {
        if let Some(jobs) = self.files.get(&token.0) {
            // One whose thread is gone has said so.
            let _ = jobs.send(job);
        }
    }

    pub(crate) fn write(&self, token: FileToken, bytes: Vec<u8>) {
        self.job(token, Job::Write(bytes));
    }

    pub(crate) fn sync(&self, token: FileToken) {
        self.job(token, Job::Sync);
    }

    pub(crate) fn finish(&self, token: FileToken) {
        self.job(token, Job::Finish);
    }
}

fn work(mut file: File, todo: &Receiver<Job>, say: impl Fn(Done)) {
    let mut has_failed = false;
    let failed = |error: io::Error, has_failed: &mut bool| {
        if !std::mem::replace(has_failed, true) {
            say(Done::Failed(error.to_string()));
        }
    };
    while let Ok(job) = todo.recv() {
        match job {
            Job::Write(_) if has_failed => {}
            Job::Write(bytes) => match write(&mut file, &bytes) {
                Ok(()) => say(Done::Written(bytes.len())),
                Err(error) => failed(error, &mut has_failed),
            },
            Job::Sync => {
                if let Err(error) = sync(&file) {
                    failed(error, &mut has_failed);
                }
            }
            Job::Finish => {
                if let Err(error) = sync(&file) {
                    failed(error, &mut has_failed);
                }
                break;
            }
        }
    }
    drop(file);
    say(Done::Finished);
}

fn sync(file: &File) -> io::Result<()> {
    match file.sync_data() {
        // A pipe, or something else that is not on a disk.
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::ROFS)) => Ok(()),
        other => other,
    }
}

/// Writes all, or leaves as many whole packets as there was room for.
fn write(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while let Some(left @ [_, ..]) = bytes.get(written..) {
        match file.write(left) {
            Ok(0) => return cut(file, bytes, written, io::ErrorKind::WriteZero.into()),
            Ok(taken) => written += taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(file)?,
            Err(error) => return cut(file, bytes, written, error),
        }
    }
    Ok(())
}

/// A consumer may have given a pipe that does not wait.
fn wait(file: &File) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    match poll(&mut [PollFd::new(file, PollFlags::OUT)], None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Cuts a file back to its last whole packet. What cannot be cut, such as a pipe, stays as it is.
fn cut(file: &mut File, bytes: &[u8], written: usize, error: io::Error) -> io::Result<()> {
    let torn = written - whole_packets(bytes, written);
    if torn > 0
        && let Ok(end) = file.stream_position()
    {
        let end = end.saturating_sub(torn as u64);
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
    }
    Err(error)
}

/// Bytes of the packets that lie wholly within the first `len` bytes of a piece.
fn whole_packets(bytes: &[u8], len: usize) -> usize {
    let mut whole = 0;
    while let Some((size, packet)) = bytes.get(whole + 1..).and_then(varint::split) {
        let end = (bytes.len() - packet.len()).saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
        if end > len {
            break;
        }
        whole = end;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_whole_or_are_cut_off() {
        let bytes = b"\x0A\x02ab\x0A\x01c\x0A\x03def";
        let whole: Vec<usize> = (0..=bytes.len()).map(|len| whole_packets(bytes, len)).collect();
        assert_eq!(whole, [0, 0, 0, 0, 4, 4, 4, 7, 7, 7, 7, 7, 12]);
    }

    #[test]
    fn a_file_that_takes_no_more_ends_in_a_whole_packet_and_says_why_once() {
        // Nothing can be written into this one.
        let mut outputs = Outputs::new().expect("a bell");
        let full = File::options().write(true).open("/dev/full").expect("it is there");
        outputs.add(FileToken(1), full.into());
        (0..3).for_each(|_| outputs.write(FileToken(1), b"\x0A\x01c".to_vec()));
        outputs.finish(FileToken(1));
        let mut said = Vec::new();
        while outputs.has(FileToken(1)) {
            said.extend(outputs.heard().into_iter().map(|(_, done)| done));
            thread::yield_now();
        }
        assert!(
            matches!(&said[..], [Done::Failed(why), Done::Finished] if why.contains("space")),
            "{said:?}"
        );
    }
}
