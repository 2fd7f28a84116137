//! Files that say at which addresses their bytes lie: ELF and Intel HEX.

mod elf;
mod intel_hex;
mod pieces;

use super::{Dump, RecoverError};

/// The content of the file, if it starts as one of these.
pub(super) fn parse(file: &[u8]) -> Option<Result<Dump<'static>, RecoverError>> {
    if file.starts_with(b"\x7FELF") {
        return Some(elf::read(file));
    }
    let text = std::str::from_utf8(file).ok()?;
    text.trim_start().starts_with(':').then(|| intel_hex::read(text))
}

/// The variables of a program.
pub(super) fn symbols_of(program: &[u8]) -> Result<super::Symbols, RecoverError> {
    Ok(elf::read(program)?.symbols)
}
