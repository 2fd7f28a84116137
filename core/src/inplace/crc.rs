//! CRC-32/ISO-HDLC, four bits at a time: a table of 64 bytes.

const TABLE: [u32; 16] = {
    let mut table = [0; 16];
    let mut index = 0;
    while index < table.len() {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 4 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

/// A sum of nothing so far.
pub(super) const NOTHING: u32 = !0;

/// Adds the lowest `bytes` of a word, the first in the lowest eight bits. The sum is the inverse of the result. Cost: 10
/// instructions a byte.
pub(super) fn add(crc: u32, word: u32, bytes: u32) -> u32 {
    (0..2 * bytes).fold(crc ^ word, |crc, _| crc >> 4 ^ TABLE[(crc & 15) as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_sum_that_everybody_has() {
        let digits = [u32::from_le_bytes(*b"1234"), u32::from_le_bytes(*b"5678")];
        let both = digits.iter().fold(NOTHING, |crc, word| add(crc, *word, 4));
        assert_eq!(!add(both, b'9'.into(), 1), 0xCBF4_3926);
    }
}
