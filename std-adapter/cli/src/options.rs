//! Options of several commands: sizes, times, and the buffer of a dump that is meant.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracebuf_analysis::recover::{Dump, Place, RecoverError};
use tracebuf_machine::RecordOptions;
use tracebuf_std::display::Count;

use crate::failure::{Failure, name_of, status};

fn number_and_unit(text: &str) -> Result<(f64, String), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.parse().map_err(|_| format!("'{text}' does not begin with a number"))?;
    Ok((number, unit.trim().to_ascii_lowercase()))
}

/// The most whole hours that a time can have, named in the error when there are more.
const LONGEST_INTERVAL: &str = "5124095576030430h";

/// A time; seconds without a unit.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let (number, unit) = number_and_unit(text)?;
    let seconds = match unit.as_str() {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{unit}' is no unit of time: ms, s, m or h")),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("{LONGEST_INTERVAL} is the longest"))
}

/// A size. A letter alone is a power of two, as in other programs; with a B it is a power of ten.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let size = size(text)?;
    // As an `f64`, `u64::MAX` is rounded up to 2⁶⁴.
    if size < u64::MAX as f64 {
        Ok(size as u64)
    } else {
        Err("there are fewer than 2⁶⁴ bytes".to_owned())
    }
}

/// The size of a ring, the same in all commands that have one.
pub(crate) fn ring(text: &str) -> Result<u32, String> {
    let size = Some(size(text)?).filter(|size| *size <= f64::from(u32::MAX)).map(|size| size as u32);
    let size = size.filter(|size| RecordOptions::RING.contains(&u64::from(*size)));
    size.ok_or_else(|| "a ring has 4 KiB at least, and less than 4 GiB".to_owned())
}

/// A rate per second, which may be less than a byte.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    let rate = size(text.strip_suffix("/s").unwrap_or(text))?;
    if rate.is_finite() { Ok(rate) } else { Err("nothing can write so fast".to_owned()) }
}

fn size(text: &str) -> Result<f64, String> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit.as_str() {
        "" | "b" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("'{unit}' is no unit of size: B, kB, MB, GB, KiB, MiB or GiB")),
    };
    Ok(number * factor)
}

/// How much a gzipped file may unpack to where all of it must be in memory: a small file can become a thousand times as
/// large.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct MostUnpacked {
    /// The most that a gzipped file may unpack to; without it 64 MiB, or 32 times the file if that is more.
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    most_unpacked: Option<u64>,
}

impl MostUnpacked {
    /// What any file may unpack to.
    pub(crate) const FEW: u64 = 64 << 20;
    /// How many times its size a larger one may. Traces become 5 to 20 times as large.
    pub(crate) const TIMES: u64 = 32;

    #[cfg(test)]
    pub(crate) const fn of_bytes(most: u64) -> Self {
        Self { most_unpacked: Some(most) }
    }

    /// The most for a file of so many bytes, packed.
    pub(crate) fn of(&self, packed: u64) -> u64 {
        let most = self.most_unpacked.unwrap_or_else(|| Self::FEW.max(packed.saturating_mul(Self::TIMES)));
        most.min(isize::MAX as u64)
    }
}

/// At most so many other buffers are listed one by one.
const OTHERS: usize = 8;

/// The place in a dump where a command looks.
#[derive(clap::Args)]
pub(crate) struct BufferChoice {
    /// Where the buffer's memory starts, or something before it, decimal or 0x…: an address or, in a raw dump, which
    /// has none, the offset from its start. Without it the dump is searched.
    #[arg(long, alias = "offset", value_parser = address, conflicts_with = "symbol")]
    address: Option<u64>,
    /// The variable that is the buffer's memory, or contains it: a static of Rust by its path or the end of it, TRACE,
    /// firmware::TRACE.
    #[arg(long)]
    symbol: Option<String>,
    /// The program that ran, with its symbols: for --symbol, and for names that only it has. For a dump without symbols.
    #[arg(long, value_name = "ELF")]
    pub(crate) program: Option<PathBuf>,
}

/// The most that a program's file may have: those of firmware have some megabytes, most of them for a debugger.
const LARGEST_PROGRAM: u64 = 1 << 30;

/// All of a program's file.
pub(crate) fn read_program(path: &Path) -> io::Result<Vec<u8>> {
    let (mut elf, file) = (Vec::new(), File::open(path)?);
    // What is no file may have no end.
    if file.metadata()?.len() <= LARGEST_PROGRAM {
        file.take(LARGEST_PROGRAM + 1).read_to_end(&mut elf)?;
        if elf.len() as u64 <= LARGEST_PROGRAM {
            return Ok(elf);
        }
    }
    Err(io::Error::new(ErrorKind::FileTooLarge, "a program has 1 GiB at most"))
}

/// Says that names are missing from a trace because a program is not the one that recorded.
pub(crate) fn report_other_build(program: &Path, events: u64) {
    status!(
        "error: {}: it is not known to be the build that recorded {}, which have numbers in place of names: give the very \
         file that was flashed with --program, and that of the build before an update for what that recorded",
        name_of(program),
        Count(events, "event")
    );
}

fn address(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "no number below 2⁶⁴, decimal or with 0x before it hexadecimal".into())
}

impl BufferChoice {
    /// Returns true if neither was given.
    pub(crate) fn is_any(&self) -> bool {
        self.address.is_none() && self.symbol.is_none()
    }

    /// The dump that this file holds, with the symbols that are meant, and where in it to look.
    pub(crate) fn of<'f>(&self, path: &Path, file: &'f [u8]) -> Result<(Dump<'f>, Place), Failure> {
        let mut dump = Dump::parse(file).map_err(|error| Failure::of(path, error))?;
        if let Some(program) = &self.program {
            let elf = read_program(program).map_err(|error| Failure::of(program, error))?;
            dump.symbols_of(&elf).map_err(|error| match error {
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

/// Prints where there are buffers other than the one that was taken.
pub(crate) fn report_others(others: &[u64]) {
    if !others.is_empty() {
        let told: Vec<_> = others.iter().take(OTHERS).map(|address| format!("{address:#x}")).collect();
        let more = if others.len() > OTHERS { " and elsewhere" } else { "" };
        status!("other buffers at {}{more}: --address takes one of them", told.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_the_same_in_a_size_and_in_a_rate() {
        for (text, size) in [
            ("16MB", 16_000_000),
            ("16mb", 16_000_000),
            ("1.5kB", 1500),
            ("2GB", 2_000_000_000),
            ("16MiB", 16 << 20),
            ("16 MiB", 16 << 20),
            ("16M", 16 << 20),
            ("4k", 4096),
            ("1GiB", 1 << 30),
            ("12B", 12),
            ("12", 12),
        ] {
            assert_eq!(bytes(text), Ok(size), "{text}");
            let rates = [rate(text), rate(&format!("{text}/s"))].map(Result::ok);
            assert_eq!(rates, [Some(size as f64); 2], "{text}");
        }
        // A rate is not cut to whole bytes.
        assert_eq!((rate("0.5"), rate("1.9B/s")), (Ok(0.5), Ok(1.9)));
        for none in ["", "MB", "-1MB", "4 apples", "1e3", "1..2", "1MB/s/s"] {
            assert!(bytes(none).is_err() && rate(none).is_err(), "{none}");
        }
        assert!(bytes("1MB/s").is_err());
    }

    #[test]
    fn what_is_more_than_can_be_told_is_refused() {
        assert_eq!(bytes("17179869183GiB"), Ok(17_179_869_183 << 30));
        assert_eq!(bytes("17179869184GiB"), Err("there are fewer than 2⁶⁴ bytes".to_owned()));
        assert_eq!(rate(&"9".repeat(400)), Err("nothing can write so fast".to_owned()));
        assert!(interval(LONGEST_INTERVAL).is_ok());
        for longer in ["5124095576030431h", "99999999999999999999h", &"9".repeat(400)] {
            assert_eq!(interval(longer), Err("5124095576030430h is the longest".to_owned()), "{longer}");
        }
    }

    #[test]
    fn an_address_is_decimal_or_hexadecimal() {
        for (text, number) in [("4096", 4096), ("0x1000", 4096), ("0X1000", 4096), ("0xfFfF", 65_535)] {
            assert_eq!(address(text), Ok(number), "{text}");
        }
        for none in ["", "0x", "1000h", "-1", "0x1_000"] {
            assert!(address(none).is_err(), "{none}");
        }
    }
}
