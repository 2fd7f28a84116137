//! `tracebuf recover`: the trace from a memory dump.
//!
//! The file of a buffer that a session kept [in a file](tracebuf_session::region_file) is a [`Survivor`]. Other dumps:
//!
//! A dump is a raw copy of memory, Intel HEX, or an ELF file: a core with its segments, or a program with its symbols.
//! Somewhere in it lies a region as [`tracebuf::buffer::TraceBuffer`] leaves it; the device it comes from does not
//! matter, because all words of a region have one byte order and size. Before it there may be shared memory, [if the
//! firmware marks it](tracebuf::service::StartMark), with what its writers did last: that is found with the region.
//!
//! ```
//! use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
//! use tracebuf_analysis::recover::{Dump, Place};
//!
//! let region = TraceBuffer::new(vec![0u8; 2048], Config::new(FillPolicy::RingBuffer).sequences(4))?.into_memory();
//! let mut memory = vec![0xAA; 512]; // what the linker put before it
//! memory.extend(region);
//! let found = Dump::parse(&memory)?.find(Place::Anywhere)?;
//! assert_eq!((found.address, found.salvage.is_clean()), (512, true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod behind;
mod error;
mod formats;
mod found;
mod output;
mod shared;
mod survivor;
mod symbols;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use tracebuf::buffer::{AttachError, ReadOnlyTraceBuffer, RingView, Salvage};

pub use behind::{Behind, Gap};
pub use error::RecoverError;
pub use found::Recovered;
pub use shared::SharedMemoryImage;
pub use survivor::Survivor;
use symbols::{Symbols, Variable};
pub use tracebuf_session::Written;
use tracebuf_session::parts::whole_within;
pub use tracebuf_session::region_file::Damage;
use tracebuf_session::region_file::{self, Contents, PendingWrite, RecoveredSmb};

/// Where in a dump to look.
///
/// ```
/// use tracebuf_analysis::recover::{Dump, Place};
///
/// # let config = tracebuf::buffer::Config::new(tracebuf::buffer::FillPolicy::RingBuffer).sequences(4);
/// # let region = tracebuf::buffer::TraceBuffer::new(vec![0u8; 2048], config)?.into_memory();
/// # let memory = [&region[..], &[0xAA; 64], &region].concat();
/// let dump = Dump::parse(&memory)?; // of a device with two rings
/// let first = dump.find(Place::Anywhere)?;
/// assert_eq!((first.address, &first.others[..]), (0, &[2112][..]));
/// assert_eq!(dump.find(Place::Address(2112))?.address, 2112);
/// // Names are only in ELF files with symbols.
/// let error = dump.find(Place::Symbol("TRACE".into())).unwrap_err();
/// assert_eq!(error.to_string(), "the dump has no symbol TRACE");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// The number of its bytes, if it has no addresses.
    raw: Option<u64>,
    on_the_way: OnTheWay,
    /// Shared memory besides the buffer, in the buffer's file.
    own: Option<RecoveredSmb>,
    damage: Option<Damage>,
}

/// What is in the [slots](tracebuf_session::region_file) of a buffer's file, on its way into a long trace.
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

/// A region of a dump, ready to be read.
///
/// ```
/// use tracebuf_analysis::recover::{Dump, Found, Place};
///
/// # use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
/// # let mut buffer = TraceBuffer::new(vec![0u8; 2048], Config::new(FillPolicy::RingBuffer).sequences(4))?;
/// # let header = ChunkHeader { producer_id: 7, fragments: 1, ..Default::default() };
/// # buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x05" });
/// # let file = buffer.into_memory();
/// let Found { address, salvage, mut buffer, .. } = Dump::parse(&file)?.find(Place::Anywhere)?;
/// println!("a buffer at {address:#x}, {salvage}");
/// let mut reader = buffer.read();
/// while let Some(packet) = reader.next_packet() {
///     println!("producer {}: {} bytes", packet.producer_id(), packet.len());
/// }
/// assert!(salvage.is_clean());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Found {
    /// Where it lies: an address, or in a raw dump the offset from its start.
    pub address: u64,
    /// What had to be dropped.
    pub salvage: Salvage,
    /// The buffer that was found.
    pub buffer: ReadOnlyTraceBuffer<Aligned>,
    /// Shared memory before it, if the firmware [marks it](tracebuf::service::StartMark). Its content is not in the
    /// buffer until it is [brought in](Self::bring_in).
    pub shared: Option<SharedMemoryImage>,
    /// Where there are others in what was searched, such as a snapshot of the same ring. Empty if no search was needed.
    pub others: Vec<u64>,
}

/// Bytes that start at an 8-byte boundary.
///
/// ```
/// use tracebuf::buffer::ReadOnlyTraceBuffer;
/// use tracebuf_analysis::recover::Aligned;
///
/// # let config = tracebuf::buffer::Config::new(tracebuf::buffer::FillPolicy::RingBuffer).sequences(4);
/// # let region = tracebuf::buffer::TraceBuffer::new(vec![0u8; 2048], config)?.into_memory();
/// // `region` is a buffer's memory that came from elsewhere, in a vector that may lie anywhere.
/// let (mut buffer, salvage) = ReadOnlyTraceBuffer::attach_ended(Aligned::from(region))?;
/// assert!(salvage.is_clean() && buffer.read().next_packet().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
}

impl Aligned {
    pub(crate) fn copy_of(source: &[u8]) -> Self {
        let mut bytes = vec![0; source.len() + 8];
        let start = bytes.as_ptr().align_offset(8).min(8);
        bytes[start..start + source.len()].copy_from_slice(source);
        bytes.truncate(start + source.len());
        Self { bytes, start }
    }
}

impl fmt::Debug for Aligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aligned").field("len", &self.as_ref().len()).finish_non_exhaustive()
    }
}

impl From<Vec<u8>> for Aligned {
    /// Without a copy where the bytes are already aligned, as large vectors always are.
    fn from(bytes: Vec<u8>) -> Self {
        if bytes.as_ptr().align_offset(8) == 0 { Self { bytes, start: 0 } } else { Self::copy_of(&bytes) }
    }
}

impl AsRef<[u8]> for Aligned {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl AsMut<[u8]> for Aligned {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

impl<'f> Dump<'f> {
    /// Reads a dump: ELF and Intel HEX are recognised by how they start and need the feature `dumps`; everything else
    /// is raw. Takes memory for a copy of the memory that the file describes; raw bytes are not copied.
    ///
    /// # Errors
    /// [`RecoverError::Malformed`] if it starts as one of them but does not continue so, or without that feature.
    pub fn parse(file: &'f [u8]) -> Result<Self, RecoverError> {
        if let Some(dump) = formats::parse(file) {
            return dump;
        }
        let damage = match region_file::parse(file) {
            // Of the two halves, the valid one.
            Ok(Some(Contents { start, region, slots, own, .. })) => {
                let (pieces, on_the_way) = (BTreeMap::from([(start, region.into())]), OnTheWay::of(&slots));
                return Ok(Self { pieces, on_the_way, own, ..Self::default() });
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

    /// What is wrong with it, if it is the file of a buffer but cannot be a [`Survivor`]. What is found in it is then
    /// whatever lies there, as in a raw dump.
    ///
    /// ```
    /// use tracebuf_analysis::recover::{Damage, Dump};
    ///
    /// let dump = Dump::parse(b"TRACEMAP, and there the copy broke off")?;
    /// assert_eq!(dump.damage(), Some(Damage::CutBefore));
    /// # Ok::<(), tracebuf_analysis::recover::RecoverError>(())
    /// ```
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }

    pub(crate) fn on_the_way(&self) -> OnTheWay {
        self.on_the_way
    }

    /// Takes the names of variables from a program, for a core that has none.
    ///
    /// # Errors
    /// [`RecoverError::Malformed`] if it is not an ELF file, or without the feature `dumps`.
    pub fn symbols_of(&mut self, program: &[u8]) -> Result<(), RecoverError> {
        self.symbols = formats::symbols_of(program)?;
        Ok(())
    }

    /// Finds the region and attaches to a copy of it, which takes as much memory as the region has; also copies the
    /// shared memory before it or in its file, if there is any.
    ///
    /// # Errors
    /// [`RecoverError`] says what is missing.
    pub fn find(&self, place: Place) -> Result<Found, RecoverError> {
        let found = self.find_region(place)?;
        Ok(Found { shared: self.shared_before(found.address), ..found })
    }

    fn find_region(&self, place: Place) -> Result<Found, RecoverError> {
        let Variable { address, size } = match place {
            Place::Anywhere => {
                return search(self.pieces.iter().map(|(start, bytes)| (*start, &bytes[..], bytes.len())));
            }
            Place::Address(address) => Variable { address, size: 0 },
            Place::Symbol(name) => self.symbols.find(&name)?,
        };
        match self.attach_near(address) {
            Err(error @ RecoverError::Attach(AttachError::NoRegion)) => {
                let Some(bytes) = self.at(address) else { return Err(error) };
                let len = usize::try_from(size).unwrap_or(usize::MAX);
                search([(address, bytes, if len > 0 { len } else { usize::MAX })].into_iter())
                    .map_err(|_| error)
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

/// Whether a region of another version may start like this: with a small version number, then the header's size. Code
/// that looks for regions contains the same four letters.
fn may_be_region(bytes: &[u8]) -> bool {
    let Some(&[_, 0, low, high]) = bytes.get(4..8) else { return false };
    let size = u16::from_le_bytes([low, high]);
    size > 0 && size.is_multiple_of(8)
}

fn attach(address: u64, bytes: &[u8]) -> Result<Found, AttachError> {
    attach_to(address, Aligned::copy_of(region(bytes)?))
}

/// The same for bytes that nobody else needs.
fn attach_owned(address: u64, mut bytes: Vec<u8>) -> Result<Found, AttachError> {
    bytes.truncate(region(&bytes)?.len());
    attach_to(address, bytes.into())
}

fn attach_to(address: u64, region: Aligned) -> Result<Found, AttachError> {
    let (buffer, salvage) = ReadOnlyTraceBuffer::attach_ended(region)?;
    Ok(Found { address, salvage, buffer, shared: None, others: Vec::new() })
}

/// The part of these bytes that the region takes. Its ring may be cut off.
fn region(bytes: &[u8]) -> Result<&[u8], AttachError> {
    let ring = RingView::place(bytes)?;
    if ring.start > bytes.len() {
        // Without the whole table, nothing tells whose the chunks are.
        return Err(AttachError::TooShort { needed: ring.end });
    }
    Ok(bytes.get(..ring.end).unwrap_or(bytes))
}
