//! Which buffer of a dump is meant.

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::files::read_plain;
use crate::tell::tell;
use tracebuf_analysis::recover::{Dump, Place, RecoverError};

/// At most so many other buffers are listed one by one.
const OTHERS: usize = 8;

/// How a command is told where in a dump to look.
#[derive(clap::Args)]
pub(crate) struct Which {
    /// Where the buffer's memory starts, or something before it, decimal or 0x…: an address or, in a raw dump, which
    /// has none, the offset from its start. Without it the dump is searched.
    #[arg(long, alias = "offset", value_parser = number, conflicts_with = "symbol")]
    address: Option<u64>,
    /// The variable that is the buffer's memory, or contains it: a static of Rust by its path or the end of it, TRACE,
    /// firmware::TRACE.
    #[arg(long)]
    symbol: Option<String>,
    /// The program whose symbols are meant, for a dump without symbols.
    #[arg(long, value_name = "ELF", requires = "symbol")]
    pub(crate) program: Option<PathBuf>,
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "no number below 2⁶⁴, decimal or with 0x before it hexadecimal".into())
}

impl Which {
    /// Whether neither was given.
    pub(crate) fn is_any(&self) -> bool {
        self.address.is_none() && self.symbol.is_none()
    }

    /// The dump that this file holds, with the symbols that are meant, and where in it to look.
    pub(crate) fn of<'f>(&self, path: &Path, file: &'f [u8]) -> Result<(Dump<'f>, Place), Failure> {
        let mut dump = Dump::parse(file).map_err(|error| Failure::of(path, error))?;
        if let Some(program) = &self.program {
            dump.symbols_of(&read_plain(program)?).map_err(|error| match error {
                // The program is at fault, not the dump.
                RecoverError::Malformed(why) => {
                    Failure::of(program, format_args!("no program can be read: {why}"))
                }
                error => Failure::of(path, error),
            })?;
        }
        let place = match (self.address, &self.symbol) {
            (Some(address), _) => Place::Address(address),
            (None, Some(name)) => Place::Symbol(name.clone()),
            (None, None) => Place::Anywhere,
        };
        Ok((dump, place))
    }
}

/// Reports where there are buffers other than the one that was taken.
pub(crate) fn tell_of_others(others: &[u64]) {
    if !others.is_empty() {
        let told: Vec<_> = others.iter().take(OTHERS).map(|address| format!("{address:#x}")).collect();
        let more = if others.len() > OTHERS { " and elsewhere" } else { "" };
        tell!("other buffers at {}{more}: --address takes one of them", told.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_a_number_of_a_script_is() {
        for (text, address) in [("4096", 4096), ("0x1000", 4096), ("0X1000", 4096), ("0xfFfF", 65_535)] {
            assert_eq!(number(text), Ok(address), "{text}");
        }
        for none in ["", "0x", "1000h", "-1", "0x1_000"] {
            assert!(number(none).is_err(), "{none}");
        }
    }
}
