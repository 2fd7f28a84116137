//! Buffers in mapped files, so that what they hold survives the process. On a Unix: on Windows such files are read, and
//! none is made.
//!
//! ```
//! # #[cfg(unix)] {
//! use tracebuf_std::recover::Survivor;
//! use tracebuf_std::session::{BufferConfig, Session};
//!
//! let folder = std::env::temp_dir().join(format!("doc-region-{}", std::process::id()));
//! std::fs::create_dir_all(&folder)?;
//! let region = folder.join("trace.region");
//! // What a service does at its start: see what the last one left. The first time there is nothing; any other error
//! // says why there is no buffer, and may say where it is instead.
//! assert_eq!(Survivor::open(&region).unwrap_err().kind(), std::io::ErrorKind::NotFound);
//!
//! let session = Session::builder().buffer(BufferConfig::ring(1 << 20).in_file(&region)).start()?;
//! session.recorder().instant("the last thing that happened");
//! session.flush(std::time::Duration::from_secs(1))?;
//! # drop(session); // stands for kill -9
//! // The process is killed, by whatever means. The next one:
//! let written = Survivor::open(&region)?.write_to(&folder.join("recovered.pftrace"))?;
//! assert!(written.packets >= 3);
//! # std::fs::remove_dir_all(folder)?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What survives
//! The pages belong to the system, so whatever was committed when the process dies, of `kill -9` too, is in the file,
//! without a system call in between: a commit is as fast as without a file. What still lay in shared memory is not. It
//! is committed once a second, by the next flush, and when it is half of the [shared
//! memory](crate::session::SessionBuilder::shared_memory): a kill costs the last second, and of each thread the event
//! that it wrote last before that; with [shared memory in the file](#with-shared-memory-in-it) neither. A power cut is
//! something else: pages that the system had not yet written are gone, and half of a commit may be there without the
//! other; chunks that make no sense are left out then, and of a slot what lies behind the first damage.
//!
//! # What the file must not suffer
//! As long as the session runs, the file must not be made shorter: a page that is not there any more ends the process
//! by SIGBUS when it is touched, as `> FILE`, `truncate`, and what rotates logs by copying and truncating do. Its lock
//! is for sessions only, and keeps nobody from that. If it is removed or renamed, the session goes on in it; what was
//! removed is gone when the process is.
//!
//! # With a long trace beside it
//! What the long trace has read must not be gone from the region before it is in the trace file. So the region
//! is there twice. To read, its used part is copied into the other *half*, packets are consumed there, and put as
//! they will be in the trace into a *slot*; then one store of eight bytes makes that half the region and the slot
//! valid. When the file has taken it, another such store frees the slot. So at any instant each packet is in the
//! region, or in a slot, or in the file; a slot knows where in the file it goes, by which
//! [`after`](crate::recover::Survivor::after) leaves out what is there already, if it is that session's: the next one
//! with the same trace file empties it. What has no room in a file of the
//! [largest size](crate::session::LongTrace::max_file_size) stays in a slot. What goes past the slots is lost when the
//! process is killed while it is being written: a packet of more than a mebibyte, and what such a file takes at last.
//!
//! Cost: a slot takes what is read at once, a quarter of the buffer, but 256 KiB at least and 16 MiB at most, and a
//! mebibyte more. The file has twice the buffer and two slots. Each period, and each slot that is filled in it, copies
//! what is used of the buffer: of a large one that is full, all of it for every 16 MiB.
//!
//! # With shared memory in it
//! With [`shared_memory_in_file`](crate::session::SessionBuilder::shared_memory_in_file) the shared memory of the
//! session's own threads is a part of the file too, and the last second is there after a kill. Recovery does what the
//! drain thread would have done next: it brings what threads had finished into the buffer, behind what is there, each
//! thread's events in their order; what the buffer has already, or the long trace, does not come again, as long as the
//! buffer's table has room for [all sequences](crate::session::BufferConfig::sequences). What a thread was just writing
//! is given up.
//!
//! Not brought in is what is for other buffers of the session, what programs in other processes had not sent, and an
//! event over more than two chunks of 2 KiB whose sizes the drain thread had not got yet: its thread's next event, if
//! there is one, says that it is lost. A buffer that discards and was full takes nothing. Pages that make no sense are
//! left out. After a power cut, which may leave half of a chunk there without the other, packets of this part may be
//! damaged: it has no checksums.
//!
//! When the session stops all of it is in the buffers, and the file says that it has none. A child after a fork has a
//! copy of its own, as of all memory (in pages that it has not written it may find what its parent writes): what it does
//! within an event that its parent forked in is not in the file.
//!
//! # At the next start
//! A file that an earlier session left is moved to `FILE.previous`, and what was there to `FILE.previous.previous`,
//! which is removed once the session has started; if it does not start, both are put back, but not in the place of a
//! file that another start has made meanwhile. If another session has a buffer in a file of one of these names, the
//! session does not start. So during a start there has to be room for three. A file that a start
//! left which was killed holds nothing and is replaced: it begins with `TRACENEW`, or has zeros only. What was there
//! before that start is in `FILE.previous` then, and stays there until a session has started after it and stopped or
//! died, and the next one starts. [`Survivor::open`](crate::recover::Survivor::open) and the command say so; neither
//! takes it instead, for it may have been recovered before that start.
//!
//! # Layout
//! Of a file that is cut short, or whose first page makes no sense, [recovery](crate::recover) says [what is
//! wrong](crate::recover::Damage).
//!
//! Little-endian. A page of 4 KiB, then the halves, the slots, and the table of writers with shared memory right behind
//! it, each from the next multiple of 4 KiB on.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `TRACEMAP`; `TRACENEW` until the session has started |
//! | 8 | 8 | version, 1 |
//! | 16 | 8 | bytes of a half |
//! | 24 | 8 | halves: 1, or 2 with a long trace |
//! | 32 | 8 | slots: 0, or 2 |
//! | 40 | 8 | bytes of a slot |
//! | 48 | 8 | bit 0: the half that is the region; bit 1 + n: slot n is valid |
//! | 64 + 24 n | 24 | slot n: its length, its place in the file (all ones if not known yet), its number |
//! | 112 | 8 | bytes of shared memory; 0 if there is none, or when the session has stopped |
//! | 120 | 8 | bytes of a page of it: 4,096 |
//! | 128 | 8 | writers in the table: 1,024 |
//! | 136 | 8 | the buffer's number in its session |
//! | 144 | 24 | of those who write into it: the producer's number, the process's, the user's |
//! | 256 | 8 + 512 | length and bytes of a packet with the clocks at the start, with which the long trace begins too |
//!
//! In the table each writer, from 1 on, has four words of eight bytes. Bits 0–15: the number of the buffer that its
//! chunks are for; bit 16: 1, else the word says nothing; bit 17: 1 if that holds for all of its chunks, else for those
//! from the number in bits 32–63 on. Where several words hold, the last one counts.
//!
//! Programs from before there was shared memory in files read such a file as one without it.

#[cfg(unix)]
mod allocate;
#[cfg(unix)]
mod control;
#[cfg(not(unix))]
mod elsewhere;
mod left_memory;
#[cfg(unix)]
mod memory;
mod moved;
#[cfg(unix)]
mod own_memory;
mod wanted;
mod writers;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use crate::limits::WRITERS;
use writers::ENTRIES;

pub use crate::free_file::{check_is_free, create_if_free};
#[cfg(not(unix))]
pub use elsewhere::BufferMemory;
pub(crate) use left_memory::LeftMemory;
#[cfg(unix)]
pub use memory::BufferMemory;
pub use moved::moved_by_a_start;

#[cfg(unix)]
pub(crate) use control::{Outbox, OwnMark, Slot, create};
#[cfg(not(unix))]
pub(crate) use elsewhere::{Outbox, OwnMark, OwnMemory, Slot, create};
#[cfg(unix)]
pub(crate) use own_memory::OwnMemory;
pub(crate) use wanted::{Parts, Wanted, WantedMemory};

/// The first bytes of the file.
pub(crate) const MAGIC: &[u8; 8] = b"TRACEMAP";
/// The same of a session that has not started yet.
pub(crate) const BEGUN: &[u8; 8] = b"TRACENEW";
const VERSION: u64 = 1;
const PAGE: u64 = 4096;
/// More than a part can have: a buffer has less than 4 GiB, and its table less than one.
const LARGEST: u64 = 5 << 30;
const SLOTS: usize = 2;
/// Where things lie in the first page.
const HALF: usize = 16;
const HALVES: usize = 24;
const COUNT: usize = 32;
const SLOT: usize = 40;
const WORD: usize = 48;
const ABOUT: usize = 64;
const OWN: usize = 112;
const OWN_PAGE: usize = 120;
const WRITERS_AT: usize = 128;
const BUFFER: usize = 136;
const PRODUCER: usize = 144;
const PROCESS: usize = 152;
const USER: usize = 160;
const CLOCKS: usize = 256;
const CLOCKS_MAX: usize = 512;
/// Bytes before shared memory, that say which buffer each writer writes to: whole pages.
const TABLE: u64 = (WRITERS * ENTRIES * 8) as u64;
/// The place in the file of a slot that is not being written yet.
const NOWHERE: u64 = u64::MAX;

/// Where the parts lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    half: u64,
    halves: u64,
    slots: u64,
    slot: u64,
    /// Bytes of shared memory, without what lies before it.
    own: u64,
}

impl Places {
    fn half_at(&self, half: u64) -> u64 {
        PAGE.saturating_add(whole_pages(self.half).saturating_mul(half))
    }

    fn slot_at(&self, slot: u64) -> u64 {
        self.half_at(self.halves).saturating_add(whole_pages(self.slot).saturating_mul(slot))
    }

    /// Where the table of writers begins.
    fn own_at(&self) -> u64 {
        self.slot_at(self.slots)
    }

    #[cfg(unix)]
    fn end(&self) -> u64 {
        let own = if self.own > 0 { TABLE.saturating_add(self.own) } else { 0 };
        self.own_at().saturating_add(own)
    }
}

/// In a damaged header any number may be.
fn whole_pages(len: u64) -> u64 {
    len.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

/// What a file of this kind holds, as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Where the region lies.
    pub(crate) start: u64,
    /// Its bytes.
    pub(crate) region: Vec<u8>,
    /// Slots that are valid, the first one first.
    pub(crate) slots: Vec<Waiting>,
    /// A packet with the clocks at the session's start.
    pub(crate) clocks: Vec<u8>,
    /// Shared memory of the session's own threads, if it lies in the file and the session was killed.
    pub(crate) own: Option<LeftMemory>,
}

/// Packets on their way into a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    number: u64,
    /// Where in the file they go, if that is known.
    pub(crate) at: Option<u64>,
    pub(crate) bytes: Vec<u8>,
}

fn number(file: &[u8], at: usize) -> Option<u64> {
    let bytes = file.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn part(file: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    file.get(usize::try_from(at).ok()?..)?.get(..usize::try_from(len).ok()?)
}

/// What is wrong with a file that begins as that of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// It ends within what counts: the buffer, packets on their way into a trace, or shared memory.
    Cut,
    /// It ends before the half of it that counts.
    CutBefore,
    /// It has a version that is not known.
    Version(u64),
    /// The first page, which says what lies where and what of it counts, makes no sense.
    FirstPage,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the file of a buffer is ")?;
        let unknown = "which half counts, and what was on its way into a trace, is not known";
        match self {
            Self::Cut => {
                f.write_str("cut short: what was on its way into the buffer or a trace is not known")
            }
            Self::CutBefore => f.write_str("cut short: the half that counts is not in it"),
            Self::Version(version) => {
                write!(f, "of version {version}, or its first page is damaged: {unknown}")
            }
            Self::FirstPage => write!(f, "damaged in its first page: {unknown}"),
        }
    }
}

impl std::error::Error for Damage {}

impl From<Damage> for io::Error {
    fn from(damage: Damage) -> Self {
        Self::new(io::ErrorKind::InvalidData, damage)
    }
}

/// Where in the file lies what counts.
struct Layout {
    region: (u64, u64),
    /// Their places beside what is known of them.
    slots: Vec<(Waiting, (u64, u64))>,
    clocks: Vec<u8>,
    own: Option<LeftMemory>,
}

/// By the first page; `None` if the file is of another kind.
fn layout(page: &[u8]) -> Result<Option<Layout>, Damage> {
    if !page.starts_with(MAGIC) {
        return Ok(None);
    }
    if page.len() < PAGE as usize {
        return Err(Damage::CutBefore);
    }
    match number(page, 8) {
        Some(VERSION) => sound(page).ok_or(Damage::FirstPage).map(Some),
        version => Err(Damage::Version(version.unwrap_or_default())),
    }
}

/// What the first page says, if it makes sense.
fn sound(page: &[u8]) -> Option<Layout> {
    let places = Places {
        half: number(page, HALF)?,
        halves: number(page, HALVES)?,
        slots: number(page, COUNT)?,
        slot: number(page, SLOT)?,
        own: number(page, OWN)?,
    };
    // A file can be as long as a damaged header says and take no room: nobody is to ask for so much memory.
    if places.half == 0 || places.half.max(places.slot) > LARGEST {
        return None;
    }
    let word = number(page, WORD)?;
    let are_there = (1..=2).contains(&places.halves) && places.slots <= SLOTS as u64;
    if !are_there || word & 1 >= places.halves || word >> (1 + places.slots) != 0 {
        return None;
    }
    let mut slots = Vec::new();
    for slot in (0..places.slots).filter(|slot| word >> (1 + slot) & 1 == 1) {
        let about = ABOUT + 24 * slot as usize;
        let len = number(page, about)?.min(places.slot);
        let at = Some(number(page, about + 8)?).filter(|at| *at != NOWHERE);
        let waiting = Waiting { number: number(page, about + 16)?, at, bytes: Vec::new() };
        slots.push((waiting, (places.slot_at(slot), len)));
    }
    slots.sort_by_key(|(slot, _)| slot.number);
    let len = number(page, CLOCKS)?.min(CLOCKS_MAX as u64);
    let clocks = part(page, CLOCKS as u64 + 8, len)?.to_vec();
    let own = if places.own == 0 { None } else { Some(LeftMemory::told(page, places)?) };
    Some(Layout { region: (places.half_at(word & 1), places.half), slots, clocks, own })
}

impl Layout {
    /// Whether all of it lies in a file of so many bytes.
    fn check_is_within(&self, file: u64) -> Result<(), Damage> {
        let is_within = |(at, len): (u64, u64)| at.checked_add(len).is_some_and(|behind| behind <= file);
        if self.region.0 >= file {
            return Err(Damage::CutBefore);
        }
        let slots = self.slots.iter().map(|(_, place)| *place);
        let own = self.own.iter().map(|own| own.place);
        if is_within(self.region) && slots.chain(own).all(is_within) { Ok(()) } else { Err(Damage::Cut) }
    }

    /// With the bytes that lie at places.
    fn contents<E>(self, mut bytes: impl FnMut((u64, u64)) -> Result<Vec<u8>, E>) -> Result<Contents, E> {
        let region = bytes(self.region)?;
        let fill = |(slot, place)| Ok(Waiting { bytes: bytes(place)?, ..slot });
        let slots = self.slots.into_iter().map(fill).collect::<Result<_, E>>()?;
        let fill = |own: LeftMemory| Ok(LeftMemory { bytes: bytes(own.place)?, ..own });
        let own = self.own.map(fill).transpose()?;
        Ok(Contents { start: self.region.0, region, slots, clocks: self.clocks, own })
    }
}

/// Takes a file of this kind apart; `None` if it is none.
pub(crate) fn parse(file: &[u8]) -> Result<Option<Contents>, Damage> {
    let Some(layout) = layout(file)? else { return Ok(None) };
    layout.check_is_within(file.len() as u64)?;
    layout.contents(|(at, len)| Ok(part(file, at, len).unwrap_or_default().to_vec())).map(Some)
}

/// The same of a file on the disk, of which only what counts is read; of one that is none what it begins with.
pub(crate) fn read(file: &File) -> io::Result<Result<Contents, Vec<u8>>> {
    let end = file.metadata()?.len();
    let mut page = Vec::new();
    file.take(PAGE).read_to_end(&mut page)?;
    let Some(layout) = layout(&page)? else { return Ok(Err(page)) };
    // Before memory is asked for: in a damaged header any number may be.
    layout.check_is_within(end)?;
    let read = |(at, len)| {
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        read_sparse(file, at, len)
    };
    layout.contents(read).map(Ok)
}

/// Of a file of this kind that is cut short what there is of the region, and where it lies.
pub(crate) fn cut_region(file: &[u8]) -> Option<(u64, &[u8])> {
    let (at, len) = layout(file).ok()??.region;
    let there = file.get(usize::try_from(at).ok()?..).filter(|there| !there.is_empty())?;
    Some((at, there.get(..usize::try_from(len).ok()?).unwrap_or(there)))
}

/// Reads so that zeros take no memory: what a buffer has not used yet may be most of it.
fn read_sparse(mut file: &File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut read = vec![0; 1 << 16];
    file.seek(SeekFrom::Start(at))?;
    for place in bytes.chunks_mut(1 << 16) {
        let Some(read) = read.get_mut(..place.len()) else { break };
        file.read_exact(read)?;
        if read.iter().any(|byte| *byte != 0) {
            place.copy_from_slice(read);
        }
    }
    Ok(bytes)
}
