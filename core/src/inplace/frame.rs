//! A frame on its way to the line, encoded as the line takes it.

use super::crc;

/// Content, of which each byte is at hand, and how far it has gone out.
///
/// COBS puts the distance to the next zero before what follows, so a frame needs no memory beside its words.
pub(super) struct Frame<W> {
    pub(super) words: W,
    head: [u8; 3],
    crc: u32,
    /// Bytes of content, with head and sum.
    len: usize,
    /// The next byte of content, and how many follow before the next distance.
    at: usize,
    left: u8,
    /// What comes instead of content.
    next: Next,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// All has gone out.
    Nothing,
    /// A zero, before the first frame: half a frame, of a device that was reset, may be on the line.
    Zero,
    /// Content, or a distance.
    Content,
    /// A distance, after a byte of content that is zero.
    Skip,
}

impl<W: AsRef<[u32]>> Frame<W> {
    pub(super) fn new(words: W) -> Self {
        Self { words, head: [0; 3], crc: 0, len: 0, at: 0, left: 0, next: Next::Nothing }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.next == Next::Nothing
    }

    /// The first `len` words are a frame's.
    pub(super) fn start(&mut self, kind: u8, number: u16, len: usize) {
        let [low, high] = number.to_le_bytes();
        self.head = [kind, low, high];
        let words = self.words.as_ref().iter().take(len);
        let head = crc::add(crc::NOTHING, u32::from_le_bytes([kind, low, high, 0]), 3);
        self.crc = !words.clone().fold(head, |crc, word| crc::add(crc, *word, 4));
        self.len = 3 + 4 * words.len() + 4;
        (self.at, self.left) = (0, 0);
        self.next = if number == 0 { Next::Zero } else { Next::Content };
    }

    fn content(&self, at: usize) -> u8 {
        if let Some(byte) = self.head.get(at) {
            return *byte;
        }
        let at = at - self.head.len();
        let word = if at + 7 >= self.len { Some(&self.crc) } else { self.words.as_ref().get(at / 4) };
        (word.copied().unwrap_or_default() >> (at % 4 * 8)) as u8
    }

    /// The next byte for the line.
    pub(super) fn next_byte(&mut self) -> Option<u8> {
        if self.left > 0 {
            let byte = self.content(self.at);
            (self.left, self.at) = (self.left - 1, self.at + 1);
            return Some(byte);
        }
        match self.next {
            Next::Nothing => return None,
            Next::Zero => {
                self.next = Next::Content;
                return Some(0);
            }
            Next::Content => {}
            Next::Skip => self.at += 1,
        }
        // The end counts as a zero of content; behind it, the frame ends.
        if self.at > self.len {
            self.next = Next::Nothing;
            return Some(0);
        }
        self.left = (self.at..self.len).take(254).take_while(|at| self.content(*at) != 0).count() as u8;
        self.next = if self.left == 254 { Next::Content } else { Next::Skip };
        Some(self.left + 1)
    }
}
