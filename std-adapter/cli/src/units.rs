//! Sizes and times as options take them, the same in all commands.

use std::time::Duration;

use tracebuf_machine::RecordOptions;

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
    if size >= u64::MAX as f64 {
        Err("there are fewer than 2⁶⁴ bytes".to_owned())
    } else {
        Ok(size as u64)
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
}
