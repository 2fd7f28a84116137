//! The host's view: a dump of a region, or chunks that were sent, decoded.
//!
//! Whatever the bytes are, decoding ends and does not panic. What cannot be is left out and said.

use core::cmp::Reverse;

use super::crc;
use super::headers::{HeaderView, header_of, repaired};
use super::layout::{
    FRONT, Front, HEADER, NAMES_MAX, NameWord, SUMS, State, WRITERS_MAX, detail, header, kind, len_of,
};
use super::records::{Detail, Record, Records};
use super::words::{Text, Words};

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
    header: HeaderView,
    names: Words<'b>,
    text: Words<'b>,
    ring: Words<'b>,
    offset: usize,
    is_repaired: bool,
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

impl core::ops::Deref for RegionView<'_> {
    type Target = HeaderView;

    fn deref(&self) -> &HeaderView {
        &self.header
    }
}

impl<'b> RegionView<'b> {
    /// Finds the first region in a dump, in either byte order; if there is none, the first whose header is
    /// [damaged](Self::is_repaired) so little that it is known what it was. Cost: two looks at each of its words.
    pub fn find(dump: &'b [u8]) -> Option<Self> {
        let words = || {
            (0..dump.len() / 4).flat_map(|word| {
                let bytes = dump.get(word * 4..).unwrap_or_default();
                [false, true].map(|is_big| (Words { bytes, is_big }, word * 4))
            })
        };
        let sound = words().find_map(|(words, offset)| Self::of(words, header_of(words)?, offset));
        sound.or_else(|| {
            let repaired = words().find_map(|(words, offset)| {
                let views = repaired(words).filter_map(|header| Self::of(words, header, offset));
                views.max_by_key(Self::likeness)
            });
            Some(Self { is_repaired: true, ..repaired? })
        })
    }

    fn of(words: Words<'b>, header: [u32; HEADER], offset: usize) -> Option<Self> {
        let [_, chunk, chunks, names] = header[header::GEOMETRY].to_le_bytes();
        let (names, text) = (1usize << names, (header[header::TEXT] & !SUMS) as usize);
        let texts_at = HEADER + 2 * names;
        let ring_at = texts_at + text;
        // A dump that was cut off is read as far as it goes.
        let ring = 1usize << (chunk + chunks);
        let there = (words.bytes.len() / 4).saturating_sub(ring_at).min(ring);
        Some(Self {
            header: HeaderView(header),
            names: words.part(HEADER, 2 * names)?,
            text: words.part(texts_at, text)?,
            ring: words.part(ring_at, there)?,
            offset,
            is_repaired: false,
        })
    }

    /// Where in the dump it begins, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Its bytes, as far as the dump has them.
    pub fn size(&self) -> usize {
        HEADER * 4 + self.names.bytes.len() + self.text.bytes.len() + self.ring.bytes.len()
    }

    /// Chunks of the ring that the dump does not have.
    pub fn chunks_missing(&self) -> usize {
        (1usize << self.log(2)).saturating_sub((self.ring.bytes.len() / 4) >> self.log(1))
    }

    /// Whether its header was damaged, and is here as it must have been.
    pub fn is_repaired(&self) -> bool {
        self.is_repaired
    }

    /// How well its header goes with the rest: with the right one, nearly all chunks are as they should be, the ring is
    /// not larger than what is there, and the frequency is a round number.
    fn likeness(&self) -> (usize, Reverse<(usize, usize)>, usize) {
        let is_right = |chunk: &ChunkView<'_>| {
            let sum = chunk.is_open() || chunk.is_intact().is_some() == self.has_sums();
            sum && self.has_writer(chunk.start(), chunk.writer())
                && chunk.records().all(|record| record.is_ok())
        };
        let tenths = core::iter::successors(Some(self.frequency()), |number| Some(number / 10)).take(10);
        let zeros = tenths.take_while(|number| number % 10 == 0).count();
        (self.chunks().filter(is_right).count(), Reverse((self.chunks_missing(), self.size())), zeros)
    }

    /// Whether there was such a start, and such a writer in it: damage may make a chunk look like that of another one.
    pub fn has_writer(&self, start: u32, writer: u32) -> bool {
        if writer >= WRITERS_MAX {
            return false;
        }
        let starts = self.starts();
        // Of more starts than are told apart, all may be there; of earlier ones nobody knows how many writers they had.
        let is_start = starts >= 32 || (1..=starts).contains(&start);
        is_start && (start != starts & 31 || writer < self.header.0[header::WRITERS])
    }

    /// Whether a writer may have recorded what is in a chunk: times do not go back, nor beyond what the device's clock has
    /// come to, and tracks are tracks. What it must have been otherwise nobody knows.
    pub fn is_likely(&self, chunk: &ChunkView<'_>) -> bool {
        // A timer of fewer bits has more half periods.
        let is_past = |time: u64| {
            chunk.start() != self.starts() & 31 || time >> 31 <= u64::from(self.header.0[header::HALVES])
        };
        // Tracks are always in the table.
        let is_of = |number: u32, wanted: bool| match self.name(number) {
            Some(name) => name.is_track == wanted,
            None => number <= NAMES_MAX || !wanted,
        };
        let mut last = chunk.time();
        is_of(chunk.track(), true)
            && chunk.records().flatten().all(|(time, record)| {
                let is_after = last <= time && is_past(time);
                last = time;
                is_after
                    && match record {
                        Record::Begin { name }
                        | Record::Instant { name }
                        | Record::Count { counter: name, .. }
                        | Record::Measure { counter: name, .. }
                        | Record::Detail(Detail::Arg(name, _)) => is_of(name, false),
                        Record::Switch { task: track } | Record::Detail(Detail::Track(track)) => {
                            is_of(track, true)
                        }
                        _ => true,
                    }
            })
    }

    /// Chunks in which there is nothing though something was recorded: they were overwritten with zeros. After the first
    /// start nobody knows, as the next ones clear what is half written.
    pub fn chunks_erased(&self) -> usize {
        let log = self.log(1);
        let used = if self.starts() == 1 { self.header.0[header::POSITION] as usize } else { 0 };
        let is_erased = |chunk: &usize| [0, 3].iter().all(|at| self.ring.get((chunk << log) + at) == Some(0));
        (0..used.min(1 << self.log(2))).filter(is_erased).count()
    }

    /// A name by its number. `None` if there is none: no event of a region that is whole has such a number, but 0 and
    /// those of [linked names](crate::linked_name).
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
    /// A chunk that was sent, as it is in a frame or in a little-endian device's memory. `None` if it is shorter than
    /// what each chunk has in front.
    pub fn of(bytes: &'b [u8]) -> Option<Self> {
        let words = Words { bytes, is_big: false };
        (bytes.len() >= FRONT as usize * 4).then_some(Self { words })
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
    pub(super) fn is_used(&self) -> bool {
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

    /// Whether it has a sum, as complete chunks of a build with the feature `inplace-crc` do, and that is right. `None`
    /// without a sum: the chunk is open, or something is wrong, if [there should be one](super::HeaderView::has_sums).
    pub fn is_intact(&self) -> Option<bool> {
        let (at, _) = self.steps().find(|(_, word)| word >> 18 == detail::SUM)?;
        let first = crc::add(crc::NOTHING, self.writer(), 4);
        let sum = (1..at).fold(first, |sum, at| crc::add(sum, self.word(at), 4));
        Some(self.words.get(at as usize + 1)? == !sum)
    }

    /// Whether its writer may have left it as it is and gone on with `next`, its chunk with the next number: it is
    /// complete, what begins the other one had no room in it, and time did not go back. For chunks of a region, without
    /// sums.
    pub fn may_precede(&self, next: &ChunkView<'_>) -> bool {
        let last = self.records().flatten().last().map_or(self.time(), |(time, _)| time);
        if self.is_open() || next.time() < last {
            return false;
        }
        let size = (self.words.bytes.len() / 4) as u32;
        let used = self.steps().last().map_or(FRONT, |(at, word)| at + len_of(word));
        // A time of its own would have come before it. Of what was lost nobody knows how long it was.
        let mut len = 3;
        for (_, word) in next.steps() {
            match (word >> 29, word >> 18) {
                (kind::DETAIL, detail::LOST) => break,
                (kind::DETAIL, detail::TIME) => {}
                (kind::DETAIL, _) => len += len_of(word),
                _ => return used + len + len_of(word) >= size,
            }
        }
        true
    }

    /// The first word of each thing in it, and where that is.
    fn steps(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut next = FRONT;
        core::iter::from_fn(move || {
            let (at, word) = (next, self.words.get(next as usize).filter(|word| *word != 0)?);
            next += len_of(word);
            Some((at, word))
        })
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
        Records::new(self.words, self.time())
    }
}
