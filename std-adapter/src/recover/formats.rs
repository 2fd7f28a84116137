//! Files that say at which addresses their bytes lie: ELF and Intel HEX.

#[cfg(feature = "dumps")]
mod elf;
#[cfg(feature = "dumps")]
mod intel_hex;
#[cfg(feature = "dumps")]
mod pieces;

use super::{Dump, RecoverError};
#[cfg(not(feature = "dumps"))]
use {left_out as elf, left_out as intel_hex};

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

#[cfg(not(feature = "dumps"))]
mod left_out {
    use crate::recover::{Dump, RecoverError};

    pub(super) fn read<T: ?Sized>(_: &T) -> Result<Dump<'static>, RecoverError> {
        let why = "ELF files and Intel HEX take the feature `dumps`, with which this program was not built";
        Err(RecoverError::Malformed(why.to_owned()))
    }
}

#[cfg(all(test, not(feature = "dumps")))]
mod tests {
    use crate::recover::Dump;

    #[test]
    fn a_program_without_the_feature_says_so() {
        for file in [&b"\x7FELF\x01\x01"[..], b":00000001FF\n"] {
            let error = Dump::parse(file).expect_err("nobody can read it").to_string();
            assert!(error.contains("`dumps`"), "{error}");
        }
        assert!(Dump::parse(b"raw").is_ok());
    }
}
