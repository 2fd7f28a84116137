//! Names that are only in the program's file, by the numbers that the linker gave them.

use std::collections::BTreeMap;
use std::io;

use object::{Object, ObjectSection, ObjectSymbol};
use tracebuf::inplace::LINKED_NAMES;

use super::names::Names;

/// What begins the symbol of a name.
const PREFIX: &[u8] = b"tracebuf:";
/// The symbol whose address is the mark of the build, and the section that it is the end of.
const MARK: &[u8] = b"__stop_tracebuf_build";
const MARKS: &[u8] = b"tracebuf_build";

/// The names that a program has with [`linked_name!`](tracebuf::linked_name), by their numbers.
///
/// They go with what the very same build recorded, as each build has a mark that it records, too. What is of another
/// build, or says of none, gets numbers.
///
/// ```no_run
/// use tracebuf_analysis::LinkedNames;
/// use tracebuf_analysis::receive::ReceiveOptions;
///
/// let names = LinkedNames::of_program(&std::fs::read("firmware.elf")?)?;
/// let board = ReceiveOptions::new("/dev/ttyACM0", "trace.pftrace").linked_names(names);
/// # let _ = board;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkedNames {
    texts: BTreeMap<u32, Vec<u8>>,
    build: Option<u32>,
}

impl LinkedNames {
    /// Reads the symbols of a program. Without such names it has none. Cost: a copy of their texts.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData): it is no ELF file, or a damaged one; its names were stripped; or there
    /// are more such names than numbers, so that nobody knows which is meant.
    pub fn of_program(elf: &[u8]) -> io::Result<Self> {
        let malformed = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let elf = object::File::parse(elf).map_err(|error| malformed(error.to_string()))?;
        let (mut texts, mut build) = (BTreeMap::new(), None);
        for symbol in elf.symbols().filter(|symbol| !symbol.is_undefined()) {
            let name = symbol.name_bytes().unwrap_or_default();
            if name == MARK {
                build = u32::try_from(symbol.address()).ok();
            }
            let Some(text) = name.strip_prefix(PREFIX).filter(|text| !text.is_empty()) else { continue };
            let number = u64::from(*LINKED_NAMES.start()).checked_add(symbol.address());
            let number = number.and_then(|number| u32::try_from(number).ok());
            let Some(number) = number.filter(|number| LINKED_NAMES.contains(number)) else {
                let most = LINKED_NAMES.count();
                return Err(malformed(format!(
                    "its linked names are more than {most}, or not at the addresses from 0 on: their numbers cannot be \
                     told apart"
                )));
            };
            texts.insert(number, String::from_utf8_lossy(text).into_owned().into_bytes());
        }
        let is_marks = |name: &[u8]| name == MARKS;
        if texts.is_empty() && elf.sections().any(|section| section.name_bytes().is_ok_and(is_marks)) {
            let why = "its linked names were stripped: give the file as the linker wrote it, and leave the symbols in";
            return Err(malformed(why.to_owned()));
        }
        Ok(Self { texts, build })
    }

    /// Whether they are of the build that recorded, if that is known.
    pub(crate) fn are_of(&self, build: Option<u32>) -> bool {
        build.is_some() && self.build == build
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The text of a name by its number, which is in [`LINKED_NAMES`].
    pub fn text(&self, number: u32) -> Option<&[u8]> {
        self.texts.get(&number).map(Vec::as_slice)
    }
}

/// Names of a device, and of the program that recorded if that is at hand.
pub(crate) struct AllNames<'n, N> {
    pub(crate) kept: &'n N,
    pub(crate) linked: Option<&'n LinkedNames>,
}

impl<N> AllNames<'_, N> {
    fn text(&self, number: u32) -> Option<&[u8]> {
        self.linked?.text(number)
    }
}

impl<N: Names> Names for AllNames<'_, N> {
    fn name(&self, number: u32) -> Option<Vec<u8>> {
        if !LINKED_NAMES.contains(&number) {
            return self.kept.name(number);
        }
        // Whoever has the program can still look the symbol's address up.
        let unknown = || format!("linked name {:#x}", number - LINKED_NAMES.start()).into_bytes();
        Some(self.text(number).map_or_else(unknown, <[u8]>::to_vec))
    }

    fn has_text(&self, number: u32) -> bool {
        if LINKED_NAMES.contains(&number) { self.text(number).is_some() } else { self.kept.has_text(number) }
    }
}
