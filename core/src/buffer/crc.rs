//! CRC-32 as in Ethernet, zip and PNG (ISO-HDLC), by half bytes: its table takes 64 bytes, not 1 KiB.

/// Bytes of a checksum.
pub(super) const CRC_SIZE: u16 = 4;

const POLYNOMIAL: u32 = 0xEDB8_8320;
const TABLE: [u32; 16] = table();

const fn table() -> [u32; 16] {
    let mut table = [0; 16];
    let mut index = 0;
    while index < 16 {
        table[index] = shift(index as u32, 4);
        index += 1;
    }
    table
}

/// Shifts by `bits` bits, one by one.
const fn shift(mut value: u32, bits: u32) -> u32 {
    let mut bit = 0;
    while bit < bits {
        value = (value >> 1) ^ if value & 1 != 0 { POLYNOMIAL } else { 0 };
        bit += 1;
    }
    value
}

/// A checksum over the bytes given so far.
#[derive(Clone, Copy)]
pub(super) struct Crc(u32);

impl Crc {
    pub(super) fn new() -> Self {
        Self(u32::MAX)
    }

    #[inline(never)]
    pub(super) fn with(self, bytes: &[u8]) -> Self {
        let half = |crc: u32| (crc >> 4) ^ TABLE.get((crc & 15) as usize).copied().unwrap_or_default();
        let next = |crc: u32| {
            // Without the feature only a region's header has a checksum, which is not worth the table.
            if cfg!(feature = "crc") { half(half(crc)) } else { shift(crc, 8) }
        };
        Self(bytes.iter().fold(self.0, |crc, byte| next(crc ^ u32::from(*byte))))
    }

    pub(super) fn value(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_published_algorithm_comes_out() {
        assert_eq!(Crc::new().with(b"123456789").value(), 0xCBF4_3926);
        assert_eq!(Crc::new().with(b"1234").with(b"56789").value(), 0xCBF4_3926);
    }

    #[test]
    fn the_table_is_the_published_one() {
        let published = [
            0x0000_0000,
            0x1DB7_1064,
            0x3B6E_20C8,
            0x26D9_30AC,
            0x76DC_4190,
            0x6B6B_51F4,
            0x4DB2_6158,
            0x5005_713C,
            0xEDB8_8320,
            0xF00F_9344,
            0xD6D6_A3E8,
            0xCB61_B38C,
            0x9B64_C2B0,
            0x86D3_D2D4,
            0xA00A_E278,
            0xBDBD_F21C,
        ];
        assert_eq!(table(), published);
    }
}
