//! Operations as bytes: an opcode, then its fields, so that inputs can be written by hand.

use arbitrary::{Arbitrary, Result, Unstructured};

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
    /// A chunk is written, and committed at once unless bit 3 of `how` is set.
    Produce {
        /// Whose.
        writer: u8,
        /// Bits: 0 the last fragment continues, 1 it needs patches, 2 the last packet is given up, 3 the
        /// chunk stays with the writer, 4 sizes have four bytes, 5 and above slack.
        how: u8,
        /// Sizes of fragments, 0 or from 3.
        sizes: Vec<u8>,
    },
    /// A chunk is committed whole, for the first time or again.
    Commit {
        /// Whose.
        writer: u8,
        /// Which.
        back: u8,
        /// Bit 0: through a closure.
        how: u8,
    },
    /// A chunk still with its writer is scraped.
    Scrape {
        /// Whose.
        writer: u8,
        /// Which.
        back: u8,
        /// Bits: 0 through a closure, 1 flags of the end show already, 2 as a complete one; above: fragments.
        how: u8,
    },
    /// The oldest remaining patches of a chunk arrive.
    Patch {
        /// Whose.
        writer: u8,
        /// Which.
        back: u8,
        /// Bit 0: only one of them.
        how: u8,
    },
    /// A read session of at most so many packets, 255 for all; the exporter refuses packet `reject`.
    Read {
        /// The most packets.
        limit: u8,
        /// Which one is refused, from 1; 0 for none.
        reject: u8,
    },
    /// Packets are taken as leases.
    Lease {
        /// How many.
        limit: u8,
    },
    /// A lease is given up.
    GiveUp {
        /// Which.
        index: u8,
    },
    /// A clone, whose memory is this far off a boundary.
    Clone {
        /// Bytes.
        offset: u8,
    },
    /// A chunk that breaks all rules.
    Hostile {
        /// Producer and writer: 0 both zero, otherwise one of a few.
        writer: u8,
        /// Added to its last id, as a signed number; 0x80 and 0x7F jump far.
        step: u8,
        /// Declared fragments.
        fragments: u8,
        /// Flags; bit 3 complete, bit 4 through a closure that changes its mind.
        flags: u8,
        /// The payload.
        payload: Vec<u8>,
    },
    /// A patch that breaks all rules.
    HostilePatch {
        /// As above.
        writer: u8,
        /// As above.
        step: u8,
        /// Where.
        offset: u8,
        /// What.
        data: u8,
    },
}

impl<'a> Arbitrary<'a> for Setup {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self { ring: u.arbitrary()?, layout: u.arbitrary()?, mode: u.arbitrary()? })
    }
}

impl<'a> Arbitrary<'a> for Op {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut byte = || u.arbitrary::<u8>();
        Ok(match byte()? % 16 {
            0..=3 => {
                let (writer, how, count) = (byte()?, byte()?, byte()? % 8);
                let sizes = (0..count).map(|_| byte()).collect::<Result<_>>()?;
                Self::Produce { writer, how, sizes }
            }
            4 | 5 => Self::Commit { writer: byte()?, back: byte()?, how: byte()? },
            6 | 7 => Self::Scrape { writer: byte()?, back: byte()?, how: byte()? },
            8 => Self::Patch { writer: byte()?, back: byte()?, how: byte()? },
            9 | 10 => Self::Read { limit: byte()?, reject: byte()? },
            11 => Self::Lease { limit: byte()? },
            12 => Self::GiveUp { index: byte()? },
            13 => Self::Clone { offset: byte()? },
            14 => {
                let (writer, step, fragments, flags, len) = (byte()?, byte()?, byte()?, byte()?, byte()?);
                let payload = (0..len % 64).map(|_| byte()).collect::<Result<_>>()?;
                Self::Hostile { writer, step, fragments, flags, payload }
            }
            _ => Self::HostilePatch { writer: byte()?, step: byte()?, offset: byte()?, data: byte()? },
        })
    }
}

impl Setup {
    /// As an input.
    pub fn to_bytes(&self) -> Vec<u8> {
        vec![self.ring, self.layout, self.mode]
    }
}

impl Op {
    /// As an input.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Produce { writer, how, sizes } => {
                let mut bytes = vec![0, *writer, *how, sizes.len() as u8];
                bytes.extend(sizes);
                bytes
            }
            Self::Commit { writer, back, how } => vec![4, *writer, *back, *how],
            Self::Scrape { writer, back, how } => vec![6, *writer, *back, *how],
            Self::Patch { writer, back, how } => vec![8, *writer, *back, *how],
            Self::Read { limit, reject } => vec![9, *limit, *reject],
            Self::Lease { limit } => vec![11, *limit],
            Self::GiveUp { index } => vec![12, *index],
            Self::Clone { offset } => vec![13, *offset],
            Self::Hostile { writer, step, fragments, flags, payload } => {
                let mut bytes = vec![14, *writer, *step, *fragments, *flags, payload.len() as u8];
                bytes.extend(payload);
                bytes
            }
            Self::HostilePatch { writer, step, offset, data } => vec![15, *writer, *step, *offset, *data],
        }
    }
}
