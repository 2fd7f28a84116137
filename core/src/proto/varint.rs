//! Variable-length integers: seven bits a byte, the least significant first, the top bit set on all
//! bytes but the last.
//!
//! A value has many encodings, because a byte of zeros may always be added. Perfetto's writers use that: they reserve
//! four bytes for a size before they know it. So [`decode`] takes redundant forms up to [`MAX_LEN`] bytes, [`encode`]
//! writes the shortest, [`encode_redundant`] exactly four bytes.
//!
//! ```
//! use tracebuf::proto::varint;
//!
//! let mut out = [0; varint::MAX_LEN];
//! assert_eq!(varint::encode(300, &mut out), Some(2));
//! assert_eq!(out[..2], [0xAC, 0x02]);
//! assert_eq!(varint::decode(&out), Some((300, 2)));
//!
//! let reserved = varint::encode_redundant(300).unwrap();
//! assert_eq!(reserved, [0xAC, 0x82, 0x80, 0x00]);
//! assert_eq!(varint::decode(&reserved), Some((300, 4)));
//! ```

/// Bytes in the longest varint: ⌈64 / 7⌉.
pub const MAX_LEN: usize = 10;

/// Bytes in a size field as Perfetto's writers reserve it.
pub const REDUNDANT_LEN: usize = 4;

/// The largest value of [`REDUNDANT_LEN`] bytes: 2²⁸ − 1.
pub const REDUNDANT_MAX: u32 = 0x0FFF_FFFF;

/// The size a writer gives to a fragment whose packet it gave up.
pub const ABORTED_SIZE: u32 = REDUNDANT_MAX;

/// The length in bytes of the shortest encoding of `value`, 1 to [`MAX_LEN`].
#[inline]
pub const fn len(value: u64) -> usize {
    // ⌈bits / 7⌉ without a division: 9/64 is a little more than 1/7, and near enough up to 64 bits
    // (a test tries each).
    let bits = 64 - (value | 1).leading_zeros() as usize;
    (bits * 9 + 64) >> 6
}

/// Reads the varint at the start of `bytes`: its value, and how many bytes it takes (1 to [`MAX_LEN`]).
///
/// `None` if `bytes` ends first or the varint is longer than [`MAX_LEN`] bytes. Bits above the 64th are dropped, as
/// Perfetto's own decoder does; [`PacketValidator`](super::PacketValidator) refuses them. The one- and two-byte forms,
/// nearly all that occur, are decided inline.
#[inline]
pub fn decode(bytes: &[u8]) -> Option<(u64, usize)> {
    match *bytes {
        [a, ..] if a < 0x80 => Some((u64::from(a), 1)),
        [a, b, ..] if b < 0x80 => Some((u64::from(a & 0x7F) | u64::from(b) << 7, 2)),
        _ => decode_long(bytes),
    }
}

/// The varint at the start of `bytes`, as [`decode`] reads it, and what follows it.
#[inline(always)]
pub fn split(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (value, len) = decode(bytes)?;
    Some((value, bytes.get(len..)?))
}

/// Out of line, so that each user of [`decode`] carries the short forms only.
#[inline(never)]
fn decode_long(bytes: &[u8]) -> Option<(u64, usize)> {
    #[cfg(target_pointer_width = "64")]
    if let Some(found) = bytes.first_chunk().and_then(|word| decode_word(u64::from_le_bytes(*word))) {
        return Some(found);
    }
    let mut value = 0;
    for (index, &byte) in bytes.iter().take(MAX_LEN).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// A varint of up to eight bytes without a loop, for machines with words of eight: half the time for a
/// timestamp. `None` if none of the eight ends it.
#[cfg(target_pointer_width = "64")]
#[inline]
const fn decode_word(word: u64) -> Option<(u64, usize)> {
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return None;
    }
    // All bits below the first end's own, which is the top one of its byte.
    let word = word & (ends ^ (ends - 1)) & 0x7F7F_7F7F_7F7F_7F7F;
    // Groups of 7 bits become groups of 14, 28 and 56.
    let word = (word & 0x007F_007F_007F_007F) | (word & 0x7F00_7F00_7F00_7F00) >> 1;
    let word = (word & 0x0000_3FFF_0000_3FFF) | (word & 0x3FFF_0000_3FFF_0000) >> 2;
    let word = (word & 0x0000_0000_0FFF_FFFF) | (word & 0x0FFF_FFFF_0000_0000) >> 4;
    Some((word, ends.trailing_zeros() as usize / 8 + 1))
}

/// Writes the shortest encoding of `value` to the start of `out` and returns its length.
///
/// `None`, with `out` unchanged, if it does not fit; [`MAX_LEN`] bytes always do. As in [`decode`], the one- and
/// two-byte forms are decided inline: all tags of a packet are among them.
#[inline]
pub fn encode(value: u64, out: &mut [u8]) -> Option<usize> {
    match out {
        [a, ..] if value < 1 << 7 => {
            *a = value as u8;
            Some(1)
        }
        [a, b, ..] if value < 1 << 14 => {
            *a = value as u8 | 0x80;
            *b = (value >> 7) as u8;
            Some(2)
        }
        _ => encode_long(value, out),
    }
}

#[inline(never)]
fn encode_long(value: u64, out: &mut [u8]) -> Option<usize> {
    let len = len(value);
    let out = out.get_mut(..len)?;
    let mut rest = value;
    for byte in out.iter_mut() {
        *byte = rest as u8 | 0x80;
        rest >>= 7;
    }
    if let Some(last) = out.last_mut() {
        *last &= 0x7F;
    }
    Some(len)
}

/// `value` in exactly four bytes, as it is written over a size field reserved earlier.
///
/// `None` if `value` is above [`REDUNDANT_MAX`].
#[inline]
pub const fn encode_redundant(value: u32) -> Option<[u8; REDUNDANT_LEN]> {
    if value > REDUNDANT_MAX {
        return None;
    }
    Some([value as u8 | 0x80, (value >> 7) as u8 | 0x80, (value >> 14) as u8 | 0x80, (value >> 21) as u8])
}

/// The value of a varint of four bytes, given in little-endian order; the last may say that there are more.
#[inline]
pub(crate) const fn of_four_bytes(word: u32) -> u32 {
    word & 0x7F | word >> 1 & 0x3F80 | word >> 2 & 0x1F_C000 | word >> 3 & 0xFE0_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values at which an encoding grows by a byte, and their neighbours.
    fn edges() -> impl Iterator<Item = u64> {
        (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).chain([
            u64::MAX - 1,
            u64::MAX,
            300,
            0x0FFF_FFFF,
        ])
    }

    #[test]
    fn bytes_that_end_too_early_are_told_from_a_varint_that_is_too_long() {
        assert_eq!(decode(&[0x80; 9]), None);
        assert_eq!(decode(&[0x80; 10]), None);
        assert_eq!(decode(&[0x80; 11]), None);
    }

    #[test]
    fn every_value_comes_back_from_its_shortest_encoding() {
        for value in edges() {
            let mut out = [0xEE; MAX_LEN + 1];
            let written = encode(value, &mut out).unwrap();
            assert_eq!(written, len(value), "{value}");
            assert!(out[written..].iter().all(|&byte| byte == 0xEE));
            assert_eq!(decode(&out[..written]), Some((value, written)));
            assert_eq!(decode(&out), Some((value, written)), "what follows does not matter");
            out[written..].fill(0x7F);
            assert_eq!(decode(&out), Some((value, written)));
            for short in 0..written {
                assert_eq!(decode(&out[..short]), None);
                let mut small = [0xEE; MAX_LEN];
                assert_eq!(encode(value, &mut small[..short]), None);
                assert_eq!(small, [0xEE; MAX_LEN]);
            }
        }
    }

    #[test]
    fn the_length_grows_with_every_seventh_bit() {
        for bits in 1..=64_usize {
            let value = u64::MAX >> (64 - bits);
            assert_eq!(len(value), bits.div_ceil(7), "{bits} bits");
        }
        assert_eq!(len(0), 1);
    }

    #[test]
    fn redundant_encodings_of_any_length_up_to_ten_bytes_are_read() {
        for total in 2..=MAX_LEN {
            let mut bytes = [0x80; MAX_LEN];
            bytes[0] = 0x85;
            bytes[total - 1] = 0;
            assert_eq!(decode(&bytes), Some((5, total)));
        }
    }

    #[test]
    fn eleven_bytes_are_too_many() {
        let mut bytes = [0x80; 11];
        bytes[10] = 0;
        assert_eq!(decode(&bytes), None);
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn bits_above_the_sixty_fourth_are_dropped() {
        let mut bytes = [0xFF; MAX_LEN];
        bytes[9] = 0x7F;
        assert_eq!(decode(&bytes), Some((u64::MAX, 10)));
        bytes = [0x80; MAX_LEN];
        bytes[9] = 0x02;
        assert_eq!(decode(&bytes), Some((0, 10)));
    }

    #[test]
    fn a_reserved_size_field_takes_four_bytes_whatever_its_value() {
        for value in edges().filter_map(|value| u32::try_from(value).ok()) {
            match encode_redundant(value) {
                Some(bytes) => {
                    assert_eq!(decode(&bytes), Some((value.into(), REDUNDANT_LEN)));
                    assert_eq!(of_four_bytes(u32::from_le_bytes(bytes)), value);
                    assert_eq!(of_four_bytes(u32::from_le_bytes(bytes) | 1 << 31), value);
                }
                None => assert!(value > REDUNDANT_MAX),
            }
        }
        assert!(encode_redundant(REDUNDANT_MAX).is_some());
        assert!(encode_redundant(REDUNDANT_MAX + 1).is_none());
    }
}
