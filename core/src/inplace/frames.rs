//! Frames of what is recorded in place: their layout on a line, and what the host reads in them.

use super::decode::{ChunkView, NameView};
use super::headers::{HeaderView, header_of};
use super::layout::{HEADER, NameWord};
use super::words::{Text, Words};

/// Kinds of frames. Pieces of packets, on the same lines, have 0 to 3.
pub(super) mod frame {
    /// The header's 16 words as they are, then the time (two words, the lower first).
    pub(in super::super) const HELLO: u8 = 0x10;
    /// The start, then the time (two words).
    pub(in super::super) const TIME: u8 = 0x14;
    /// The start (16 bits) above the name's number (16 bits), the two words of the table, the text.
    pub(in super::super) const NAME: u8 = 0x18;
    /// A chunk's words as they are, up to the first zero in place of an event.
    pub(in super::super) const CHUNK: u8 = 0x1C;
}

/// Words of a hello.
pub(super) const HELLO_WORDS: usize = HEADER + 2;
/// Words before a name's text.
pub(super) const NAME_WORDS: usize = 3;

/// What a frame says.
///
/// # On the line
/// A frame is its kind (1 byte), its number (2, little-endian), words (4 each, little-endian, whatever the device's
/// order) and CRC-32/ISO-HDLC over all of these (4, little-endian); COBS-encoded as a whole and ended by a zero. That
/// is what `proto::frame` has, so one `FrameDecoder` takes both off a line. The longest, of a chunk of 128 words, has
/// 523 bytes before its zero.
///
/// Numbers count the frames of a sender: 0 for its first, which is a [`Hello`](Self::Hello) and has a zero before it,
/// and 1 after 65,535. A number that is missing was lost on the line. A sender begins anew with each start.
///
/// A hello comes about once a second, a time four times. A name comes before the first chunk that needs it, and again
/// by and by, some after each hello: who joins late knows all of them after a while. A chunk that is still open may
/// come; it comes again with more events in it, the same ones first, as often as it grows, until it is complete. Then it
/// comes once more, as a whole. A number of a writer's chunks that is missing was overwritten before it could be sent,
/// unless frames were lost.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Message<'b> {
    /// Who sends.
    Hello(Hello),
    /// It is so late, in ticks, in that start (modulo 65,536): read just before the frame went out, as the first of what
    /// the line was given.
    Time {
        /// The start.
        start: u32,
        /// Ticks.
        now: u64,
    },
    /// A name, or a track.
    Name {
        /// The start (modulo 65,536) that sent it. Names of earlier starts stay, so it is the same in all of them.
        start: u32,
        /// Its number, as events have it.
        number: u32,
        /// What it is. A text may be cut.
        name: NameView<'b>,
    },
    /// Events.
    Chunk(ChunkView<'b>),
}

/// Who sends: what is in the header of a region.
#[derive(Clone, Copy, Debug)]
pub struct Hello {
    header: HeaderView,
    /// The time in ticks: see [`Message::Time`].
    pub now: u64,
}

impl core::ops::Deref for Hello {
    type Target = HeaderView;

    fn deref(&self) -> &HeaderView {
        &self.header
    }
}

impl Hello {
    /// Words of a chunk.
    pub fn chunk_words(&self) -> u32 {
        1 << self.log(1)
    }

    /// Chunks of the ring.
    pub fn chunks(&self) -> u32 {
        1 << self.log(2)
    }

    /// Places for names: the largest number that one may have.
    pub fn names(&self) -> u32 {
        1 << self.log(3)
    }
}

impl<'b> Message<'b> {
    /// What a frame says that came intact. `None` if it is of a kind or version that this decoder does not know, such as
    /// a piece of a packet, or too short.
    pub fn of(kind: u8, piece: &'b [u8]) -> Option<Self> {
        let words = Words { bytes: piece, is_big: false };
        let long = |at| Some(u64::from(words.get(at)?) | u64::from(words.get(at + 1)?) << 32);
        match kind {
            frame::HELLO => {
                Some(Self::Hello(Hello { header: HeaderView(header_of(words)?), now: long(HEADER)? }))
            }
            frame::TIME => Some(Self::Time { start: words.get(0)? & 0xFFFF, now: long(1)? }),
            frame::NAME => {
                let (first, key, word) = (words.get(0)?, words.get(1)?, NameWord(words.get(2)?));
                let texts = words.part(NAME_WORDS, piece.len() / 4 - NAME_WORDS)?;
                let len = (word.len() as usize).min(texts.bytes.len());
                let text = (word.text() != NameWord::NO_TEXT).then_some(Text { words: texts, len });
                let name = NameView { key, is_track: word.has(NameWord::TRACK), text };
                Some(Self::Name { start: first >> 16, number: first & 0xFFFF, name })
            }
            frame::CHUNK => {
                let chunk = ChunkView::of(piece).filter(|chunk| chunk.is_used());
                chunk.map(Self::Chunk)
            }
            _ => None,
        }
    }
}

const _: () = assert!(HELLO_WORDS <= 32 && NAME_WORDS < 32, "fits into the smallest chunk");
