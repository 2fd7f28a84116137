//! The file, its parts, and the word that says which of them are valid.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use memmap2::{MmapMut, MmapOptions};

use crate::undo::Undo;
use crate::waits::Wait;
use tracebuf_std::file_lock::{Held, Lock, lock};
use tracebuf_std::free_file::in_use;
use tracebuf_std::system::{FileExt as _, allocate, id_at, id_of};
use tracebuf_std::whole_file::about;
use tracebuf_std::whole_file::followed;

use super::moved::previous;
use super::own_memory::OwnMemory;
use super::{
    ABOUT, BEGUN, BufferMemory, CLOCKS, CLOCKS_MAX, COUNT, HALF, HALVES, MAGIC, NO_OFFSET, OWN, PAGE, Parts,
    Places, SLOT, SLOTS, VERSION, WORD, Wanted,
};

/// The first page of the file, for as long as anybody needs it; it keeps the file locked.
pub(super) struct Control {
    page: MmapMut,
    _lock: Lock,
}

impl Control {
    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= PAGE as usize);
        // SAFETY: the pointer is to 8 bytes of the page, which is mapped readable and writable for as long as
        // `self` is borrowed, and at a multiple of 8 from its page-aligned start. They are touched by atomic
        // operations of this width alone: `self.page` is used nowhere else once `Control` is made.
        unsafe { AtomicU64::from_ptr(self.page.as_ptr().wrapping_add(at).cast_mut().cast()) }
    }

    pub(super) fn set(&self, at: usize, value: u64) {
        self.word(at).store(value.to_le(), Ordering::Relaxed);
    }
}

/// Marks shared memory in a file as valid while the session runs; it keeps the file locked.
pub(crate) struct OwnMark(Arc<Control>);

impl OwnMark {
    /// Called when the session has ended: the buffers have everything that is in there.
    pub(crate) fn end(&self) {
        // What the buffers have must be stored before it.
        self.0.word(OWN).store(0, Ordering::SeqCst);
    }
}

/// The drain thread's end of the transfer from a region into a file.
pub(crate) struct Outbox {
    control: Arc<Control>,
    turn: Arc<AtomicBool>,
    free: Receiver<Result<Slot, Unwritten>>,
    /// Bytes to read at once.
    pub(crate) limit: usize,
    /// Slots filled so far.
    count: u64,
}

/// A slot's bytes could not be written, and remain in it.
pub(crate) struct Unwritten;

/// One slot; its owner may write into it.
pub(crate) struct Slot {
    index: usize,
    map: MmapMut,
    len: usize,
    control: Arc<Control>,
    back: Sender<Result<Slot, Unwritten>>,
}

impl Outbox {
    /// A free slot; `None` if there is none now or, when waited for, if there will never be one.
    pub(crate) fn slot(&self, wait: Wait) -> Option<Slot> {
        let slot = match wait {
            Wait::UntilDone => self.free.recv().ok(),
            Wait::Now => self.free.try_recv().ok(),
        };
        slot.and_then(Result::ok)
    }

    /// The buffer's next operation begins on a copy of the region, which becomes valid with [`publish`](Self::publish).
    pub(crate) fn turn(&self) {
        self.turn.store(true, Ordering::Relaxed);
    }

    /// Makes the copy the region, and the slot's content valid, both at once.
    pub(crate) fn publish(&mut self, slot: Option<&Slot>) {
        let mut change = 1;
        if let Some(slot) = slot {
            self.count += 1;
            let about = ABOUT + 24 * slot.index;
            self.control.set(about, slot.len as u64);
            self.control.set(about + 8, NO_OFFSET);
            self.control.set(about + 16, self.count);
            change |= 2 << slot.index;
        }
        // Everything before it comes first, as far as the compiler is concerned; when a process is killed, the kernel's
        // pages hold a prefix of its own stores.
        self.control.word(WORD).fetch_xor(u64::to_le(change), Ordering::SeqCst);
    }
}

impl Slot {
    /// Puts in all of the bytes, or none if they are too many.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> bool {
        match self.map.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.len = bytes.len();
                true
            }
            None => false,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.map.get(..self.len).unwrap_or_default()
    }

    /// Says where in the file the bytes will be.
    pub(crate) fn goes_to(&self, at: u64) {
        self.control.word(ABOUT + 24 * self.index + 8).store(at.to_le(), Ordering::SeqCst);
    }

    /// Called when the bytes are in the file.
    pub(crate) fn written(self) {
        self.control.word(WORD).fetch_and(u64::to_le(!(2 << self.index)), Ordering::SeqCst);
        self.give_back();
    }

    /// Returns a slot that nobody used.
    pub(crate) fn give_back(self) {
        let back = self.back.clone();
        // If nobody is there to take it, it is not needed.
        let _ = back.send(Ok(self));
    }

    /// Called when the bytes will not be in the file: they stay here, to be recovered.
    pub(crate) fn give_up(self) {
        let _ = self.back.send(Err(Unwritten));
    }
}

/// Makes the file, with room on the disk for all of it, and memory for a buffer in it. What an earlier process left
/// there is kept beside it, as `PATH.previous`; the previous such file is kept until [`Undo::forget`] is called, which
/// makes the new file valid. Dropping the [`Undo`] puts both back.
pub(crate) fn create(path: &Path, wanted: &Wanted<'_>) -> io::Result<(Parts, Undo)> {
    let Wanted { region, beside_long_trace, clocks, own } = *wanted;
    // The file is what a link leads to, so the names beside it are too.
    let path = &followed(path)?;
    check_names(path)?;
    let moved = keep_previous(path)?;
    let file = match make(path) {
        Ok(file) => file,
        Err(error) => {
            Undo::new(path, moved).without_replacing();
            return Err(error);
        }
    };
    // Only with both is it certain who has the name.
    let locked = lock_of(&file, path).and_then(|lock| check_is_at(&file, path).map(|()| lock));
    let lock = match locked {
        Ok(lock) => lock,
        Err(error) => {
            // Uses the file that is already open: there may be no place for one more.
            let is_busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
            let held = lock(&file);
            let is_other_s = held.as_ref().err().is_some_and(is_busy)
                || check_is_at(&file, path).as_ref().err().is_some_and(is_busy);
            if !is_other_s {
                drop(Undo::new(path, moved));
            }
            return Err(error);
        }
    };
    // Dropped before the lock: what was there is put back while nobody else can have the file.
    let undo = Undo::new(path, moved);
    let limit = (region / 4).clamp(256 << 10, 16 << 20);
    let (halves, slots, slot) =
        if beside_long_trace { (2, SLOTS as u64, limit + (1 << 20)) } else { (1, 0, 0) };
    let own_bytes = own.map_or(0, |own| own.bytes);
    let places = Places { half: region, halves, slots, slot, own: own_bytes };
    // Before everything else: if it is killed from here on, the start leaves a file that holds nothing.
    file.write_all_at(BEGUN, 0)?;
    allocate(&file, places.end())?;

    let map = |at: u64, len: u64| -> io::Result<MmapMut> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: the mapping's bytes must not be changed except through it. The file was made by this call and is
        // locked against other sessions; nothing else in this process maps these bytes, because every part is mapped
        // once and by one owner. Another program that ignores the lock and writes into the file while it is used does
        // the same as one that writes into this process's memory. The file's blocks are allocated, so touching a page
        // does not fail when the disk is full; it would if the file were cut short.
        unsafe { MmapOptions::new().offset(at).len(len).map_mut(&file) }
    };
    let turn = Arc::new(AtomicBool::new(false));
    let other = if halves == 2 { Some(map(places.half_at(1), region)?) } else { None };
    let memory = BufferMemory::in_file(map(places.half_at(0), region)?, other, turn.clone());
    let maps =
        (0..slots).map(|slot| map(places.slot_at(slot), places.slot)).collect::<io::Result<Vec<_>>>()?;
    // Without the lock, which is passed on after all that can fail.
    let own_memory = own.map(|_| OwnMemory::new(&file, places.own_at(), own_bytes)).transpose()?;

    let mut page = map(0, PAGE)?;
    let clocks = clocks.get(..CLOCKS_MAX).unwrap_or(clocks);
    page[CLOCKS..CLOCKS + 8].copy_from_slice(&(clocks.len() as u64).to_le_bytes());
    page[CLOCKS + 8..CLOCKS + 8 + clocks.len()].copy_from_slice(clocks);
    let control = Arc::new(Control { page, _lock: lock });
    let numbers = [(8, VERSION), (HALF, region), (HALVES, halves), (COUNT, slots), (SLOT, slot), (WORD, 0)];
    numbers.iter().for_each(|(at, value)| control.set(*at, *value));
    let own = own_memory.zip(own).map(|(memory, wanted)| {
        wanted.numbers().iter().for_each(|(at, value)| control.set(*at, *value));
        (Arc::new(memory), OwnMark(control.clone()))
    });
    let (begun, kept_for_it) = (control.clone(), previous(&previous(path)));
    let undo = undo.settling(move || {
        begun.word(0).store(u64::from_ne_bytes(*MAGIC), Ordering::SeqCst);
        // There may be none, or that of a start that was killed. One that cannot be removed does no harm.
        let _ = remove_unused(&kept_for_it);
    });
    if !beside_long_trace {
        // The lock is released by the last owner of the page, and here there is no other.
        return Ok((Parts { memory: memory.keeping(control), outbox: None, own }, undo));
    }
    let (back, free) = channel();
    for (map, index) in maps.into_iter().zip(0..) {
        Slot { index, map, len: 0, control: control.clone(), back: back.clone() }.give_back();
    }
    let outbox = Outbox { control: control.clone(), turn, free, limit: limit as usize, count: 0 };
    Ok((Parts { memory: memory.keeping(control), outbox: Some(outbox), own }, undo))
}

/// Makes the file where there is none; by now another start may have made it.
fn make(path: &Path) -> io::Result<File> {
    let made = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    made.map_err(|error| if error.kind() == io::ErrorKind::AlreadyExists { in_use() } else { error })
}

/// Locks the file that was made here; by now another start may have removed it, taking it for the remains of a killed
/// start.
fn lock_of(file: &File, path: &Path) -> io::Result<Lock> {
    let locked = Lock::new(file, path);
    locked.map_err(|error| if error.kind() == io::ErrorKind::NotFound { in_use() } else { error })
}

/// Refuses a name if those of the kept files would be longer than names can be: at once, not at the third start.
fn check_names(path: &Path) -> io::Result<()> {
    let longest = previous(&previous(path));
    match fs::symlink_metadata(&longest) {
        Err(error) if error.kind() == io::ErrorKind::InvalidFilename => Err(about(&longest, &error)),
        _ => Ok(()),
    }
}

/// Refuses a file that another start moved or removed before it was locked.
fn check_is_at(file: &File, path: &Path) -> io::Result<()> {
    let locked = id_of(file)?;
    if id_at(path).is_ok_and(|there| there == locked) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "another session has just taken it"))
}

/// Makes room for a new file, and returns where the file that was there lies, and where the previous one does.
fn keep_previous(path: &Path) -> io::Result<Vec<PathBuf>> {
    // Looked at first: opening a pipe waits for its other end.
    let opened = fs::metadata(path).and_then(|there| match there.is_file() {
        true => File::open(path),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is there and no file")),
    });
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let _held = lock(&file)?;
    check_is_at(&file, path)?;
    let mut start = [0; MAGIC.len()];
    // If it is shorter, the rest stays zero.
    file.read_at(&mut start, 0)?;
    if start == *BEGUN || (start != *MAGIC && is_blank(&file)?) {
        fs::remove_file(path)?;
        return Ok(Vec::new());
    }
    if start != *MAGIC {
        let message = "there is a file of that name which no session made";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
    }
    let before = previous(path);
    let before_that = previous(&before);
    // Another session may have a buffer in a file of such a name. Closed again, to keep few files open.
    check_is_unused(&before_that).map(drop)?;
    let before_file = check_is_unused(&before)?;
    let _before_held = before_file.as_ref().map(|file| locked_at(file, &before)).transpose()?;
    match fs::rename(&before, &before_that) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if let Err(error) = fs::rename(path, &before) {
        let _ = fs::rename(&before_that, &before);
        return Err(error);
    }
    Ok(vec![before, before_that])
}

/// The file that lies there, unused by any session; `None` if there is no file.
fn check_is_unused(path: &Path) -> io::Result<Option<File>> {
    // Looked at first, as above.
    if !fs::metadata(path).is_ok_and(|there| there.is_file()) {
        return Ok(None);
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(about(path, &error)),
    };
    drop(locked_at(&file, path)?);
    Ok(Some(file))
}

/// Locks a file that was opened at this path, for a moment.
fn locked_at<'f>(file: &'f File, path: &Path) -> io::Result<Held<'f>> {
    let held = lock(file).and_then(|held| check_is_at(file, path).map(|()| held));
    held.map_err(|error| about(path, &error))
}

/// Removes what an earlier session left, unless another has the name by now.
fn remove_unused(path: &Path) -> io::Result<()> {
    let Some(file) = check_is_unused(path)? else { return Ok(()) };
    let _held = locked_at(&file, path)?;
    fs::remove_file(path)
}

/// Whether it is all zeros: its start was killed, or the power failed, before the first page was written.
fn is_blank(file: &File) -> io::Result<bool> {
    let mut bytes = BufReader::with_capacity(1 << 16, file);
    loop {
        let part = bytes.fill_buf()?;
        if part.is_empty() || part.iter().any(|byte| *byte != 0) {
            return Ok(part.is_empty());
        }
        let len = part.len();
        bytes.consume(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_another_comes_before_says_so() {
        let path = std::env::temp_dir().join(format!("tracebuf-control-{}", std::process::id()));
        let made = make(&path).expect("a file");
        // It made the file after this start had looked at what was there.
        let late = make(&path).expect_err("there is one");
        // The other had no lock yet either, and so was taken for one left by a killed start.
        fs::remove_file(&path).expect("it is there");
        let removed = lock_of(&made, &path).err().expect("there is none");
        assert_eq!([late, removed].map(|error| error.to_string()), ["another session is using it"; 2]);
    }
}
