//! The thread that writes a long trace's file, or several one after the other.

use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::backlog::{Message, Next, Receiver};
use super::compression::Packer;
use super::rotation::{Names, Rotation};
use super::{Progress, SyncPolicy};
use crate::export::Piece;
use crate::files::{Opened, Undo};
use crate::side_packets::{SideData, SideRevision};
use crate::size_signal;
use tracebuf_std::display::Count;
use tracebuf_std::file_lock::Lock;
use tracebuf_std::system::is_removed;

const RETRY: Duration = Duration::from_millis(100);

pub(super) struct Output {
    file: File,
    write: fn(&File, &[u8]) -> io::Result<usize>,
    cut: fn(&File, u64) -> io::Result<()>,
    sync_data: fn(&File) -> io::Result<()>,
    /// Bytes of whole packets: the length of a regular file that is not torn.
    good: u64,
    /// Bytes of the files before this one.
    before: u64,
    /// Whether a part of a piece may lie after these. Nothing that came after that could be read.
    is_torn: bool,
    /// Whether something was given up. What came after it would leave a hole that nobody sees.
    gave_up: bool,
    packer: Option<Packer>,
    series: Option<Series>,
    progress: Arc<Progress>,
    /// The folder of the file, until the file's name in it was synced.
    unsynced_folder: Option<PathBuf>,
    sync_folder: fn(&Path) -> io::Result<()>,
    /// Released when the file is complete.
    lock: Option<Lock>,
}

/// What the files of a trace that is cut into several have in common.
pub(super) struct Series {
    pub(super) rotation: Rotation,
    pub(super) names: Names,
    /// With what each of them begins: clocks of the session's start.
    pub(super) head: Piece,
    pub(super) sync: SyncPolicy,
    /// What is told beside the buffers, in each of them.
    pub(super) side: SideData,
    /// When the newest was begun.
    pub(super) begun: Instant,
}

impl Series {
    /// Makes room for the newest.
    pub(super) fn remove_old(&self) {
        self.names.remove_old(&self.rotation, self.rotation.size().unwrap_or_default());
    }
}

pub(super) fn empty(file: &File) -> io::Result<()> {
    // A pipe or a device has nothing in it.
    if file.metadata()?.is_file() { cut(file, 0) } else { Ok(()) }
}

impl Output {
    pub(super) fn new(opened: Opened, packer: Option<Packer>, progress: Arc<Progress>) -> Self {
        let write = |mut file: &File, bytes: &[u8]| file.write(bytes);
        let sync_folder = |folder: &Path| File::open(folder)?.sync_all();
        let Opened { file, lock, folder, .. } = opened;
        Self {
            file,
            write,
            cut,
            sync_data: File::sync_data,
            unsynced_folder: folder,
            sync_folder,
            good: 0,
            before: 0,
            is_torn: false,
            gave_up: false,
            packer,
            series: None,
            progress,
            lock,
        }
    }

    pub(super) fn in_series(self, series: Option<Series>) -> Self {
        Self { series, ..self }
    }

    /// Writes what a file begins with, as it is: it says whose trace it is. False: it could not be written at once.
    pub(super) fn begin(&mut self, head: &Piece) -> bool {
        // What is beyond the limit of a process's files is an error of the write, not the end of the program.
        size_signal::block();
        let mut taken = 0;
        let is_written = self.try_to_write(&head.bytes, &mut taken).is_ok();
        if is_written {
            self.count(head.bytes.len(), head.packets);
        } else {
            self.is_torn = taken > 0;
        }
        is_written
    }

    /// Writes what comes until the session has ended.
    pub(super) fn run(&mut self, receiver: &Receiver) {
        while let Some(Next { message, state, begins_file, follows_gap }) =
            receiver.next(|more| self.is_due(more))
        {
            // What is open would begin twice in a file that goes on.
            if !begins_file || self.begin_next() || follows_gap {
                self.write_packed(&state);
            }
            match message {
                Message::Piece(piece) => {
                    self.write_packed(&piece);
                    receiver.done(piece);
                }
                Message::Slot(slot, packets) => {
                    let packed = self.packer.as_mut().map(|packer| packer.pack(slot.bytes()).to_vec());
                    if !self.gave_up {
                        self.see_length();
                        slot.goes_to(self.good);
                    }
                    let bytes = packed.as_deref().unwrap_or(slot.bytes());
                    self.count_growth(bytes.len(), slot.bytes().len());
                    match self.write(bytes, packets) {
                        true => slot.written(),
                        false => slot.give_up(),
                    }
                }
                Message::Sync => self.sync(),
            }
        }
    }

    /// Whether another file is to begin before so many bytes more.
    fn is_due(&self, more: usize) -> bool {
        let is_due = |series: &Series| {
            // One that has only its head would be no better.
            let has_more = self.good > series.head.bytes.len() as u64;
            let more = (more + self.progress.end_of_file().bytes.len()) as u64;
            has_more && series.rotation.is_due(self.good, series.begun.elapsed(), more)
        };
        !self.gave_up && !self.is_torn && self.series.as_ref().is_some_and(is_due)
    }

    /// Completes the file, and begins the next. If that cannot be made, false: what comes goes into this one.
    fn begin_next(&mut self) -> bool {
        let Some(series) = &mut self.series else { return false };
        series.begun = Instant::now();
        let opened = match series.names.open() {
            Ok((opened, undo)) => {
                undo.into_iter().for_each(Undo::forget);
                opened
            }
            Err(error) => {
                self.progress.set_lasting_error(format!("the next file cannot be made: {error}"));
                return false;
            }
        };
        let head = series.head.clone();
        let syncs = series.sync != SyncPolicy::Never;
        let end = self.progress.end_of_file();
        self.write_packed(&end);
        if syncs {
            self.sync();
        }
        (self.file, self.lock, self.unsynced_folder) = (opened.file, opened.lock, opened.folder);
        self.before += std::mem::take(&mut self.good);
        self.progress.files.fetch_add(1, Ordering::Relaxed);
        self.write(&head.bytes, head.packets);
        let mut side = Piece::default();
        let _ = self.series.as_ref().map(|series| side.side_data(&series.side, SideRevision::default()));
        self.write_packed(&side);
        if let Some(series) = &self.series {
            series.remove_old();
        }
        true
    }

    /// Writes all of a piece, or perhaps nothing, compressed if that is wanted.
    fn write_packed(&mut self, piece: &Piece) -> bool {
        if piece.bytes.is_empty() {
            return true;
        }
        let Some(mut packer) = self.packer.take() else { return self.write(&piece.bytes, piece.packets) };
        let packed = packer.pack(&piece.bytes);
        self.count_growth(packed.len(), piece.bytes.len());
        let is_written = self.write(packed, piece.packets);
        self.packer = Some(packer);
        is_written
    }

    /// Counts how many bytes more, or less, the file gets than were handed over.
    fn count_growth(&self, written: usize, handed_over: usize) {
        self.progress.growth.fetch_add(written as i64 - handed_over as i64, Ordering::Relaxed);
    }

    /// Writes all of it; or, at the end of the session, perhaps nothing: false.
    pub(super) fn write(&mut self, bytes: &[u8], packets: u64) -> bool {
        let progress = self.progress.clone();
        let mut taken = 0;
        while !self.gave_up {
            let last_try = progress.finishing.load(Ordering::Relaxed);
            match self.try_to_write(bytes, &mut taken) {
                Ok(()) => {
                    self.count(bytes.len(), packets);
                    progress.has_no_reader.store(false, Ordering::Relaxed);
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
                    let has_no_reader = error.kind() == io::ErrorKind::BrokenPipe;
                    progress.has_no_reader.store(has_no_reader, Ordering::Relaxed);
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

    fn count(&mut self, bytes: usize, packets: u64) {
        self.good += bytes as u64;
        self.progress.bytes.store(self.before + self.good, Ordering::Relaxed);
        self.progress.packets.fetch_add(packets, Ordering::Relaxed);
    }

    /// Writes what was not yet taken, after what is whole.
    fn try_to_write(&mut self, bytes: &[u8], taken: &mut usize) -> io::Result<()> {
        if self.is_torn {
            self.mend(taken)?;
        }
        self.see_length();
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
    fn see_length(&mut self) {
        let file = self.file.metadata().ok().filter(Metadata::is_file);
        // What lies after what is whole is this session's own, if it is torn.
        let is_other = |len: &u64| !self.is_torn && *len != self.good;
        let Some(len) = file.map(|file| file.len()).filter(is_other) else { return };
        let progress = &self.progress;
        let good = Count(std::mem::replace(&mut self.good, len), "byte");
        progress.bytes.store(self.before + len, Ordering::Relaxed);
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

    fn sync(&mut self) {
        let synced = (self.sync_data)(&self.file).and_then(|()| {
            // A file that no folder has after a power cut is lost, however much of it is on the disk.
            self.unsynced_folder.take().map_or(Ok(()), |folder| (self.sync_folder)(&folder))
        });
        match synced {
            Ok(()) => _ = self.progress.syncs.fetch_add(1, Ordering::Relaxed),
            // A pipe or a device: there is nothing to sync.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
            Err(error) => self.progress.set_lasting_error(format!("cannot sync: {error}")),
        }
    }
}

fn cut(mut file: &File, len: u64) -> io::Result<()> {
    file.set_len(len)?;
    file.seek(SeekFrom::Start(len)).map(drop)
}

#[cfg(test)]
mod tests;
