//! Sizes and times as options have them: the same in all commands.

use std::time::Duration;

#[cfg(unix)]
use tracebuf_std::record::RecordOptions;

fn number_and_unit(text: &str) -> Result<(f64, String), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.parse().map_err(|_| format!("'{text}' does not begin with a number"))?;
    Ok((number, unit.trim().to_ascii_lowercase()))
}

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
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

/// A size. A letter alone is a power of two, as other programs have it; with a B it is one of ten.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    Ok(size(text)? as u64)
}

/// The size of a ring: the same in all commands that have one.
#[cfg(unix)]
pub(crate) fn ring(text: &str) -> Result<u32, String> {
    let size = u32::try_from(bytes(text)?).ok();
    let size = size.filter(|size| RecordOptions::RING.contains(&u64::from(*size)));
    size.ok_or_else(|| "a ring has 4 KiB at least, and less than 4 GiB".to_owned())
}

/// A size a second, which may be less than a byte.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    size(text.strip_suffix("/s").unwrap_or(text))
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
}
