//! Buffers in mapped files, whose content survives the process. Made on a Unix only; Windows can read such files.
//!
//! ```
//! use tracebuf_analysis::recover::Survivor;
//! use tracebuf_session::{BufferConfig, Session};
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
//! The pages belong to the system, so whatever was committed when the process dies, even by `kill -9`, is in the file,
//! without a system call in between: a commit is as fast as without a file. What still lay in shared memory is not. It
//! is committed once a second, by the next flush, and when it fills half of the [shared
//! memory](crate::SessionBuilder::shared_memory): a kill costs the last second and, for each thread, the last
//! event that it wrote before that; with [shared memory in the file](#with-shared-memory-in-it), neither. A power cut
//! is different: pages that the system had not yet written are gone, and half of a commit may be there without the
//! other; recovery then leaves out chunks that make no sense and, in a slot, everything after the first damage.
//!
//! # What the file must not suffer
//! As long as the session runs, the file must not be made shorter: touching a page that is gone ends the process by
//! SIGBUS. `> FILE`, `truncate`, and log rotation that copies and truncates all do this. The file's lock is for
//! sessions only, and prevents none of them. If the file is removed or renamed, the session goes on in it; a removed
//! file is gone when the process is.
//!
//! # With a long trace beside it
//! What the long trace has read must stay in the file until it is in the trace's. So the file has two *halves*. The
//! buffer lies in the first one. Before packets are read, its used part is copied into the second half, and one store
//! of eight bytes makes that the valid one. Then packets are consumed and put, in the form that they will have in the
//! trace, into a *slot*, and a second store makes the first half and the slot valid together. When the trace's file has
//! taken the slot, a third one frees it. So at any instant each packet is in the valid half, in a slot, or in the file. A slot knows where in the file it goes, so [`after`](tracebuf_analysis::recover::Survivor::after) can leave out
//! what is there already, if the file is that session's: the next session with the same trace file empties it. What
//! does not fit into a file of the [largest size](crate::LongTrace::max_file_size) stays in a slot. Bytes that
//! bypass the slots are lost when the process is killed while they are being written: a packet of more than a mebibyte,
//! and the last that such a file takes.
//!
//! Cost: a slot takes what is read at once, a quarter of the buffer, but at least 256 KiB and at most 16 MiB, and a
//! mebibyte more. The file has twice the buffer and two slots. Each period, and each slot that is filled in it, copies
//! the used part of the buffer: for a large one that is full, all of it for every 16 MiB.
//!
//! # With shared memory in it
//! With [`shared_memory_in_file`](crate::SessionBuilder::shared_memory_in_file), the shared memory of the
//! session's own threads is part of the file too, and the last second survives a kill. Recovery does what the drain
//! thread would have done next: it brings what threads had finished into the buffer, after what is there, each thread's
//! events in order; what the buffer or the long trace already has does not come again, as long as the buffer's table
//! has room for [all sequences](crate::BufferConfig::sequences). What a thread was just writing is given up.
//!
//! Not brought in are chunks for other buffers of the session, what programs in other processes had not sent, and an
//! event over more than two chunks of 2 KiB whose sizes the drain thread had not yet received: its thread's next event,
//! if there is one, says that it is lost. A buffer that discards and was full takes nothing. Pages that make no sense
//! are left out. After a power cut, which may leave half of a chunk without the other, packets of this part may be
//! damaged: it has no checksums.
//!
//! When the session stops, everything is in the buffers, and the file says that it has no shared memory. A child after
//! a fork has its own copy, as of all memory (in pages that it has not written it may find what its parent writes):
//! what it does within an event that was open during the fork is not in the file.
//!
//! # At the next start
//! A file that an earlier session left is moved to `FILE.previous`, and what was there to `FILE.previous.previous`,
//! which is removed once the session has started; if it does not start, both are put back, but not in place of a file
//! that another start has made meanwhile. If another session has a buffer in a file of one of these names, the session
//! does not start. So during a start there must be room for three. A file left by a start that was killed holds nothing
//! and is replaced: it begins with `TRACENEW`, or has only zeros. What was there before that start is then in
//! `FILE.previous`, and stays there until a session has started after it and stopped or died, and the next one starts.
//! [`Survivor::open`](tracebuf_analysis::recover::Survivor::open) and the command say so; neither uses that file instead, because
//! it may have been recovered before that start.
//!
//! # Layout
//! For a file that is cut short, or whose first page makes no sense, [recovery](tracebuf_analysis::recover) says [what is
//! wrong](tracebuf_analysis::recover::Damage).
//!
//! Little-endian. A page of 4 KiB, then the halves, the slots, and the table of writers immediately followed by shared
//! memory, each from the next multiple of 4 KiB on.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `TRACEMAP`; `TRACENEW` until the session has started |
//! | 8 | 8 | version, 1 |
//! | 16 | 8 | bytes of a half |
//! | 24 | 8 | halves: 1, or 2 with a long trace |
//! | 32 | 8 | slots: 0, or 2 |
//! | 40 | 8 | bytes of a slot |
//! | 48 | 8 | bit 0: the half that is valid; bit 1 + n: slot n is valid |
//! | 64 + 24 n | 24 | slot n: its length, its place in the file (all ones if not known yet), its number |
//! | 112 | 8 | bytes of shared memory; 0 if there is none, or when the session has stopped |
//! | 120 | 8 | bytes of a page of it: 4,096 |
//! | 128 | 8 | writers in the table: 1,024 |
//! | 136 | 8 | the buffer's number in its session |
//! | 144 | 24 | of its writers: the producer's number, the process's, the user's |
//! | 256 | 8 + 512 | length and bytes of a packet with the clocks at the start, with which the long trace begins too |
//!
//! In the table each writer, from 1 on, has four words of eight bytes. Bits 0–15: the number of the buffer that its
//! chunks are for; bit 16: 1 if the word is valid; bit 17: 1 if that holds for all of its chunks, otherwise it holds
//! for those from the number in bits 32–63 on. Where several words apply to a chunk, the last one counts.
//!
//! Either half may be the valid one: earlier versions moved the buffer to the other half with each slot. Programs older
//! than shared memory in files read such a file as one without it.

mod control;
mod memory;
mod outbox;
mod own_memory;
mod previous_file;
mod recovered_smb;
mod region_spec;
mod writers;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use crate::limits::WRITERS;
use writers::ENTRIES;

pub use previous_file::moved_by_a_start;
pub use recovered_smb::RecoveredSmb;
pub use tracebuf_std::free_file::{check_is_free, create_if_free};

pub(crate) use control::{OwnMark, create};
pub(crate) use memory::BufferMemory;
pub(crate) use outbox::{Outbox, Slot};
pub(crate) use own_memory::OwnMemory;
pub(crate) use region_spec::{RegionSpec, SharedMemorySpec};

/// The first bytes of the file.
pub const MAGIC: &[u8; 8] = b"TRACEMAP";
/// The same for a session that has not started yet.
pub const BEGUN: &[u8; 8] = b"TRACENEW";
const VERSION: u64 = 1;
const PAGE: u64 = 4096;
/// More than a part can have: a buffer has less than 4 GiB, and its table less than 1 GiB.
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
/// Bytes before shared memory that say which buffer each writer writes to: whole pages.
const TABLE: u64 = (WRITERS * ENTRIES * 8) as u64;
/// In place of a slot's offset in the file while that is not known.
const NO_OFFSET: u64 = u64::MAX;

/// Where the parts lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    half: u64,
    halves: u64,
    slots: u64,
    slot: u64,
    /// Bytes of shared memory, without the table before it.
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

    fn end(&self) -> u64 {
        let own = if self.own > 0 { TABLE.saturating_add(self.own) } else { 0 };
        self.own_at().saturating_add(own)
    }
}

/// Any number is possible: the header may be damaged.
fn whole_pages(len: u64) -> u64 {
    len.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

/// The content of a file of this kind, as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Where the region lies.
    pub start: u64,
    /// Its bytes.
    pub region: Vec<u8>,
    /// Slots that are valid, the first one first.
    pub slots: Vec<PendingWrite>,
    /// A packet with the clocks at the session's start.
    pub clocks: Vec<u8>,
    /// Shared memory of the session's own threads, if it lies in the file and the session was killed.
    pub own: Option<RecoveredSmb>,
}

/// Packets on their way into a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingWrite {
    number: u64,
    /// Where in the file they go, if known.
    pub at: Option<u64>,
    /// The packets.
    pub bytes: Vec<u8>,
}

fn number(file: &[u8], at: usize) -> Option<u64> {
    let bytes = file.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn part(file: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    file.get(usize::try_from(at).ok()?..)?.get(..usize::try_from(len).ok()?)
}

/// What is wrong with a file that begins like that of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// It ends within valid content: the buffer, packets on their way into a trace, or shared memory.
    Cut,
    /// It ends before its valid half.
    CutBefore,
    /// It has a version that is not known.
    Version(u64),
    /// The first page, which says what lies where and what of it is valid, makes no sense.
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

/// Where in the file the valid content lies.
struct Layout {
    region: (u64, u64),
    /// The slots' places, and what is known of them.
    slots: Vec<(PendingWrite, (u64, u64))>,
    clocks: Vec<u8>,
    own: Option<RecoveredSmb>,
}

/// Reads the first page; `None` if the file is of another kind.
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
    // A file can be as long as a damaged header says and take no room: such an amount of memory must not be requested.
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
        let at = Some(number(page, about + 8)?).filter(|at| *at != NO_OFFSET);
        let write = PendingWrite { number: number(page, about + 16)?, at, bytes: Vec::new() };
        slots.push((write, (places.slot_at(slot), len)));
    }
    slots.sort_by_key(|(slot, _)| slot.number);
    let len = number(page, CLOCKS)?.min(CLOCKS_MAX as u64);
    let clocks = part(page, CLOCKS as u64 + 8, len)?.to_vec();
    let own = if places.own == 0 { None } else { Some(RecoveredSmb::told(page, places)?) };
    Some(Layout { region: (places.half_at(word & 1), places.half), slots, clocks, own })
}

impl Layout {
    /// Whether all of it lies within a file of so many bytes.
    fn check_is_within(&self, file: u64) -> Result<(), Damage> {
        let is_within = |(at, len): (u64, u64)| at.checked_add(len).is_some_and(|behind| behind <= file);
        if self.region.0 >= file {
            return Err(Damage::CutBefore);
        }
        let slots = self.slots.iter().map(|(_, place)| *place);
        let own = self.own.iter().map(|own| own.place);
        if is_within(self.region) && slots.chain(own).all(is_within) { Ok(()) } else { Err(Damage::Cut) }
    }

    /// Adds the bytes that lie at these places.
    fn contents<E>(self, mut bytes: impl FnMut((u64, u64)) -> Result<Vec<u8>, E>) -> Result<Contents, E> {
        let region = bytes(self.region)?;
        let fill = |(slot, place)| Ok(PendingWrite { bytes: bytes(place)?, ..slot });
        let slots = self.slots.into_iter().map(fill).collect::<Result<_, E>>()?;
        let fill = |own: RecoveredSmb| Ok(RecoveredSmb { bytes: bytes(own.place)?, ..own });
        let own = self.own.map(fill).transpose()?;
        Ok(Contents { start: self.region.0, region, slots, clocks: self.clocks, own })
    }
}

/// Parses a file of this kind; `None` if it is not one.
pub fn parse(file: &[u8]) -> Result<Option<Contents>, Damage> {
    let Some(layout) = layout(file)? else { return Ok(None) };
    layout.check_is_within(file.len() as u64)?;
    layout.contents(|(at, len)| Ok(part(file, at, len).unwrap_or_default().to_vec())).map(Some)
}

/// The same for a file on the disk, of which only the valid content is read; if it is none, returns its first bytes.
pub fn read(file: &File) -> io::Result<Result<Contents, Vec<u8>>> {
    let end = file.metadata()?.len();
    let mut page = Vec::new();
    file.take(PAGE).read_to_end(&mut page)?;
    let Some(layout) = layout(&page)? else { return Ok(Err(page)) };
    // Before memory is requested: a damaged header may have any number.
    layout.check_is_within(end)?;
    let read = |(at, len)| {
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        read_sparse(file, at, len)
    };
    layout.contents(read).map(Ok)
}

/// What is left of the region in a file of this kind that is cut short, and where it lies.
pub fn cut_region(file: &[u8]) -> Option<(u64, &[u8])> {
    let (at, len) = layout(file).ok()??.region;
    let there = file.get(usize::try_from(at).ok()?..).filter(|there| !there.is_empty())?;
    Some((at, there.get(..usize::try_from(len).ok()?).unwrap_or(there)))
}

/// Reads in such a way that zeros take no memory: most of a buffer may not have been used yet.
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
