//! A thread for each file: a slow disk, or a pipe that nobody reads, keeps nobody else waiting.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use tracebuf::proto::varint;
use tracebuf_service::FileToken;

/// Bytes that are copied at once.
const COPIED: usize = 256 << 10;

/// What a file's thread is to do.
enum Job {
    Write(Vec<u8>),
    /// To lend the file, as it is then, to another thread.
    Lend(Sender<Lent>),
    /// To copy the last bytes of a file that is lent.
    Copy(Receiver<Lent>, u64),
    Sync,
    Finish,
}

/// A file to read from, and where it ends.
type Lent = io::Result<(File, u64)>;

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

    /// Copies the last bytes of one file into another, on the thread of that; the first goes on meanwhile.
    pub(crate) fn copy(&self, from: FileToken, to: FileToken, bytes: u64) {
        let (lend, lent) = mpsc::channel();
        self.job(from, Job::Lend(lend));
        self.job(to, Job::Copy(lent, bytes));
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
            Job::Lend(to) => {
                let lent = match has_failed {
                    true => Err(io::Error::other("the file to be copied could not be written")),
                    false => lent(&mut file),
                };
                // Who wanted it may be gone.
                let _ = to.send(lent);
            }
            Job::Copy(..) if has_failed => {}
            Job::Copy(lent, bytes) => {
                let gone = |_| Err(io::Error::other("the file to be copied is closed"));
                let copied = lent.recv().unwrap_or_else(gone);
                if let Err(error) = copied.and_then(|(from, end)| copy(&from, end, bytes, &mut file)) {
                    failed(error, &mut has_failed);
                }
            }
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

fn lent(file: &mut File) -> Lent {
    let end = file.stream_position()?;
    Ok((file.try_clone()?, end))
}

/// Copies the bytes before the end of one file into another, or leaves nothing there.
fn copy(from: &File, end: u64, bytes: u64, to: &mut File) -> io::Result<()> {
    let begin = to.stream_position();
    let copied = copy_all(from, end.saturating_sub(bytes), end, to);
    if let (Err(_), Ok(begin)) = (&copied, begin) {
        to.set_len(begin).and_then(|()| to.seek(SeekFrom::Start(begin)))?;
    }
    copied
}

fn copy_all(from: &File, mut at: u64, end: u64, to: &mut File) -> io::Result<()> {
    let mut piece = vec![0; COPIED];
    while at < end {
        let most = usize::try_from(end - at).map_or(COPIED, |left| left.min(COPIED));
        let read = match from.read_at(piece.get_mut(..most).unwrap_or_default(), at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        put(to, piece.get(..read).unwrap_or_default()).map_err(|(_, error)| error)?;
        at += read as u64;
    }
    Ok(())
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
    put(file, bytes).or_else(|(written, error)| cut(file, bytes, written, error))
}

/// Writes all, or says how much it was, and why not more.
fn put(file: &mut File, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while let Some(left @ [_, ..]) = bytes.get(written..) {
        match file.write(left) {
            Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
            Ok(taken) => written += taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(file).map_err(|error| (written, error))?;
            }
            Err(error) => return Err((written, error)),
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
        outputs.copy(from, to, long.len() as u64);
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
        outputs.copy(from, late, 3);
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
        outputs.copy(pipe, to, 3);
        outputs.write(pipe, b"\x0A\x01d".to_vec());
        outputs.finish(to);
        let said = until_finished(&mut outputs, to);
        let is_of_copy = |(file, done): &&(FileToken, Done)| *file == to && matches!(done, Done::Failed(_));
        assert_eq!(said.iter().filter(is_of_copy).count(), 1, "{said:?}");
        outputs.finish(pipe);
        until_finished(&mut outputs, pipe);
        let mut all = Vec::new();
        io::Read::read_to_end(&mut read, &mut all).expect("its end");
        assert_eq!(all, b"\x0A\x01c\x0A\x01d");
        outputs.add(file, open().expect("a file").into());
        outputs.add(full, File::options().write(true).open("/dev/full").expect("it is there").into());
        outputs.write(file, b"\x0A\x01c".to_vec());
        outputs.copy(file, full, 3);
        outputs.finish(full);
        let said = until_finished(&mut outputs, full);
        assert!(said.iter().any(|(of, done)| *of == full && matches!(done, Done::Failed(_))), "{said:?}");
        outputs.finish(file);
        until_finished(&mut outputs, file);
        std::fs::remove_file(path).expect("it is there");
    }
}
