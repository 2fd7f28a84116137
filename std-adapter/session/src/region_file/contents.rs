//! The contents of a region file, read for recovery.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use tracebuf::service::ProducerIdentity;

use super::clock_table;
use super::writers::{ENTRIES, Entry, target_of};
use super::{
    ABOUT, BUFFER, CLOCKS, CLOCKS_MAX, COUNT, HALF, HALVES, KEPT, KEPT_AT, KEPT_COUNTS, LARGEST, MAGIC,
    NO_OFFSET, OWN, OWN_PAGE, PAGE, PROCESS, PRODUCER, Places, SLOT, SLOTS, USER, VERSION, WORD, WRITERS_AT,
    number, table,
};
use crate::clock::ClockReading;
use crate::limits::{self, SHARED_MEMORY};

/// The content of a region file, as it was found.
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
    /// What the clocks showed then and while the session ran, the oldest first.
    pub clock_pairs: Vec<ClockReading>,
    /// Shared memory of the session's own threads, if it lies in the file and the session was killed.
    pub own: Option<RecoveredSmb>,
    /// What was kept of what the ring had forgotten, for [`CarryOver::recovered`](crate::CarryOver::recovered).
    pub kept: Option<Vec<u8>>,
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

fn part(file: &[u8], at: u64, len: u64) -> Option<&[u8]> {
    file.get(usize::try_from(at).ok()?..)?.get(..usize::try_from(len).ok()?)
}

/// Damage of a region file.
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
        let unknown = "which half counts, and what was on its way into a trace, is not known";
        f.write_str("the file of a buffer is ")?;
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
struct ValidParts {
    region: (u64, u64),
    slots: Vec<(PendingWrite, (u64, u64))>,
    clocks: Vec<u8>,
    clock_pairs: Vec<ClockReading>,
    own: Option<RecoveredSmb>,
    kept: Option<(u64, u64)>,
}

/// Reads the first page; `None` if the file is of another kind.
fn layout(page: &[u8]) -> Result<Option<ValidParts>, Damage> {
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
fn sound(page: &[u8]) -> Option<ValidParts> {
    let places = Places {
        half: number(page, HALF)?,
        halves: number(page, HALVES)?,
        slots: number(page, COUNT)?,
        slot: number(page, SLOT)?,
        own: number(page, OWN)?,
        // As many as numbers of writers have bits for.
        table: table(number(page, WRITERS_AT)?.min(1 << 16)),
        kept: number(page, KEPT)?,
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
    let (region, clock_pairs) = ((places.half_at(word & 1), places.half), clock_table::read(page));
    // It is of use only beside the rest: what of it makes no sense is left out.
    let kept_at = match number(page, KEPT_COUNTS)? {
        1 => number(page, KEPT_AT),
        2 => number(page, KEPT_AT).and_then(|at| at.checked_add(places.kept)),
        _ => None,
    };
    let kept = kept_at.filter(|_| places.kept <= LARGEST).map(|at| (at, places.kept));
    Some(ValidParts { region, slots, clocks, clock_pairs, own, kept })
}

impl ValidParts {
    fn check_is_within(&mut self, file: u64) -> Result<(), Damage> {
        let is_within = |(at, len): (u64, u64)| at.checked_add(len).is_some_and(|behind| behind <= file);
        if self.region.0 >= file {
            return Err(Damage::CutBefore);
        }
        self.kept = self.kept.filter(|place| is_within(*place));
        let slots = self.slots.iter().map(|(_, place)| *place);
        let own = self.own.iter().map(|own| own.place);
        if is_within(self.region) && slots.chain(own).all(is_within) { Ok(()) } else { Err(Damage::Cut) }
    }

    fn contents<E>(self, mut bytes: impl FnMut((u64, u64)) -> Result<Vec<u8>, E>) -> Result<Contents, E> {
        let region = bytes(self.region)?;
        let fill = |(slot, place)| Ok(PendingWrite { bytes: bytes(place)?, ..slot });
        let slots = self.slots.into_iter().map(fill).collect::<Result<_, E>>()?;
        let fill = |own: RecoveredSmb| Ok(RecoveredSmb { bytes: bytes(own.place)?, ..own });
        let own = self.own.map(fill).transpose()?;
        let kept = self.kept.map(bytes).transpose()?;
        let Self { region: (start, _), clocks, clock_pairs, .. } = self;
        Ok(Contents { start, region, slots, clocks, clock_pairs, own, kept })
    }
}

/// Parses a region file, which may be [damaged](Damage); `None` if the file is of another kind.
pub fn parse(file: &[u8]) -> Result<Option<Contents>, Damage> {
    let Some(mut layout) = layout(file)? else { return Ok(None) };
    layout.check_is_within(file.len() as u64)?;
    layout.contents(|(at, len)| Ok(part(file, at, len).unwrap_or_default().to_vec())).map(Some)
}

/// Reads the valid content of a region file; if it is of another kind, returns its first bytes.
///
/// # Errors
/// Those of the system, or [`InvalidData`](io::ErrorKind::InvalidData) if the file is damaged.
pub fn read(file: &File) -> io::Result<Result<Contents, Vec<u8>>> {
    let end = file.metadata()?.len();
    let mut page = Vec::new();
    file.take(PAGE).read_to_end(&mut page)?;
    let Some(mut layout) = layout(&page)? else { return Ok(Err(page)) };
    // Before memory is requested: a damaged header may have any number.
    layout.check_is_within(end)?;
    let read = |(at, len)| {
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        read_sparse(file, at, len)
    };
    layout.contents(read).map(Ok)
}

/// Returns what is left of the region in a file that is cut short, and where it lies.
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

/// Shared memory as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredSmb {
    buffer: u16,
    /// The producer whose writers wrote into it.
    pub identity: ProducerIdentity,
    /// Where it lies, including the table of writers before it.
    place: (u64, u64),
    /// Bytes of that table.
    table: usize,
    bytes: Vec<u8>,
}

impl RecoveredSmb {
    fn told(page: &[u8], places: Places) -> Option<Self> {
        let bytes = usize::try_from(places.own).ok().filter(|bytes| SHARED_MEMORY.contains(bytes))?;
        let table = usize::try_from(places.table).ok().filter(|table| *table > 0)?;
        if number(page, OWN_PAGE)? != limits::PAGE.into() || !places.table.is_multiple_of(PAGE) {
            return None;
        }
        let identity = ProducerIdentity {
            producer_id: number(page, PRODUCER)?.try_into().ok()?,
            uid: number(page, USER)?.try_into().ok()?,
            pid: u32::try_from(number(page, PROCESS)?).ok()? as i32,
        };
        Some(Self {
            buffer: number(page, BUFFER)?.try_into().ok()?,
            identity,
            place: (places.own_at(), places.table.saturating_add(bytes as u64)),
            table,
            bytes: Vec::new(),
        })
    }

    /// Returns where in the file it begins.
    pub fn start(&self) -> u64 {
        self.place.0.saturating_add(self.table as u64)
    }

    /// Returns the memory.
    pub fn words(&self) -> Vec<u32> {
        let memory = self.bytes.get(self.table..).unwrap_or_default();
        memory.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
    }

    /// Returns true if a writer's chunk is for the file's buffer, as far as is known.
    pub fn is_for_buffer(&self, writer_id: u16, chunk_id: u32) -> bool {
        let entries = |writer_id: u16| {
            let table = self.bytes.get(..self.table)?.as_chunks().0;
            table.get(usize::from(writer_id).checked_sub(1)? * ENTRIES..)?.first_chunk::<ENTRIES>()
        };
        let Some(entries) = entries(writer_id) else { return false };
        target_of(&entries.map(|entry| Entry(u64::from_le_bytes(entry))), chunk_id) == Some(self.buffer)
    }
}
