//! The events of a chunk, decoded.

use super::layout::{FRONT, STEPS_MAX, detail, kind};
use super::words::{Text, Words};

/// What a writer recorded. Names, counters, tracks and tasks are numbers of names; 0 is none. Those above 1,024 are of
/// names that [the linker numbers](crate::linked_name), from the first on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Record<'b> {
    /// A slice's beginning.
    Begin {
        /// The slice's name.
        name: u32,
    },
    /// The end of the slice begun last.
    End,
    /// An instant.
    Instant {
        /// Its name.
        name: u32,
    },
    /// A counter's value.
    Count {
        /// The counter's name.
        counter: u32,
        /// Its value.
        value: i64,
    },
    /// A counter's value with a fraction.
    Measure {
        /// The counter's name.
        counter: u32,
        /// Its value.
        value: f32,
    },
    /// Another task runs.
    Switch {
        /// Its track; 0 if none runs.
        task: u32,
    },
    /// Something about the next event; without a next one, it is of an event that was never finished.
    Detail(Detail<'b>),
    /// Events found no place, before this.
    Lost {
        /// How many; 65,535 are that many or more.
        events: u32,
    },
}

/// What belongs to the next event.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Detail<'b> {
    /// Its track.
    Track(u32),
    /// A flow that it belongs to.
    Flow(u32),
    /// An argument: its name, and its value.
    Arg(u32, Value<'b>),
    /// It is a line of a log: Android's priority, and the text.
    Log(u32, Text<'b>),
}

/// An argument's value.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Value<'b> {
    /// A number.
    I32(i32),
    /// A number with a fraction.
    F32(f32),
    /// A text.
    Text(Text<'b>),
}

/// Words that no writer writes: the rest of a chunk is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl core::fmt::Display for Malformed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a chunk has words in it that are no event")
    }
}

impl core::error::Error for Malformed {}

/// The events of a chunk. See [`ChunkView::records`](super::ChunkView::records).
#[derive(Clone, Debug)]
pub struct Records<'b> {
    words: Words<'b>,
    at: usize,
    time: u64,
}

impl<'b> Records<'b> {
    pub(super) fn new(words: Words<'b>, time: u64) -> Self {
        Self { words, at: FRONT as usize, time }
    }

    fn word(&mut self) -> Option<u32> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    fn long(&mut self) -> Option<u64> {
        Some(u64::from(self.word()?) | u64::from(self.word()?) << 32)
    }

    fn text(&mut self, len: u32) -> Option<Text<'b>> {
        let len = len as usize;
        let words = self.words.part(self.at, len.div_ceil(4))?;
        self.at += len.div_ceil(4);
        Some(Text { words, len })
    }

    /// What follows this word. `None` if that cannot be.
    fn record(&mut self, word: u32) -> Option<Record<'b>> {
        let (name, steps) = (word >> 18 & 0x7FF, word & STEPS_MAX);
        let is_detail = word >> 29 == kind::DETAIL;
        if !is_detail {
            self.time = self.time.wrapping_add(u64::from(steps));
        }
        Some(match word >> 29 {
            kind::BEGIN => Record::Begin { name },
            kind::END => Record::End,
            kind::INSTANT => Record::Instant { name },
            kind::COUNT => Record::Count { counter: name, value: i64::from(self.word()? as i32) },
            kind::COUNT_64 => Record::Count { counter: name, value: self.long()? as i64 },
            kind::MEASURE => Record::Measure { counter: name, value: f32::from_bits(self.word()?) },
            kind::SWITCH => Record::Switch { task: name },
            _ => Record::Detail(match name {
                detail::LOST => return Some(Record::Lost { events: steps }),
                detail::TRACK => Detail::Track(steps),
                detail::FLOW => Detail::Flow(self.word()?),
                detail::ARG_I32 => Detail::Arg(steps, Value::I32(self.word()? as i32)),
                detail::ARG_F32 => Detail::Arg(steps, Value::F32(f32::from_bits(self.word()?))),
                detail::ARG_TEXT => Detail::Arg(steps & 0x7FF, Value::Text(self.text(steps >> 11)?)),
                detail::LOG => Detail::Log(steps & 0x7FF, self.text(steps >> 11)?),
                _ => return None,
            }),
        })
    }
}

impl<'b> Iterator for Records<'b> {
    type Item = Result<(u64, Record<'b>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let word = self.word().filter(|word| *word != 0 && word >> 18 != detail::SUM)?;
            if word >> 18 == detail::TIME {
                match self.long() {
                    Some(time) => self.time = time,
                    None => return Some(Err(Malformed)),
                }
                continue;
            }
            let record = self.record(word);
            if record.is_none() {
                self.at = usize::MAX / 8;
            }
            return Some(record.map(|record| (self.time, record)).ok_or(Malformed));
        }
    }
}
