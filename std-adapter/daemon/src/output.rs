//! A thread for each file: a slow disk, or a pipe that nobody reads, keeps nobody else waiting.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use tracebuf_service::FileToken;

use crate::trace_file::{Lent, TraceFile};

/// What a file's thread is to do.
enum Job {
    Write(Vec<u8>),
    /// To lend the file, as it is then, to another thread.
    Lend(Sender<Lent>),
    /// To add what a file that is lent has.
    Copy(Receiver<Lent>),
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
    /// Whether each can be read, and what its thread is to do.
    files: std::collections::HashMap<u64, (bool, Sender<Job>)>,
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
        let file = TraceFile::new(file.into());
        let can_be_lent = file.can_be_lent();
        let work = {
            let say = say.clone();
            move || work(file, &todo, say)
        };
        match thread::Builder::new().name("tracebuf-file".into()).spawn(work) {
            Ok(_) => _ = self.files.insert(token.0, (can_be_lent, jobs)),
            Err(error) => {
                say(Done::Failed(format!("no thread: {error}")));
                say(Done::Finished);
            }
        }
    }

    fn job(&self, token: FileToken, job: Job) {
        if let Some((_, jobs)) = self.files.get(&token.0) {
            // One whose thread is gone has said so.
            let _ = jobs.send(job);
        }
    }

    pub(crate) fn write(&self, token: FileToken, bytes: Vec<u8>) {
        self.job(token, Job::Write(bytes));
    }

    /// Adds what one file has of a trace to another, on the thread of that; the first goes on meanwhile.
    pub(crate) fn copy(&self, from: FileToken, to: FileToken) {
        let (lend, lent) = mpsc::channel();
        match self.files.get(&from.0) {
            // Its thread may be writing for ever, if nobody reads.
            Some((false, _)) => _ = lend.send(Err(Errno::SPIPE.into())),
            _ => self.job(from, Job::Lend(lend)),
        }
        self.job(to, Job::Copy(lent));
    }

    pub(crate) fn sync(&self, token: FileToken) {
        self.job(token, Job::Sync);
    }

    pub(crate) fn finish(&self, token: FileToken) {
        self.job(token, Job::Finish);
    }
}

fn work(mut file: TraceFile, todo: &Receiver<Job>, say: impl Fn(Done)) {
    let mut has_failed = false;
    let failed = |error: io::Error, has_failed: &mut bool| {
        if !std::mem::replace(has_failed, true) {
            say(Done::Failed(error.to_string()));
        }
    };
    while let Ok(job) = todo.recv() {
        match job {
            Job::Write(_) if has_failed => {}
            Job::Write(bytes) => {
                let len = bytes.len();
                match file.write(bytes) {
                    Ok(()) => say(Done::Written(len)),
                    Err(error) => failed(error, &mut has_failed),
                }
            }
            Job::Lend(to) => {
                let lent = match has_failed {
                    true => Err(io::Error::other("the file to be copied could not be written")),
                    false => file.lend(),
                };
                // Who wanted it may be gone.
                let _ = to.send(lent);
            }
            Job::Copy(..) if has_failed => {}
            Job::Copy(lent) => {
                let gone = |_| Err(io::Error::other("the file to be copied is closed"));
                let copied = lent.recv().unwrap_or_else(gone);
                if let Err(error) = copied.and_then(|lent| file.copy(lent)) {
                    failed(error, &mut has_failed);
                }
            }
            Job::Sync => {
                if let Err(error) = file.sync() {
                    failed(error, &mut has_failed);
                }
            }
            Job::Finish => break,
        }
    }
    if let Err(error) = file.finish() {
        failed(error, &mut has_failed);
    }
    say(Done::Finished);
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    /// What becomes of a file, until it is finished.
    fn until_finished(outputs: &mut Outputs, file: FileToken) -> Vec<(FileToken, Done)> {
        let mut said = Vec::new();
        while outputs.has(file) {
            said.extend(outputs.heard());
            thread::yield_now();
        }
        said
    }

    #[test]
    fn a_file_that_takes_no_more_ends_in_a_whole_packet_and_says_why_once() {
        // Nothing can be written into this one.
        let mut outputs = Outputs::new().expect("a bell");
        let full = File::options().write(true).open("/dev/full").expect("it is there");
        outputs.add(FileToken(1), full.into());
        (0..3).for_each(|_| outputs.write(FileToken(1), b"\x0A\x01c".to_vec()));
        outputs.finish(FileToken(1));
        let said = until_finished(&mut outputs, FileToken(1));
        assert!(matches!(&said[..], [(_, Done::Failed(why)), (_, Done::Finished)] if why.contains("space")));
    }

    #[test]
    fn a_copy_has_what_was_written_before_it_and_the_first_file_goes_on() {
        let folder = std::env::temp_dir().join(format!("tracebuf-daemon-copy-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let open = |name: &str| {
            File::options().read(true).write(true).create(true).truncate(true).open(folder.join(name))
        };
        let mut outputs = Outputs::new().expect("a bell");
        let [from, to, late] = [1, 2, 3].map(FileToken);
        // What was there before is not the trace's.
        let mut first = open("from").expect("a file");
        first.write_all(b"before").expect("room");
        outputs.add(from, first.into());
        outputs.add(to, open("to").expect("a file").into());
        let long = b"\x0A\x02ab".repeat(200_000);
        outputs.write(from, long.clone());
        outputs.copy(from, to);
        outputs.write(from, b"\x0A\x01c".to_vec());
        outputs.write(to, b"\x0A\x01d".to_vec());
        outputs.finish(to);
        let said = until_finished(&mut outputs, to);
        assert!(!said.iter().any(|(_, done)| matches!(done, Done::Failed(_))), "{said:?}");
        outputs.finish(from);
        until_finished(&mut outputs, from);
        assert!(std::fs::read(folder.join("to")).expect("it") == [&long[..], b"\x0A\x01d"].concat());
        assert!(
            std::fs::read(folder.join("from")).expect("it") == [b"before", &long[..], b"\x0A\x01c"].concat()
        );
        // One that is closed cannot be copied any more.
        outputs.add(late, open("late").expect("a file").into());
        outputs.copy(from, late);
        outputs.write(late, b"\x0A\x01d".to_vec());
        outputs.finish(late);
        let said = until_finished(&mut outputs, late);
        assert!(matches!(&said[..], [(_, Done::Failed(why)), (_, Done::Finished)] if why.contains("closed")));
        assert_eq!(std::fs::metadata(folder.join("late")).expect("it").len(), 0);
        std::fs::remove_dir_all(folder).expect("it is there");
    }

    #[test]
    fn a_pipe_cannot_be_copied_and_goes_on_and_a_full_disk_keeps_nothing_of_a_copy() {
        let mut outputs = Outputs::new().expect("a bell");
        let [pipe, to, file, full] = [1, 2, 3, 4].map(FileToken);
        let (mut read, write) = io::pipe().expect("a pipe");
        outputs.add(pipe, OwnedFd::from(write));
        let path = std::env::temp_dir().join(format!("tracebuf-daemon-pipe-{}", std::process::id()));
        let open = || File::options().read(true).write(true).create(true).truncate(true).open(&path);
        outputs.add(to, open().expect("a file").into());
        outputs.write(pipe, b"\x0A\x01c".to_vec());
        outputs.copy(pipe, to);
        outputs.write(pipe, b"\x0A\x01d".to_vec());
        outputs.finish(to);
        let said = until_finished(&mut outputs, to);
        let is_of_copy = |(file, done): &&(FileToken, Done)| *file == to && matches!(done, Done::Failed(_));
        assert_eq!(said.iter().filter(is_of_copy).count(), 1, "{said:?}");
        // Nor does a copy wait for whoever is to read.
        let (stuck, late) = (FileToken(5), FileToken(6));
        let (nobody_reads, write) = io::pipe().expect("a pipe");
        outputs.add(stuck, OwnedFd::from(write));
        outputs.write(stuck, b"\x0A\x01c".repeat(1 << 20));
        outputs.add(late, open().expect("a file").into());
        outputs.copy(stuck, late);
        outputs.finish(late);
        let said = until_finished(&mut outputs, late);
        assert!(said.iter().any(|(of, done)| *of == late && matches!(done, Done::Failed(_))), "{said:?}");
        drop(nobody_reads);
        outputs.finish(pipe);
        until_finished(&mut outputs, pipe);
        let mut all = Vec::new();
        io::Read::read_to_end(&mut read, &mut all).expect("its end");
        assert_eq!(all, b"\x0A\x01c\x0A\x01d");
        outputs.add(file, open().expect("a file").into());
        outputs.add(full, File::options().write(true).open("/dev/full").expect("it is there").into());
        outputs.write(file, b"\x0A\x01c".to_vec());
        outputs.copy(file, full);
        outputs.finish(full);
        let said = until_finished(&mut outputs, full);
        assert!(said.iter().any(|(of, done)| *of == full && matches!(done, Done::Failed(_))), "{said:?}");
        outputs.finish(file);
        until_finished(&mut outputs, file);
        std::fs::remove_file(path).expect("it is there");
    }
}
