//! The making of a region file.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use memmap2::{MmapMut, MmapOptions};

use crate::files::Undo;
use tracebuf_std::file_lock::{Lock, lock};
use tracebuf_std::free_file::followed;
use tracebuf_std::free_file::in_use;
use tracebuf_std::system::{FileExt as _, allocate};
use tracebuf_std::whole_file::about;

use super::clock_table::ClockTable;
use super::kept_memory::KeptMemory;
use super::memory::{BufferMemory, Control, OwnMark};
use super::outbox::Outbox;
use super::own_memory::{OwnMemory, SharedMemorySpec};
use super::previous_file::{check_is_at, keep_previous, previous, remove_unused};
use super::{
    BEGUN, CLOCKS, CLOCKS_MAX, COUNT, HALF, HALVES, KEPT, KEPT_AT, KEPT_COUNTS, MAGIC, PAGE, Places, SLOT,
    SLOTS, TABLE, VERSION, WORD, whole_pages,
};

/// What a file is to contain.
pub(crate) struct RegionSpec<'w> {
    pub(crate) region: u64,
    /// Whether it has a second half, and slots.
    pub(crate) beside_long_trace: bool,
    /// A packet with the clocks at the session's start.
    pub(crate) clocks: &'w [u8],
    pub(crate) own: Option<SharedMemorySpec>,
    /// Bytes for what the ring forgets; 0 if that is not kept.
    pub(crate) kept: u64,
}

pub(crate) struct Parts {
    pub(crate) memory: BufferMemory,
    /// For a buffer beside a long trace.
    pub(crate) outbox: Option<Outbox>,
    pub(crate) own: Option<(OwnMemory, OwnMark)>,
    pub(crate) clocks: ClockTable,
    pub(crate) kept: Option<KeptMemory>,
}

/// Makes the file, with room on the disk for all of it, and memory for a buffer in it. What an earlier process left
/// there is kept beside it until [`Undo::forget`] makes the new file valid; dropping the [`Undo`] puts it back.
pub(crate) fn create(path: &Path, spec: &RegionSpec<'_>) -> io::Result<(Parts, Undo)> {
    let RegionSpec { region, beside_long_trace, clocks, own, kept } = *spec;
    // The file is what a link leads to, so the names beside it are too.
    let path = &followed(path)?;
    check_names(path)?;
    let moved = keep_previous(path)?;
    let file = make(path).inspect_err(|_| Undo::new(path, moved.clone()).without_replacing())?;
    // Only with both is it certain who has the name.
    let locked = lock_of(&file, path).and_then(|lock| check_is_at(&file, path).map(|()| lock));
    let lock = locked.inspect_err(|_| {
        // Uses the file that is already open: there may be no place for one more.
        let is_busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
        let held = lock(&file);
        let is_other_s = held.as_ref().err().is_some_and(is_busy)
            || check_is_at(&file, path).as_ref().err().is_some_and(is_busy);
        if !is_other_s {
            drop(Undo::new(path, moved.clone()));
        }
    })?;
    // Dropped before the lock: what was there is put back while nobody else can have the file.
    let undo = Undo::new(path, moved);
    let limit = (region / 4).clamp(256 << 10, 16 << 20);
    let (halves, slots, slot) =
        if beside_long_trace { (2, SLOTS as u64, limit + (1 << 20)) } else { (1, 0, 0) };
    let own_bytes = own.map_or(0, |own| own.bytes);
    let kept = whole_pages(kept);
    let places = Places { half: region, halves, slots, slot, own: own_bytes, table: TABLE, kept };
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
    let half = map(places.half_at(0), region)?;
    let copy = if halves == 2 { Some(map(places.half_at(1), region)?) } else { None };
    let slots_of_file =
        (0..slots).map(|slot| map(places.slot_at(slot), places.slot)).collect::<io::Result<Vec<_>>>()?;
    let areas = match kept {
        0 => None,
        _ => Some([map(places.kept_at(), kept)?, map(places.kept_at() + kept, kept)?]),
    };
    // Without the lock, which is passed on after all that can fail.
    let own_memory = own.map(|_| OwnMemory::new(&file, places.own_at(), own_bytes)).transpose()?;

    let mut page = map(0, PAGE)?;
    let clocks = clocks.get(..CLOCKS_MAX).unwrap_or(clocks);
    page[CLOCKS..CLOCKS + 8].copy_from_slice(&(clocks.len() as u64).to_le_bytes());
    page[CLOCKS + 8..CLOCKS + 8 + clocks.len()].copy_from_slice(clocks);
    let control = Arc::new(Control { page, _lock: lock });
    let numbers = [(8, VERSION), (HALF, region), (HALVES, halves), (COUNT, slots), (SLOT, slot), (WORD, 0)];
    let of_kept = [(KEPT, kept), (KEPT_AT, places.kept_at()), (KEPT_COUNTS, 0)];
    numbers.iter().chain(&of_kept).for_each(|(at, value)| control.set(*at, *value));
    let own = own_memory.zip(own).map(|(memory, spec)| {
        spec.numbers().iter().for_each(|(at, value)| control.set(*at, *value));
        (memory, OwnMark(control.clone()))
    });
    let (begun, kept_for_it) = (control.clone(), previous(&previous(path)));
    let undo = undo.settling(move || {
        begun.word(0).store(u64::from_ne_bytes(*MAGIC), Ordering::SeqCst);
        // There may be none, or that of a start that was killed. One that cannot be removed does no harm.
        let _ = remove_unused(&kept_for_it);
    });
    let outbox = copy.map(|copy| Outbox::new(control.clone(), copy, slots_of_file, limit as usize));
    let clocks = ClockTable(control.clone());
    let kept = areas.map(|areas| KeptMemory::new(control.clone(), areas));
    // The lock is released by the last owner of the page: the memory, the outbox, a slot, the table of clocks, or what
    // is kept.
    Ok((Parts { memory: BufferMemory::in_file(half, control), outbox, own, clocks, kept }, undo))
}

/// Makes the file where there is none; by now another start may have made it.
fn make(path: &Path) -> io::Result<File> {
    let made = OpenOptions::new().read(true).write(true).create_new(true).open(path);
    made.map_err(|error| if error.kind() == io::ErrorKind::AlreadyExists { in_use() } else { error })
}

/// Locks the file that was made here; by now another start may have removed it.
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
        let removed = lock_of(&made, &path).expect_err("there is none");
        assert_eq!([late, removed].map(|error| error.to_string()), ["another session is using it"; 2]);
    }
}
