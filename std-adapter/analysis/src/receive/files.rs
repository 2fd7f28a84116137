//! The trace files of what is received: one for each start of the device.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use tracebuf::proto::reader::Fields;
use tracebuf::proto::{TraceFileFault, TracePackets};
use tracebuf_std::system::for_one_writer;
use tracebuf_std::whole_file::about;

use super::output::{TraceOutput, open_if_free};

/// The most files: each is open until the end, and a line may have nothing but restarts on it.
const MAX_FILES: usize = 100;
/// The most names that are tried for a file.
const MAX_NAMES: u64 = 1000;
const NONE_FREE: &str = "that file, and those with the next 999 numbers, are no traces that can be replaced";
/// Bytes of a file that show whether it is a trace.
const BEGINNING: u64 = 1 << 16;

/// The files so far.
pub(super) struct Files {
    first: TraceOutput,
    others: Vec<TraceOutput>,
    /// The number in the last one's name.
    number: u64,
    can_divide: bool,
    /// Packets for which there was no file.
    refused: u64,
}

impl Files {
    /// Begins with this file as the first; the only one unless it is to be divided.
    pub(super) fn to(path: &Path, divides: bool) -> io::Result<Self> {
        let first = TraceOutput::to(path).map_err(|error| about_writing(path, &error))?;
        let can_divide = divides && can_divide(path);
        Ok(Self { first, others: Vec::new(), number: 1, can_divide, refused: 0 })
    }

    /// Takes a packet of the start with this number. Starts are numbered from 1, and none is left out.
    pub(super) fn packet(&mut self, start: u64, packet: &[u8]) -> io::Result<()> {
        // Which of the others.
        let at = usize::try_from(start).unwrap_or(MAX_FILES).min(MAX_FILES).checked_sub(2);
        let Some(at) = at.filter(|_| self.can_divide) else {
            return on(&mut self.first, |file| file.packet(packet));
        };
        if at == self.others.len() {
            let next = self.next_file().inspect_err(|_| self.refused += 1)?;
            self.others.push(next);
        }
        match self.others.get_mut(at) {
            Some(file) => on(file, |file| file.packet(packet)),
            None => {
                self.refused += 1;
                let skipped = format!("a packet of start {start} came before any of the start before");
                Err(about_writing(self.first.path(), &io::Error::new(ErrorKind::InvalidInput, skipped)))
            }
        }
    }

    /// Makes a file beside the first; it may replace a trace, but nothing else.
    fn next_file(&mut self) -> io::Result<TraceOutput> {
        // From then on it is locked, whatever other name leads to it. An error is told when there is more for it.
        let _ = self.first.flush();
        let first = self.first.path();
        for number in (self.number + 1..).take(MAX_NAMES as usize) {
            let path = numbered(first, number);
            let is_there = fs::symlink_metadata(&path).is_ok();
            let opened = match is_there {
                true if !is_trace(&path) => continue,
                true => open_if_free(&path),
                // Not in place of what somebody else now makes under that name.
                false => for_one_writer().create_new(true).open(&path),
            };
            match opened.and_then(|file| TraceOutput::into_opened(path.clone(), file)) {
                Ok(file) => {
                    self.number = number;
                    return Ok(file);
                }
                // It is protected, or in use: a session's, or another line's.
                Err(_) if is_there => {}
                Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::ResourceBusy) => {}
                Err(error) => return Err(about_writing(&path, &error)),
            }
        }
        let taken = io::Error::new(ErrorKind::AlreadyExists, NONE_FREE);
        Err(about_writing(&numbered(first, self.number + 1), &taken))
    }

    /// Writes what was gathered for any of them.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let mut result = Ok(());
        for file in std::iter::once(&mut self.first).chain(&mut self.others) {
            // Where one has no room, another may.
            result = result.and(on(file, TraceOutput::flush));
        }
        result
    }

    /// Packets in the files, and those that are not in them, as far as is known.
    pub(super) fn packets(&self) -> (u64, u64) {
        let add = |sum: (u64, u64), file: &TraceOutput| {
            let (written, unwritten) = file.packets();
            (sum.0 + written, sum.1 + unwritten)
        };
        self.all().fold((0, self.refused), add)
    }

    /// Their paths.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.all().map(|file| file.path().to_owned()).collect()
    }

    fn all(&self) -> impl Iterator<Item = &TraceOutput> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// Prefixes an error with the name of the file that was to be written.
fn about_writing(path: &Path, error: &io::Error) -> io::Error {
    about(path, &io::Error::new(error.kind(), format!("cannot be written: {error}")))
}

/// Does something with a file; an error tells its name.
fn on(file: &mut TraceOutput, what: impl FnOnce(&mut TraceOutput) -> io::Result<()>) -> io::Result<()> {
    what(file).map_err(|error| about_writing(file.path(), &error))
}

/// `trace-2.pftrace` for `trace.pftrace`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Returns true if files can lie beside this one: it is a file, or is to become one, and its name is not one that the
/// system gives to an open file, such as `/dev/stdout`.
fn can_divide(path: &Path) -> bool {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return false;
    }
    let mut path = path.to_owned();
    // As many links as Linux follows.
    for _ in 0..40 {
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let folder = fs::canonicalize(folder).unwrap_or_default();
        if folder.starts_with("/proc") || folder.starts_with("/dev") && !folder.starts_with("/dev/shm") {
            return false;
        }
        let Ok(target) = fs::read_link(&path) else { return true };
        path.pop();
        path.push(target);
    }
    false
}

/// Returns true if a file has a trace, or nothing, in it: nobody asked to have anything else replaced.
fn is_trace(path: &Path) -> bool {
    if !fs::metadata(path).is_ok_and(|there| there.is_file()) {
        return false;
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BEGINNING).read_to_end(&mut bytes));
    if read.is_err() {
        return false;
    }
    let mut count = 0;
    for packet in TracePackets::new(&bytes) {
        match packet {
            // Other files may begin with what could be a packet's tag.
            Ok(packet) if is_message(packet) => count += 1,
            // Cut short by the file's end, or by reading no further.
            Err(error) if error.fault == TraceFileFault::Truncated => {}
            _ => return false,
        }
    }
    count > 0 || bytes.is_empty()
}

/// Returns true if bytes are fields and nothing else.
fn is_message(bytes: &[u8]) -> bool {
    let mut fields = Fields::of(bytes);
    fields.by_ref().for_each(drop);
    fields.is_at_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet of sequence 2, as it is in a file.
    const PACKET: &[u8] = &[0x0A, 2, 0x50, 2];

    /// Empty, and gone in the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("tracebuf-{name}-{}", std::process::id()));
            // A killed process of the same number may have left it.
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).expect("a folder");
            Self(path)
        }

        fn file(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_received_into_a_file_is_not_lost_to_another_line() {
        let folder = Folder::new("two-lines");
        let mut second = Files::to(&folder.file("board-2.pftrace"), true).expect("a file");
        second.packet(1, PACKET).and_then(|()| second.flush()).expect("room");
        let mut first = Files::to(&folder.file("board.pftrace"), true).expect("a file");
        (1..=3).try_for_each(|start| first.packet(start, PACKET)).expect("room");
        let paths = ["board.pftrace", "board-3.pftrace", "board-4.pftrace"].map(|name| folder.file(name));
        assert_eq!(first.paths(), paths);
        assert!(Files::to(&paths[2], true).is_err(), "it is in use, though it has nothing in it yet");
        second.packet(1, PACKET).and_then(|()| second.flush()).expect("room");
        assert_eq!(fs::read(folder.file("board-2.pftrace")).expect("it is there"), PACKET.repeat(2));
        first.flush().expect("room");
        assert!(paths.iter().all(|path| fs::read(path).expect("it is there") == PACKET));
        // Afterwards it is a trace like others.
        drop(second);
        let mut again = Files::to(&folder.file("board.pftrace"), true);
        assert!(again.is_err(), "it is in use");
        drop(first);
        again = Files::to(&folder.file("board.pftrace"), true);
        let mut again = again.expect("it is free");
        again.packet(2, PACKET).expect("room");
        assert_eq!(again.paths()[1], folder.file("board-2.pftrace"));
    }

    #[test]
    fn a_packet_for_which_there_can_be_no_file_yet_is_an_error_and_is_counted() {
        let folder = Folder::new("skipped");
        let mut files = Files::to(&folder.file("a.pftrace"), true).expect("a file");
        files.packet(1, PACKET).expect("room");
        assert!(files.packet(3, PACKET).is_err());
        files.flush().expect("room");
        assert_eq!((files.packets(), files.paths().len()), ((1, 1), 1));
        (2..=3).try_for_each(|start| files.packet(start, PACKET)).expect("room");
        assert_eq!(files.paths().len(), 3);
    }

    #[test]
    fn only_what_is_a_trace_as_far_as_it_goes_is_taken_for_one() {
        let folder = Folder::new("traces");
        let long = PACKET.repeat(BEGINNING as usize / PACKET.len() + 1);
        let whole_and_begun = [PACKET, &[0x0A, 9, 0x50]].concat();
        for bytes in [b"", PACKET, &PACKET.repeat(3), &whole_and_begun, &long] {
            fs::write(folder.file("trace"), bytes).expect("room");
            assert!(is_trace(&folder.file("trace")), "{:?}", &bytes[..bytes.len().min(9)]);
        }
        // Other packets, no whole one, none, and no fields in one.
        let [text, fields] = [&b"text"[..], b"\n\x03abc"].map(|end| [PACKET, end].concat());
        for bytes in [&b"text"[..], &[0x0A, 9, 0x50], &[0x0A], b"\n\x03abc", &text, &fields] {
            fs::write(folder.file("other"), bytes).expect("room");
            assert!(!is_trace(&folder.file("other")), "{bytes:?}");
        }
        assert!(!is_trace(&folder.0) && !is_trace(&folder.file("none")));
    }
}
