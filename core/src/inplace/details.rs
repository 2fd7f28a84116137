//! Details of an event: arguments, flows, a text, another track.

use super::layout::{TEXT_MAX, detail, detail_word, head, kind};
use super::names::{Name, cut, words_of};
use super::region::Memory;
use super::time::Timer;
use super::writer::{TrackId, Writer};

/// Most words of details, so that an event with all of them fits into the smallest chunk.
const WORDS: usize = 24 - super::sum::WORDS as usize;

/// Details of an event that is about to be recorded. What does not fit into 24 words (22 with the
/// feature `inplace-crc`) is left out: an argument takes 2,
/// a flow 2, a text 1 and its bytes, of which it has up to 64.
pub struct Details<'w, 'a, M: Memory, T: Timer> {
    writer: &'w Writer<'a, M, T>,
    words: [u32; WORDS],
    len: usize,
}

impl<'w, 'a, M: Memory, T: Timer> Details<'w, 'a, M, T> {
    pub(super) fn new(writer: &'w Writer<'a, M, T>) -> Self {
        Self { writer, words: [0; WORDS], len: 0 }
    }

    fn add(&mut self, first: u32, rest: impl ExactSizeIterator<Item = u32>) {
        let end = self.len + 1 + rest.len();
        let Some(room) = self.words.get_mut(self.len..end) else { return };
        room.iter_mut().zip(core::iter::once(first).chain(rest)).for_each(|(to, word)| *to = word);
        self.len = end;
    }

    fn one(&mut self, detail: u32, operand: u32, value: u32) -> &mut Self {
        self.add(detail_word(detail, operand), core::iter::once(value));
        self
    }

    fn text(&mut self, detail: u32, operand: u32, text: &str) -> &mut Self {
        let text = cut(text, TEXT_MAX);
        self.add(detail_word(detail, (text.len() as u32) << 11 | operand), words_of(text.as_bytes()));
        self
    }

    /// An argument that is a number.
    pub fn arg(&mut self, name: impl Name, value: i32) -> &mut Self {
        let name = self.writer.number_of(name);
        self.one(detail::ARG_I32, name, value as u32)
    }

    /// An argument that is a number with a fraction.
    pub fn arg_f32(&mut self, name: impl Name, value: f32) -> &mut Self {
        let name = self.writer.number_of(name);
        self.one(detail::ARG_F32, name, value.to_bits())
    }

    /// An argument that is a text; its first 64 bytes are kept.
    pub fn arg_text(&mut self, name: impl Name, text: &str) -> &mut Self {
        let name = self.writer.number_of(name);
        self.text(detail::ARG_TEXT, name, text)
    }

    /// A flow: events with the same number are joined by arrows.
    pub fn flow(&mut self, number: u32) -> &mut Self {
        self.one(detail::FLOW, 0, number)
    }

    fn record(&self, head: u32) {
        self.writer.detailed(self.words.get(..self.len).unwrap_or_default(), head);
    }
}

impl<'a, M: Memory, T: Timer> Writer<'a, M, T> {
    /// Events on another track.
    #[inline]
    pub fn on(&self, track: TrackId) -> OnTrack<'_, 'a, M, T> {
        OnTrack { writer: self, track }
    }

    /// The beginning of a slice, with details.
    #[inline]
    pub fn begin_with(&self, name: impl Name, details: impl FnOnce(&mut Details<'_, 'a, M, T>)) {
        self.with(kind::BEGIN, name, details);
    }

    /// An instant, with details.
    #[inline]
    pub fn instant_with(&self, name: impl Name, details: impl FnOnce(&mut Details<'_, 'a, M, T>)) {
        self.with(kind::INSTANT, name, details);
    }

    /// A line of a log under this tag. `priority` is Android's: 4 is information, 5 a warning, 6 an error. The first 64
    /// bytes of the text are kept.
    pub fn log(&self, priority: u8, tag: impl Name, text: &str) {
        let mut all = Details::new(self);
        all.text(detail::LOG, u32::from(priority), text);
        all.record(self.head(kind::INSTANT, tag));
    }

    #[inline]
    fn with(&self, kind: u32, name: impl Name, details: impl FnOnce(&mut Details<'_, 'a, M, T>)) {
        let mut all = Details::new(self);
        details(&mut all);
        all.record(self.head(kind, name));
    }
}

/// A writer's events on another track than its own. Made by [`Writer::on`]. Each takes 4 bytes more.
pub struct OnTrack<'w, 'a, M: Memory, T: Timer> {
    writer: &'w Writer<'a, M, T>,
    track: TrackId,
}

impl<'w, 'a, M: Memory, T: Timer> OnTrack<'w, 'a, M, T> {
    /// As [`Writer::begin`].
    pub fn begin(&self, name: impl Name) {
        self.event(self.writer.head(kind::BEGIN, name));
    }

    /// As [`Writer::end`].
    pub fn end(&self) {
        self.event(head(kind::END, 0));
    }

    /// As [`Writer::instant`].
    pub fn instant(&self, name: impl Name) {
        self.event(self.writer.head(kind::INSTANT, name));
    }

    /// As [`Writer::begin_with`].
    pub fn begin_with(&self, name: impl Name, details: impl FnOnce(&mut Details<'_, 'a, M, T>)) {
        let mut all = Details::new(self.writer);
        all.add(detail_word(detail::TRACK, self.track.0), core::iter::empty());
        details(&mut all);
        all.record(self.writer.head(kind::BEGIN, name));
    }

    #[inline(never)]
    fn event(&self, head: u32) {
        self.writer.detailed(&[detail_word(detail::TRACK, self.track.0)], head);
    }
}
