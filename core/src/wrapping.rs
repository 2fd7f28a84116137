//! The order of numbers that wrap around: ids of chunks, numbers of flushes.

/// Whether a number comes after another one, which is less than 2³¹ away: as RFC 1982 compares serial numbers.
#[inline(always)]
pub(crate) const fn is_after(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) as i32 > 0
}

#[cfg(test)]
mod tests {
    use super::is_after;

    #[test]
    fn after_the_last_number_comes_0() {
        for number in [0, 7, u32::MAX - 1, u32::MAX] {
            for step in [1, 2, (1 << 31) - 1] {
                let next = number.wrapping_add(step);
                assert!(is_after(next, number) && !is_after(number, next), "{number} {step}");
            }
            assert!(!is_after(number, number));
        }
    }
}
