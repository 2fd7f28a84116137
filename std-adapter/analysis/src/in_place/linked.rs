//! Names that are only in the program's file, by the numbers that the linker gave them.

use std::collections::BTreeMap;
use std::io;

use object::{Object, ObjectSymbol};
use tracebuf::inplace::LINKED_NAMES;

use super::names::Names;

/// What begins the symbol of a name.
const PREFIX: &[u8] = b"tracebuf:";

/// The names that a program has with [`linked_name!`](tracebuf::linked_name), by their numbers.
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
pub struct LinkedNames(BTreeMap<u32, Vec<u8>>);

impl LinkedNames {
    /// Reads the symbols of a program. Without such names, or stripped, it has none. Cost: a copy of their texts.
    ///
    /// # Errors
    /// [`InvalidData`](io::ErrorKind::InvalidData): it is no ELF file, or a damaged one; or there are more such names
    /// than numbers, so that nobody knows which is meant.
    pub fn of_program(elf: &[u8]) -> io::Result<Self> {
        let malformed = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let elf = object::File::parse(elf).map_err(|error| malformed(error.to_string()))?;
        let mut names = BTreeMap::new();
        for symbol in elf.symbols().filter(|symbol| !symbol.is_undefined()) {
            let name = symbol.name_bytes().unwrap_or_default();
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
            names.insert(number, String::from_utf8_lossy(text).into_owned().into_bytes());
        }
        Ok(Self(names))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text of a name by its number, which is in [`LINKED_NAMES`].
    pub fn text(&self, number: u32) -> Option<&[u8]> {
        self.0.get(&number).map(Vec::as_slice)
    }
}

/// Names of a device, and of its program.
pub(crate) struct AllNames<'n, N> {
    pub(crate) kept: &'n N,
    pub(crate) linked: &'n LinkedNames,
}

impl<N: Names> Names for AllNames<'_, N> {
    fn name(&self, number: u32) -> Option<Vec<u8>> {
        if !LINKED_NAMES.contains(&number) {
            return self.kept.name(number);
        }
        // Whoever has the program can still look the symbol's address up.
        let unknown = || format!("linked name {:#x}", number - LINKED_NAMES.start()).into_bytes();
        Some(self.linked.text(number).map_or_else(unknown, <[u8]>::to_vec))
    }

    fn has_text(&self, number: u32) -> bool {
        if LINKED_NAMES.contains(&number) {
            self.linked.text(number).is_some()
        } else {
            self.kept.has_text(number)
        }
    }
}
