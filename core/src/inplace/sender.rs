//! The sender: frames of what is recorded, for whatever line, while recording goes on.

use super::frame::Frame;
use super::frames::frame;
use super::layout::{FRONT, Front, HEADER, NameWord, State, WRITERS_MAX, header, len_of};
use super::order::{SEE, after_seeing};
use super::read::ChunkCopy;
use super::recorder::Recorder;
use super::region::Memory;
use super::time::Timer;
use crate::atomics::Ordering;

/// Names that are sent again after each hello.
const REPEATED: u32 = 4;

/// Frames what writers record, for a line that asks for bytes. [`Message`](super::Message) says what is in the frames,
/// and `tracebuf receive` makes a trace of them.
///
/// Writers are never stopped, and nothing waits: [`fill`](Self::fill) gives what there is. What was overwritten before it
/// could be sent shows as a gap. A region has one sender at a time: two would each have a part.
///
/// It takes a chunk's memory and 200 bytes.
///
/// ```
/// use tracebuf::inplace::{Recorder, Region, Sender};
///
/// static TRACE: Region<64, 128, 32> = Region::zeroed();
/// let recorder = Recorder::new(&TRACE, || 5, 1_000_000);
/// let writer = recorder.writer("main loop");
/// writer.instant("hello");
///
/// // In the main loop, or at the lowest priority: as many bytes as a line takes at once.
/// let mut sender = Sender::new(recorder);
/// let mut line: Vec<u8> = Vec::new();
/// let mut piece = [0; 64];
/// sender.flush();
/// loop {
///     match sender.fill(&mut piece) {
///         0 => break, // nothing to send now
///         len => line.extend(&piece[..len]),
///     }
/// }
/// assert!(line.windows(5).any(|name| name == b"hello"));
/// ```
pub struct Sender<'a, M: Memory, T: Timer> {
    recorder: Recorder<'a, M, T>,
    frame: Frame<M::Words>,
    /// The next frame's.
    number: u16,
    /// Times until the next hello.
    until_hello: u8,
    /// The chunk on its way, which is free when all of it is on the line.
    sending: Option<ChunkCopy<'a, M>>,
    period: u32,
    /// When the time is to be sent again.
    due: u64,
    /// Names to be sent again, from a place on.
    repeat: u32,
    name: u32,
    /// Where to look for chunks that are open.
    open: u32,
    /// Whether one was passed over, because one of its writer must go out before it.
    passed_over: bool,
    /// Of each writer's open chunk, how much was sent: its number's lowest 8 bits, and its words.
    sent: [u16; WRITERS_MAX as usize + 1],
}

impl<'a, M: Memory, T: Timer> Sender<'a, M, T> {
    /// A sender of a recorder's region.
    pub fn new(recorder: Recorder<'a, M, T>) -> Self {
        let frequency = recorder.region.header(header::FREQUENCY).load(Ordering::Relaxed);
        Self {
            recorder,
            frame: Frame::new(M::words()),
            number: 0,
            until_hello: 0,
            sending: None,
            period: if frequency < 4 { 1 << 16 } else { frequency / 4 },
            due: 0,
            repeat: 0,
            name: 0,
            open: 0,
            passed_over: false,
            sent: [0; WRITERS_MAX as usize + 1],
        }
    }

    /// Fills `line` with what is to go out next, and returns how many bytes that is. Fewer than there is room for:
    /// there is no more now.
    ///
    /// Call it as often as the line has room, and four times a second at least: it also [keeps the
    /// time](Recorder::keep_time), and sends it, for the host to know when something happened. What has not filled a
    /// chunk is sent then, too.
    ///
    /// Cost: some 90 instructions a byte, and a look at each name and each chunk for a frame.
    pub fn fill(&mut self, line: &mut [u8]) -> usize {
        for at in 0..line.len() {
            if self.frame.has_ended() && !self.next_frame(at == 0) {
                return at;
            }
            if let (Some(to), Some(byte)) = (line.get_mut(at), self.frame.next_byte()) {
                *to = byte;
            }
        }
        line.len()
    }

    /// Also sends at once what has not filled a chunk: before sleep, say, or when a fault handler sends all there is.
    pub fn flush(&mut self) {
        self.open = 0;
    }

    /// Makes the next frame. False if there is none. The time goes out first of what the line takes at once, as it is
    /// late otherwise.
    fn next_frame(&mut self, may_be_time: bool) -> bool {
        if let Some(sent) = self.sending.take() {
            sent.taken();
        }
        let now = if may_be_time || self.number == 0 { self.recorder.now() } else { 0 };
        let len_and_kind = if self.number == 0 || now >= self.due && may_be_time {
            Some(self.time(now))
        } else {
            self.repeated_name().or_else(|| self.open_chunk()).or_else(|| self.complete_chunk())
        };
        let Some((kind, len)) = len_and_kind else { return false };
        self.frame.start(kind, self.number, len);
        // Zero is for the first one.
        self.number = self.number.checked_add(1).unwrap_or(1);
        true
    }

    /// Puts words into the frame.
    fn put(&mut self, words: impl Iterator<Item = u32>) -> usize {
        let to = self.frame.words.as_mut().iter_mut();
        to.zip(words).map(|(to, word)| *to = word).count()
    }

    fn header(&self, index: usize) -> u32 {
        self.recorder.region.header(index).load(Ordering::Relaxed)
    }

    /// The time, every fourth time with all that a receiver must know.
    fn time(&mut self, now: u64) -> (u8, usize) {
        (self.due, self.open) = (now.wrapping_add(self.period.into()), 0);
        let now = [now as u32, (now >> 32) as u32];
        let region = self.recorder.region;
        if let Some(until) = self.until_hello.checked_sub(1) {
            self.until_hello = until;
            let start = self.header(header::STARTS);
            return (frame::TIME, self.put([start].into_iter().chain(now)));
        }
        (self.until_hello, self.repeat) = (3, REPEATED);
        let header = (0..HEADER).map(|index| region.header(index).load(Ordering::Relaxed));

        (frame::HELLO, self.put(header.chain(now)))
    }

    /// The next name that is sent again.
    fn repeated_name(&mut self) -> Option<(u8, usize)> {
        self.repeat = self.repeat.checked_sub(1)?;
        for _ in 0..M::NAMES {
            self.name = self.name.wrapping_add(1);
            if let Some(frame) = self.name(self.name as usize % M::NAMES, true) {
                return Some(frame);
            }
        }
        None
    }

    /// A name that was never sent.
    fn new_name(&mut self) -> Option<(u8, usize)> {
        (0..M::NAMES).find_map(|place| self.name(place, false))
    }

    /// The name in a place, if there is one, or one that was not sent.
    fn name(&mut self, place: usize, again: bool) -> Option<(u8, usize)> {
        let region = self.recorder.region;
        let [first, second] = region.name(place);
        let key = first.load(SEE);
        after_seeing();
        let word = NameWord(second.load(Ordering::Relaxed));
        if key == 0 || word.has(NameWord::SENT) && !again {
            return None;
        }
        second.fetch_or(NameWord::SENT, Ordering::Relaxed);
        let (start, number) = (self.header(header::STARTS), place as u32 + 1);
        let text = region.text().get(word.text() as usize..).unwrap_or_default();
        let text = text.iter().take(word.len().div_ceil(4) as usize).map(|word| word.load(Ordering::Relaxed));
        Some((frame::NAME, self.put([start << 16 | number, key, word.0].into_iter().chain(text))))
    }

    /// The next open chunk in which there is something new; before it, the names that it needs.
    fn open_chunk(&mut self) -> Option<(u8, usize)> {
        loop {
            let Some(place) = self.recorder.copy_open(self.open, self.frame.words.as_mut()) else {
                self.open = M::CHUNKS;
                return None;
            };
            self.open = place + 1;
            let (writer, sent) = self.in_frame();
            let is_known = self.sent.get(writer).is_none_or(|before| *before == sent);
            // A writer's chunks go out in their order.
            if sent & 0xFF == FRONT as u16 || is_known {
                continue;
            }
            if self.recorder.has_complete(writer as u32) {
                self.passed_over = true;
                continue;
            }
            // Any name in the copy was there before it was made.
            if let Some(name) = self.new_name() {
                self.open = place;
                return Some(name);
            }
            if let Some(before) = self.sent.get_mut(writer) {
                *before = sent;
            }
            return Some((frame::CHUNK, (sent & 0xFF) as usize));
        }
    }

    /// The oldest complete chunk; before it, the names that it needs.
    fn complete_chunk(&mut self) -> Option<(u8, usize)> {
        let Some(copy) = self.recorder.copy_chunk(self.frame.words.as_mut()) else {
            self.open = if core::mem::take(&mut self.passed_over) { 0 } else { self.open };
            return self.open_chunk();
        };
        let name = self.new_name();
        if name.is_none() {
            self.sending = Some(copy);
        }
        name.or_else(|| Some((frame::CHUNK, (self.in_frame().1 & 0xFF) as usize)))
    }

    /// Of the chunk in the frame, its writer, its number's lowest bits and its words up to the first zero.
    fn in_frame(&self) -> (usize, u16) {
        let words = self.frame.words.as_ref();
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let mut len = FRONT;
        while word(len as usize) != 0 {
            len += len_of(word(len as usize));
        }
        let number = Front(word(3)).number();
        (State(word(0)).writer() as usize, (number << 8 | len.min(M::WORDS)) as u16)
    }
}
