//! Sizes and times as options have them.

use std::time::Duration;

pub(crate) fn number_and_unit(text: &str) -> Result<(f64, String), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.parse().map_err(|_| format!("'{text}' does not begin with a number"))?;
    Ok((number, unit.trim().to_ascii_lowercase()))
}

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

pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kb" | "kib" => 1024.0,
        "m" | "mb" | "mib" => 1024.0 * 1024.0,
        "g" | "gb" | "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("'{unit}' is no unit of size: KiB, MiB or GiB")),
    };
    Ok((number * factor) as u64)
}
