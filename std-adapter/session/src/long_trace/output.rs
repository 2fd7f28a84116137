//! The thread that writes a long trace's file.

use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::Progress;
use crate::export::{PIECE, Piece};
use crate::region_file::Slot;
use tracebuf_std::display::Count;
use tracebuf_std::system::is_removed;

pub(super) enum Message {
    Piece(Piece),
    /// A piece of a buffer in a file: it stays there until it is in this file. With the number of its packets.
    Slot(Slot, u64),
    Sync,
}

const RETRY: Duration = Duration::from_millis(100);

pub(super) struct Output {
    file: File,
    write: fn(&File, &[u8]) -> io::Result<usize>,
    cut: fn(&File, u64) -> io::Result<()>,
    sync_data: fn(&File) -> io::Result<()>,
    /// Bytes of whole packets: the length of a regular file that is not torn.
    good: u64,
    /// Whether a part of a piece may lie after these. Nothing that came after that could be read.
    is_torn: bool,
    /// Whether something was given up. What came after it would leave a hole that nobody sees.
    gave_up: bool,
    /// Takes back the memory of each piece. If it went to the system, it would be asked for again, page by page.
    written: Sender<Vec<u8>>,
}

pub(super) fn empty(file: &File) -> io::Result<()> {
    // A pipe or a device has nothing in it.
    if file.metadata()?.is_file() { cut(file, 0) } else { Ok(()) }
}

impl Output {
    pub(super) fn new(file: File, written: Sender<Vec<u8>>) -> Self {
        let write = |mut file: &File, bytes: &[u8]| file.write(bytes);
        let sync_data = File::sync_data;
        Self { file, write, cut, sync_data, good: 0, is_torn: false, gave_up: false, written }
    }

    pub(super) fn run(&mut self, messages: impl IntoIterator<Item = Message>, progress: &Progress) {
        for message in messages {
            match message {
                Message::Piece(mut piece) => {
                    self.write(&piece.bytes, piece.packets, progress);
                    piece.bytes.clear();
                    // Otherwise one large packet's memory would be kept for every piece to come.
                    piece.bytes.shrink_to(2 * PIECE);
                    // If nothing takes it, no more pieces come.
                    let _ = self.written.send(piece.bytes);
                }
                Message::Slot(slot, packets) => {
                    if !self.gave_up {
                        self.see_length(progress);
                        slot.goes_to(self.good);
                    }
                    match self.write(slot.bytes(), packets, progress) {
                        true => slot.written(),
                        false => slot.give_up(),
                    }
                }
                Message::Sync => {
                    if let Err(error) = self.sync() {
                        progress.set_lasting_error(format!("cannot sync: {error}"));
                    }
                }
            }
        }
    }

    /// Writes all of it; or, at the end of the session, perhaps nothing: false.
    fn write(&mut self, bytes: &[u8], packets: u64, progress: &Progress) -> bool {
        let mut taken = 0;
        while !self.gave_up {
            let last_try = progress.finishing.load(Ordering::Relaxed);
            match self.try_to_write(bytes, &mut taken, progress) {
                Ok(()) => {
                    self.good += bytes.len() as u64;
                    progress.bytes.store(self.good, Ordering::Relaxed);
                    progress.packets.fetch_add(packets, Ordering::Relaxed);
                    progress.errors().write =
                        is_removed(&self.file).then(|| "the file was removed".to_owned());
                    return true;
                }
                Err(error) => {
                    let mut said = error.to_string();
                    // At once, for those who read the file meanwhile, and because this may be the last try.
                    if !std::mem::replace(&mut self.is_torn, true)
                        && let Err(error) = self.mend(&mut taken)
                    {
                        said = format!("{said}; {error}");
                    }
                    progress.errors().write = Some(said);
                    self.gave_up = last_try;
                    if !last_try {
                        thread::sleep(RETRY);
                    }
                }
            }
        }
        progress.given_up.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        false
    }

    /// Writes what was not yet taken, after what is whole.
    fn try_to_write(&mut self, bytes: &[u8], taken: &mut usize, progress: &Progress) -> io::Result<()> {
        if self.is_torn {
            self.mend(taken)?;
        }
        self.see_length(progress);
        while let Some(rest) = bytes.get(*taken..).filter(|rest| !rest.is_empty()) {
            match (self.write)(&self.file, rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => *taken += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// What is written next goes to the file's end. That may have moved, as after `> trace`: writing goes on there.
    fn see_length(&mut self, progress: &Progress) {
        let file = self.file.metadata().ok().filter(Metadata::is_file);
        // What lies after what is whole is this session's own, if it is torn.
        let is_other = |len: &u64| !self.is_torn && *len != self.good;
        let Some(len) = file.map(|file| file.len()).filter(is_other) else { return };
        let good = Count(std::mem::replace(&mut self.good, len), "byte");
        progress.bytes.store(len, Ordering::Relaxed);
        progress.set_lasting_error(format!("somebody else changed the file: of {good} it has {len}"));
        if len == 0 {
            progress.packets.store(0, Ordering::Relaxed);
        }
    }

    /// Takes back what was written of a piece that did not go in whole. A pipe or a device keeps that part.
    fn mend(&mut self, taken: &mut usize) -> io::Result<()> {
        let cut = || {
            let file = self.file.metadata()?;
            if file.is_file() && file.len() > self.good {
                (self.cut)(&self.file, self.good)?;
            }
            Ok(file.is_file())
        };
        let is_cut = cut().map_err(|error: io::Error| {
            io::Error::new(error.kind(), format!("a piece that went in in part cannot be cut off: {error}"))
        })?;
        if is_cut {
            *taken = 0;
        }
        self.is_torn = false;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        match (self.sync_data)(&self.file) {
            // A pipe or a device: there is nothing to sync.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            other => other,
        }
    }
}

fn cut(mut file: &File, len: u64) -> io::Result<()> {
    file.set_len(len)?;
    file.seek(SeekFrom::Start(len)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc::channel;
    use std::thread::LocalKey;

    use super::*;
    use tracebuf_std::system::{NULL_DEVICE, for_one_writer};

    thread_local! {
        /// Calls that are still to succeed, and then those that are to fail.
        static WRITES: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
        static CUTS: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    }

    fn fails(calls: &'static LocalKey<Cell<(u32, u32)>>) -> bool {
        let (well, ill) = calls.get();
        calls.set(if well > 0 { (well - 1, ill) } else { (0, ill.saturating_sub(1)) });
        well == 0 && ill > 0
    }

    /// Something that takes everything.
    fn nowhere() -> File {
        std::fs::OpenOptions::new().write(true).open(NULL_DEVICE).expect("a file")
    }

    #[test]
    fn a_large_packet_s_memory_is_not_kept() {
        let (written, spare) = channel();
        let pieces = [PIECE, 64 * PIECE].map(|len| Piece { bytes: vec![0; len], packets: 1 });
        Output::new(nowhere(), written).run(pieces.map(Message::Piece), &Progress::default());
        let kept: Vec<_> = spare.iter().map(|bytes| bytes.capacity()).collect();
        assert!(kept[0] == PIECE && kept[1] <= 2 * PIECE, "{kept:?}");
    }

    #[test]
    fn a_sync_that_failed_is_told_to_the_end_though_what_comes_after_it_succeeds() {
        let mut output = Output::new(nowhere(), channel().0);
        // Like a disk that fails once: the system reports it once.
        output.sync_data = |_| Err(io::Error::other("Input/output error"));
        let progress = Progress::default();
        let said = |output: &mut Output, message| {
            output.run([message], &progress);
            progress.status().error
        };
        let failed = Some("cannot sync: Input/output error".to_owned());
        assert_eq!(said(&mut output, Message::Sync), failed);
        output.sync_data = |_| Ok(());
        assert_eq!(said(&mut output, Message::Piece(Piece::default())), failed);
        assert_eq!(said(&mut output, Message::Sync), failed);
    }

    #[test]
    fn what_cannot_be_cut_off_at_once_is_cut_off_before_anything_comes_behind_it() {
        let path = std::env::temp_dir().join(format!("tracebuf-torn-{}", std::process::id()));
        let file = for_one_writer().create_new(true).open(&path).expect("a file");
        let mut output = Output::new(file, channel().0);
        // Like a disk that is full after half of a piece, and then cannot be reached for a while.
        output.write = |mut file, bytes| match fails(&WRITES) {
            true => Err(io::Error::other("no room")),
            false => file.write(&bytes[..bytes.len().div_ceil(2)]),
        };
        output.cut = |file, len| match fails(&CUTS) {
            true => Err(io::Error::other("not reached")),
            false => super::cut(file, len),
        };
        let piece = |text: &str| Message::Piece(Piece { bytes: text.into(), packets: 1 });
        let progress = Progress::default();
        output.run([piece("first")], &progress);
        WRITES.set((1, 1));
        CUTS.set((0, 3));
        output.run([piece("second"), piece("third")], &progress);
        assert_eq!((WRITES.get(), CUTS.get()), ((0, 0), (0, 0)), "all has failed that was to");
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "firstsecondthird");
        let status = progress.status();
        assert_eq!((status.bytes, status.error), (16, None));
        // At the end this is not waited for.
        progress.finishing.store(true, Ordering::Relaxed);
        WRITES.set((1, 1));
        CUTS.set((0, 1));
        output.run([piece("fourth"), piece("fifth")], &progress);
        let status = progress.status();
        assert_eq!((status.bytes, status.bytes_given_up), (16, 11));
        let error = "no room; a piece that went in in part cannot be cut off: not reached";
        assert_eq!(status.error.as_deref(), Some(error));
        std::fs::remove_file(path).expect("it is there");
    }
}
