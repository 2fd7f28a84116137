//! Numbers that look random, and are always the same.

/// The step of [`mix`].
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's finaliser, a bijection.
pub fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(STEP);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}
