//! The host's view: a dump of a region, or chunks that were sent, decoded.
//!
//! Whatever the bytes are, decoding ends and does not panic. What cannot be is left out and said.

use super::layout::{FRONT, Front, HEADER, MAGIC, NameWord, State, VERSION, check, detail, header, kind};

/// Words in memory, in the byte order of their device.
#[derive(Clone, Copy, Debug)]
struct Words<'b> {
    bytes: &'b [u8],
    is_big: bool,
}

impl<'b> Words<'b> {
    fn get(self, index: usize) -> Option<u32> {
        let word = self.bytes.get(index.checked_mul(4)?..)?.first_chunk::<4>()?;
        Some(if self.is_big { u32::from_be_bytes(*word) } else { u32::from_le_bytes(*word) })
    }

    fn part(self, from: usize, words: usize) -> Option<Self> {
        let bytes = self.bytes.get(from * 4..(from + words) * 4)?;
        Some(Self { bytes, ..self })
    }
}

/// A text of the device. Its bytes are its own: nothing says that they are UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct Text<'b> {
    words: Words<'b>,
    len: usize,
}

impl<'b> Text<'b> {
    /// The bytes, which a device of the other byte order keeps in another order.
    pub fn bytes(self) -> impl Iterator<Item = u8> + 'b {
        (0..self.len).map_while(move |at| Some((self.words.get(at / 4)? >> (at % 4 * 8)) as u8))
    }
}

/// A region in a dump.
///
/// ```
/// use tracebuf::inplace::{Record, Recorder, Region, RegionView};
///
/// static TRACE: Region<16, 32, 4> = Region::zeroed();
/// let recorder = Recorder::new(&TRACE, || 7, 1_000);
/// let writer = recorder.writer("main loop");
/// writer.instant("hello");
///
/// # let dump: Vec<u8> = TRACE.words().flat_map(u32::to_ne_bytes).collect();
/// // `dump` is memory, as a debugger has saved it.
/// let view = RegionView::find(&dump).expect("a region");
/// let chunk = view.chunks().next().expect("one");
/// let name = |number| view.name(number).unwrap().text.unwrap().bytes().collect::<Vec<_>>();
/// assert_eq!(name(chunk.track()), b"main loop");
/// let Some(Ok((7, Record::Instant { name: hello }))) = chunk.records().next() else { panic!() };
/// assert_eq!(name(hello), b"hello");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RegionView<'b> {
    header: [u32; HEADER],
    names: Words<'b>,
    text: Words<'b>,
    ring: Words<'b>,
    offset: usize,
}

/// A name, or a track.
#[derive(Clone, Copy, Debug)]
pub struct NameView<'b> {
    /// The address of an event's name when it was recorded; of a track, twice its number and one.
    pub key: u32,
    /// Whether it is a track.
    pub is_track: bool,
    /// `None` if there was no room for it.
    pub text: Option<Text<'b>>,
}

impl<'b> RegionView<'b> {
    /// Finds the first region in a dump, in either byte order. Cost: a look at each of its words.
    pub fn find(dump: &'b [u8]) -> Option<Self> {
        (0..dump.len() / 4).find_map(|word| {
            let bytes = dump.get(word * 4..)?;
            [false, true].into_iter().find_map(|is_big| Self::of(Words { bytes, is_big }, word * 4))
        })
    }

    fn of(words: Words<'b>, offset: usize) -> Option<Self> {
        if words.get(header::MAGIC)? != MAGIC {
            return None;
        }
        let mut header = [0; HEADER];
        for (index, word) in header.iter_mut().enumerate() {
            *word = words.get(index)?;
        }
        let (geometry, text) = (header[header::GEOMETRY], header[header::TEXT]);
        let [version, chunk, chunks, names] = geometry.to_le_bytes();
        let is_ours = u32::from(version) == VERSION
            && (5..=7).contains(&chunk)
            && (2..=15).contains(&chunks)
            && names <= 10
            && text < NameWord::NO_TEXT
            && header[header::CHECK] == check(geometry, text, header[header::FREQUENCY]);
        if !is_ours {
            return None;
        }
        let (names, text) = (1usize << names, text as usize);
        let texts_at = HEADER + 2 * names;
        let ring_at = texts_at + text;
        // A dump that was cut off is read as far as it goes.
        let ring = 1usize << (chunk + chunks);
        let there = (words.bytes.len() / 4).saturating_sub(ring_at).min(ring);
        Some(Self {
            header,
            names: words.part(HEADER, 2 * names)?,
            text: words.part(texts_at, text)?,
            ring: words.part(ring_at, there)?,
            offset,
        })
    }

    /// Where in the dump it begins, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The timer's ticks per second; 0 if the device gave none.
    pub fn frequency(&self) -> u32 {
        self.header[header::FREQUENCY]
    }

    /// How many starts have recorded, this one included.
    pub fn starts(&self) -> u32 {
        self.header[header::STARTS]
    }

    /// Events that found no place, in all starts.
    pub fn dropped(&self) -> u32 {
        self.header[header::DROPPED]
    }

    /// How often a name found no place in the table.
    pub fn unnamed(&self) -> u32 {
        self.header[header::UNNAMED]
    }

    /// Chunks of the ring that the dump does not have.
    pub fn chunks_missing(&self) -> usize {
        (1usize << self.log(2)).saturating_sub((self.ring.bytes.len() / 4) >> self.log(1))
    }

    fn log(&self, byte: u32) -> u32 {
        self.header[header::GEOMETRY] >> (8 * byte) & 0xFF
    }

    /// A name by its number. `None` if there is none: no event of a region that is whole has such a number, but 0.
    pub fn name(&self, number: u32) -> Option<NameView<'b>> {
        let place = (number as usize).checked_sub(1)?.checked_mul(2)?;
        let (key, word) = (self.names.get(place)?, NameWord(self.names.get(place + 1)?));
        if key == 0 {
            return None;
        }
        let len = word.len() as usize;
        let kept = self.text.bytes.get(word.text() as usize * 4..);
        let text = kept
            .filter(|bytes| bytes.len() >= len && len > 0)
            .map(|bytes| Text { words: Words { bytes, ..self.text }, len });
        Some(NameView { key, is_track: word.has(NameWord::TRACK), text })
    }

    /// The chunks in which something was recorded, in the order of their places.
    pub fn chunks(&self) -> impl Iterator<Item = ChunkView<'b>> + '_ {
        let log = self.log(1);
        (0..(self.ring.bytes.len() / 4) >> log).filter_map(move |chunk| {
            let view = ChunkView { words: self.ring.part(chunk << log, 1 << log)? };
            view.is_used().then_some(view)
        })
    }
}

/// A chunk: events of one writer, one after another.
#[derive(Clone, Copy, Debug)]
pub struct ChunkView<'b> {
    words: Words<'b>,
}

impl<'b> ChunkView<'b> {
    /// A chunk that a little-endian device has sent. `None` if it is shorter than any chunk is.
    pub fn of(bytes: &'b [u8]) -> Option<Self> {
        let words = Words { bytes, is_big: false };
        (bytes.len() >= 32 * 4).then_some(Self { words })
    }

    fn word(&self, index: u32) -> u32 {
        self.words.get(index as usize).unwrap_or_default()
    }

    fn state(&self) -> State {
        State(self.word(0))
    }

    fn front(&self) -> Front {
        Front(self.word(3))
    }

    /// One that nobody has used has no track; one that is claimed has half a front, of events that are gone.
    fn is_used(&self) -> bool {
        self.state().is() != State::CLAIMED && self.front().0 != 0
    }

    /// Which writer of its start it is of.
    pub fn writer(&self) -> u32 {
        self.state().writer()
    }

    /// Whether its writer was still adding to it.
    pub fn is_open(&self) -> bool {
        self.state().is() == State::OPEN
    }

    /// Which start it is of: its number modulo 32.
    pub fn start(&self) -> u32 {
        self.front().start()
    }

    /// The name of its writer's track.
    pub fn track(&self) -> u32 {
        self.front().track()
    }

    /// The writer's number of it, modulo 65,536. One that is missing was overwritten, or lost on its way.
    pub fn number(&self) -> u32 {
        self.front().number()
    }

    /// The time of its first event, in ticks.
    pub fn time(&self) -> u64 {
        u64::from(self.word(1)) | u64::from(self.word(2)) << 32
    }

    /// Its events, with their times in ticks.
    pub fn records(&self) -> Records<'b> {
        Records { words: self.words, at: FRONT as usize, time: self.time() }
    }
}

/// What a writer recorded. Names, counters, tracks and tasks are numbers of names; 0 is none.
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

/// The events of a chunk. See [`ChunkView::records`].
#[derive(Clone, Debug)]
pub struct Records<'b> {
    words: Words<'b>,
    at: usize,
    time: u64,
}

impl<'b> Records<'b> {
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
        let (name, steps) = (word >> 18 & 0x7FF, word & super::layout::STEPS_MAX);
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
            let word = self.word().filter(|word| *word != 0)?;
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
