//! Operations as bytes: an opcode, then its fields, so that inputs can be written by hand.

use crate::input::Input;

/// The buffer to work on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    /// Bytes of ring, in steps of 4 above 64.
    pub ring: u8,
    /// Places in the table above 4, three bits; how far the memory is off an 8-byte boundary, three bits;
    /// histograms; discard.
    pub layout: u8,
    /// Which ids the writers begin at, two bits; who watches overwriting, two bits.
    pub mode: u8,
}

/// One operation. A `writer` is one of three; `back` counts chunks from its newest.
#[derive(Clone, Debug)]
pub enum Op {
    /// A chunk of fragments of these sizes (0 or from 3) is written, and committed at once unless bit 3 of `how` is
    /// set. Its other bits: 0 the last fragment continues, 1 it needs patches, 2 the last packet is given up, 4 sizes
    /// have four bytes, 5 and above slack.
    Produce { writer: u8, how: u8, sizes: Vec<u8> },
    /// A chunk is committed whole, for the first time or again; bit 0 of `how`: through a closure.
    Commit { writer: u8, back: u8, how: u8 },
    /// A chunk still with its writer is scraped. Bits: 0 through a closure, 1 flags of the end show already, 2 as a
    /// complete one; above: fragments.
    Scrape { writer: u8, back: u8, how: u8 },
    /// The oldest remaining patches of a chunk arrive; bit 0: only one of them.
    Patch { writer: u8, back: u8, how: u8 },
    /// A read session of at most so many packets, 255 for all; the exporter refuses packet `reject`, from 1.
    Read { limit: u8, reject: u8 },
    /// Packets are taken as leases.
    Lease { limit: u8 },
    /// A lease is given up.
    GiveUp { index: u8 },
    /// A clone, whose memory is this many bytes off a boundary.
    Clone { offset: u8 },
    /// A chunk that breaks all rules. Its `writer` is 0 for producer and writer 0, otherwise one of a few; `step` is
    /// added to its last id, as a signed number, where 0x80 and 0x7F jump far; bit 3 of `flags` is complete, bit 4
    /// through a closure, bit 5 one that changes its mind.
    Hostile { writer: u8, step: u8, fragments: u8, flags: u8, payload: Vec<u8> },
    /// A patch that breaks all rules.
    HostilePatch { writer: u8, step: u8, offset: u8, data: u8 },
}

impl Setup {
    /// The first bytes of an input.
    pub fn read(input: &mut Input<'_>) -> Self {
        Self { ring: input.byte(), layout: input.byte(), mode: input.byte() }
    }
}

impl Op {
    /// The next operation of an input.
    pub fn read(input: &mut Input<'_>) -> Self {
        let mut byte = || input.byte();
        match byte() % 16 {
            0..=3 => {
                let (writer, how, count) = (byte(), byte(), byte() % 8);
                Self::Produce { writer, how, sizes: (0..count).map(|_| byte()).collect() }
            }
            4 | 5 => Self::Commit { writer: byte(), back: byte(), how: byte() },
            6 | 7 => Self::Scrape { writer: byte(), back: byte(), how: byte() },
            8 => Self::Patch { writer: byte(), back: byte(), how: byte() },
            9 | 10 => Self::Read { limit: byte(), reject: byte() },
            11 => Self::Lease { limit: byte() },
            12 => Self::GiveUp { index: byte() },
            13 => Self::Clone { offset: byte() },
            14 => {
                let (writer, step, fragments, flags, len) = (byte(), byte(), byte(), byte(), byte());
                let payload = (0..len % 64).map(|_| byte()).collect();
                Self::Hostile { writer, step, fragments, flags, payload }
            }
            _ => Self::HostilePatch { writer: byte(), step: byte(), offset: byte(), data: byte() },
        }
    }
}
