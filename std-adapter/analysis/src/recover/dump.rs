//! Memory by address, and the search for a region in it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use tracebuf::buffer::{AttachError, RingView};
use tracebuf::inplace::RegionView;
use tracebuf_session::parts::whole_within;
use tracebuf_session::region_file::{self, Contents, PendingWrite, RecoveredSmb};

use crate::LinkedNames;

use super::found::{Found, attach, region};
use super::symbols::{Symbols, Variable};
use super::unmarked::chunks_before;
use super::{Damage, RecoverError, SharedMemoryImage, formats};

/// A place in a dump to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first region that can be attached to. With several, it is unknown which is meant, so the
    /// [`others`](Found::others) are listed.
    Anywhere,
    /// The region at this address or, if there is none, at the next multiple of 8; if there is none either, the first
    /// after it in the same piece of memory. In a raw dump it is the offset from its start.
    Address(u64),
    /// The region at the address of the variable of this name, or the first within it, because firmware has shared
    /// memory before the ring. Only for ELF files with symbols.
    ///
    /// A static of Rust is found by its path, `oven::firmware::TRACE`, or the last parts of it, `TRACE`; a symbol with
    /// exactly this name takes precedence.
    Symbol(String),
}

/// Memory by address, from a file that holds it.
///
/// ```
/// use tracebuf_analysis::recover::{Dump, Place};
///
/// # use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
/// # let mut buffer = TraceBuffer::new(vec![0u8; 2048], Config::new(FillPolicy::RingBuffer).sequences(4))?;
/// # let header = ChunkHeader { producer_id: 7, fragments: 1, ..Default::default() };
/// # buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x05" });
/// # let file = [vec![0xAA; 512], buffer.into_memory()].concat();
/// # let out = std::env::temp_dir().join(format!("doc-dump-{}.pftrace", std::process::id()));
/// // `file` is what the debugger has saved, such as by GDB's `dump binary memory`.
/// let recovered = Dump::parse(&file)?.find(Place::Anywhere)?.write_to(&out)?;
/// assert_eq!(recovered.packets, 1);
/// # std::fs::remove_file(out)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Dump<'f> {
    /// Pieces that do not touch each other, by their first address.
    pieces: BTreeMap<u64, Cow<'f, [u8]>>,
    symbols: Symbols,
    linked: LinkedNames,
    /// The number of its bytes, if it has no addresses.
    raw: Option<u64>,
    on_the_way: OnTheWay,
    /// Shared memory besides the buffer, in the buffer's file.
    own: Option<RecoveredSmb>,
    kept: Option<Vec<u8>>,
    damage: Option<Damage>,
}

/// Content of the [slots](tracebuf_session::region_file) of a buffer's file, on its way into a long trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnTheWay {
    /// Bytes of whole packets.
    pub(crate) bytes: u64,
    /// Bytes from the first damage on.
    pub(crate) unreadable: u64,
}

impl OnTheWay {
    fn of(slots: &[PendingWrite]) -> Self {
        slots.iter().fold(Self::default(), |sum, slot| {
            let (whole, len) = (whole_within(&slot.bytes, u64::MAX), slot.bytes.len());
            let unreadable = len.saturating_sub(whole) as u64;
            Self { bytes: sum.bytes + whole as u64, unreadable: sum.unreadable + unreadable }
        })
    }
}

impl<'f> Dump<'f> {
    /// Reads a dump. ELF and Intel HEX, recognised by how they start, are copied into memory; everything else is raw,
    /// and not copied.
    ///
    /// # Errors
    /// [`RecoverError::Malformed`] if it starts as one of them but does not continue so.
    pub fn parse(file: &'f [u8]) -> Result<Self, RecoverError> {
        if let Some(dump) = formats::read(file) {
            // A core has none, and of too many none can be told.
            let linked = LinkedNames::of_program(file).unwrap_or_default();
            return dump.map(|(pieces, symbols)| Self { pieces, symbols, linked, ..Self::default() });
        }
        let damage = match region_file::parse(file) {
            // Of the two halves, the valid one.
            Ok(Some(Contents { start, region, slots, own, kept, .. })) => {
                let (pieces, on_the_way) = (BTreeMap::from([(start, region.into())]), OnTheWay::of(&slots));
                return Ok(Self { pieces, on_the_way, own, kept, ..Self::default() });
            }
            Ok(None) => None,
            Err(damage) => Some(damage),
        };
        if let Some((start, region)) = region_file::cut_region(file) {
            let pieces = BTreeMap::from([(start, region.into())]);
            return Ok(Self { pieces, damage, ..Self::default() });
        }
        if file.starts_with(region_file::BEGUN) {
            // The buffer in it was never used.
            return Ok(Self::default());
        }
        let pieces = BTreeMap::from([(0, file.into())]);
        Ok(Self { pieces, raw: Some(file.len() as u64), damage, ..Self::default() })
    }

    /// The damage, if it is the file of a buffer but cannot be a [`Survivor`](super::Survivor). What is found in it is
    /// then whatever lies there, as in a raw dump.
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }

    /// What was kept beside the ring of a file of a buffer.
    pub(crate) fn kept(&self) -> Option<&[u8]> {
        self.kept.as_deref()
    }

    pub(crate) fn on_the_way(&self) -> OnTheWay {
        self.on_the_way
    }

    /// Takes from a program, for a core that has none, the names of variables and [linked names](LinkedNames).
    ///
    /// # Errors
    /// [`RecoverError::Malformed`] if it is not an ELF file, or its linked names cannot be told apart.
    pub fn symbols_of(&mut self, program: &[u8]) -> Result<(), RecoverError> {
        self.symbols = formats::read_elf(program)?.1;
        self.linked =
            LinkedNames::of_program(program).map_err(|error| RecoverError::Malformed(error.to_string()))?;
        Ok(())
    }

    /// The linked names of the program, or of the dump if it is a program.
    pub fn linked_names(&self) -> &LinkedNames {
        &self.linked
    }

    /// Finds the region and attaches to a copy of it, which takes as much memory as the region has; also copies the
    /// shared memory before it or in its file, if there is any.
    pub fn find(&self, place: Place) -> Result<Found, RecoverError> {
        let found = self.find_region(place)?;
        let shared = self.shared_before(found.address);
        let unmarked = match (&shared, self.around(found.address)) {
            (None, Some((before, _))) => chunks_before(before),
            _ => 0,
        };
        // What else the file had is gone.
        let lost_beside = u64::from(self.damage.is_some());
        Ok(Found { shared, unmarked, lost_beside, ..found })
    }

    /// A region in which firmware recorded [in place](tracebuf::inplace), and its address: the first, or the one at that
    /// place.
    pub fn in_place(&self, place: &Place) -> Option<(u64, RegionView<'_>)> {
        let within = |variable: Variable| {
            let bytes = self.at(variable.address)?;
            let view = RegionView::find(bytes.get(..variable.most().min(bytes.len()))?)?;
            Some((variable.address + view.offset() as u64, view))
        };
        match place {
            Place::Anywhere => self.all_in_place().next(),
            Place::Address(address) => {
                let from = |address| within(Variable { address, size: 0 });
                from(*address).or_else(|| from(address.checked_next_multiple_of(8)?))
            }
            Place::Symbol(name) => within(self.symbols.find(name).ok()?),
        }
    }

    /// All such regions: firmware may have one for each core, say.
    pub fn all_in_place(&self) -> impl Iterator<Item = (u64, RegionView<'_>)> {
        self.pieces.iter().flat_map(|(start, bytes)| {
            let mut begin = 0;
            std::iter::from_fn(move || {
                let view = RegionView::find(bytes.get(begin..)?)?;
                let at = begin + view.offset();
                begin = at + view.size();
                Some((start + at as u64, view))
            })
        })
    }

    fn find_region(&self, place: Place) -> Result<Found, RecoverError> {
        let variable = match place {
            Place::Anywhere => {
                return search(self.pieces.iter().map(|(start, bytes)| (*start, &bytes[..], bytes.len())));
            }
            Place::Address(address) => Variable { address, size: 0 },
            Place::Symbol(name) => self.symbols.find(&name)?,
        };
        let address = variable.address;
        match self.attach_near(address) {
            Err(error @ RecoverError::Attach(AttachError::NoRegion)) => {
                let Some(bytes) = self.at(address) else { return Err(error) };
                search([(address, bytes, variable.most())].into_iter()).map_err(|_| error)
            }
            Err(RecoverError::NotInDump(offset)) => Err(match self.raw {
                Some(len) => RecoverError::BehindRawDump { offset, len },
                None => RecoverError::NotInDump(offset),
            }),
            found => found,
        }
    }

    /// The region at an address or at the next boundary.
    fn attach_near(&self, address: u64) -> Result<Found, RecoverError> {
        // A region starts at the first 8-byte boundary of the memory that was handed over. A dump may begin anywhere in
        // memory, so there it may lie at any offset, where a search finds it.
        let boundary = address.checked_next_multiple_of(8).filter(|boundary| *boundary > address);
        match (self.attach_at(address), boundary) {
            (
                Err(error @ (RecoverError::NotInDump(_) | RecoverError::Attach(AttachError::NoRegion))),
                Some(boundary),
            ) => match self.attach_at(boundary) {
                Err(RecoverError::NotInDump(_)) => Err(error),
                found => found,
            },
            (found, _) => found,
        }
    }

    fn attach_at(&self, address: u64) -> Result<Found, RecoverError> {
        let bytes = self.at(address).ok_or(RecoverError::NotInDump(address))?;
        attach(address, bytes).map_err(RecoverError::Attach)
    }

    /// The bytes of a region at an address where one was found.
    pub(crate) fn region_at(&self, address: u64) -> Result<&[u8], RecoverError> {
        let bytes = self.at(address).ok_or(RecoverError::NotInDump(address))?;
        region(bytes).map_err(RecoverError::Attach)
    }

    fn at(&self, address: u64) -> Option<&[u8]> {
        self.around(address).map(|(_, behind)| behind).filter(|bytes| !bytes.is_empty())
    }

    /// The piece of memory that contains an address, split there.
    fn around(&self, address: u64) -> Option<(&[u8], &[u8])> {
        let (start, piece) = self.pieces.range(..=address).next_back()?;
        piece.split_at_checked(usize::try_from(address - start).ok()?)
    }

    fn shared_before(&self, address: u64) -> Option<SharedMemoryImage> {
        match &self.own {
            Some(left) => SharedMemoryImage::in_file(left),
            None => self.around(address).and_then(|(before, _)| SharedMemoryImage::before(before, address)),
        }
    }
}

/// The first region in memory, given as pieces with their addresses and in how many bytes of each a region may start.
fn search<'a>(pieces: impl Iterator<Item = (u64, &'a [u8], usize)>) -> Result<Found, RecoverError> {
    let (mut first, mut failed) = (None::<Found>, AttachError::NoRegion);
    for (start, bytes, len) in pieces {
        let windows = bytes.windows(RingView::MAGIC.len()).take(len).enumerate();
        for (at, _) in windows.filter(|(_, window)| *window == RingView::MAGIC) {
            let (address, bytes) = (start + at as u64, &bytes[at..]);
            let found = match &mut first {
                // Memory with a sound header can be attached to.
                Some(first) => {
                    first.others.extend(region(bytes).is_ok().then_some(address));
                    continue;
                }
                None => attach(address, bytes),
            };
            match found {
                Ok(found) => first = Some(found),
                Err(AttachError::NoRegion) => {}
                Err(AttachError::UnknownVersion { .. }) if !may_be_region(bytes) => {}
                Err(error) => failed = error,
            }
        }
    }
    first.ok_or(RecoverError::Attach(failed))
}

/// Returns true if a region of another version may start like this: with a small version number, then the header's
/// size. Code that looks for regions contains the same four letters.
fn may_be_region(bytes: &[u8]) -> bool {
    let Some(&[_, 0, low, high]) = bytes.get(4..8) else { return false };
    let size = u16::from_le_bytes([low, high]);
    size > 0 && size.is_multiple_of(8)
}
