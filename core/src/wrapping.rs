//! The order of numbers that wrap around: ids of chunks, numbers of flushes.
//!
//! Two numbers are compared by their distance, which must be less than 2³¹: as RFC 1982 compares serial numbers.

/// Whether a number comes after another one.
///
/// ```
/// use tracebuf::wrapping::is_after;
///
/// assert!(is_after(8, 7) && !is_after(7, 7) && is_after(0, u32::MAX));
/// ```
#[inline(always)]
pub const fn is_after(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) as i32 > 0
}

/// Whether a number has come to another one: it is the same, or comes after it.
#[inline(always)]
pub const fn is_reached(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) as i32 >= 0
}

#[cfg(test)]
mod tests {
    use super::{is_after, is_reached};

    #[test]
    fn after_the_last_number_comes_0() {
        for number in [0, 7, u32::MAX - 1, u32::MAX] {
            for step in [1, 2, (1 << 31) - 1] {
                let next = number.wrapping_add(step);
                assert!(is_after(next, number) && !is_after(number, next), "{number} {step}");
                assert!(is_reached(next, number) && !is_reached(number, next), "{number} {step}");
            }
            assert!(!is_after(number, number) && is_reached(number, number));
        }
    }
}
