//! A writer's events by a name that need not be a `&str`.

use super::layout::{head, kind};
use super::names::{Name, number_of};
use super::region::Memory;
use super::time::Timer;
use super::writer::{SliceGuard, Writer};

/// Events with a name, of any kind of [`Name`]. Made by [`Writer::named`].
#[must_use = "it records nothing by itself"]
pub struct NamedEvents<'w, 'a, M: Memory, T: Timer, N> {
    writer: &'w Writer<'a, M, T>,
    name: N,
}

impl<'a, M: Memory, T: Timer> Writer<'a, M, T> {
    /// Events with this name, which need not be a `&str`. They take some instructions fewer than those of a `&str`, and
    /// 200 bytes of code wherever they are recorded; with a [linked name](crate::linked_name), 20.
    ///
    /// ```
    /// use core::ffi::CStr;
    /// use tracebuf::inplace::{Name, Recorder, Region};
    ///
    /// /// A text that ends with a zero. Nobody looks for it while the name is known.
    /// #[derive(Clone, Copy)]
    /// struct CName(&'static CStr);
    ///
    /// impl Name for CName {
    ///     fn address(self) -> usize {
    ///         self.0.as_ptr() as usize
    ///     }
    ///     fn known_len(self) -> Option<usize> {
    ///         None
    ///     }
    ///     fn text(self) -> &'static str {
    ///         self.0.to_str().unwrap_or("?")
    ///     }
    /// }
    ///
    /// static TRACE: Region<64, 128, 32> = Region::zeroed();
    /// let writer = Recorder::new(&TRACE, || 5, 1_000_000).writer("main loop");
    /// writer.named(CName(c"step")).begin();
    /// writer.end();
    /// ```
    #[inline(always)]
    pub fn named<N: Name>(&self, name: N) -> NamedEvents<'_, 'a, M, T, N> {
        NamedEvents { writer: self, name }
    }
}

impl<'w, 'a, M: Memory, T: Timer, N: Name> NamedEvents<'w, 'a, M, T, N> {
    #[inline(always)]
    fn event(self, kind: u32) {
        match self.name.number() {
            Some(number) => self.writer.numbered::<N>(head(kind, number)),
            None => self.writer.event_here(head(kind, 0), number_of(self.writer.region(), self.name)),
        }
    }

    #[inline(always)]
    fn value<const WORDS: usize>(self, kind: u32, value: [u32; WORDS]) {
        match self.name.number() {
            Some(number) => self.writer.numbered_value::<N, WORDS>(head(kind, number), value),
            None => self.writer.value_here(head(kind, 0), number_of(self.writer.region(), self.name), value),
        }
    }

    /// As [`Writer::begin`].
    #[inline(always)]
    pub fn begin(self) {
        self.event(kind::BEGIN);
    }

    /// As [`Writer::enter`].
    #[inline(always)]
    pub fn enter(self) -> SliceGuard<'w, 'a, M, T> {
        let writer = self.writer;
        self.begin();
        SliceGuard { writer }
    }

    /// As [`Writer::end`], without a call: the name is not looked at.
    #[inline(always)]
    pub fn end(self) {
        self.writer.event_here(head(kind::END, 0), 0);
    }

    /// As [`Writer::instant`].
    #[inline(always)]
    pub fn instant(self) {
        self.event(kind::INSTANT);
    }

    /// As [`Writer::count`].
    #[inline(always)]
    pub fn count(self, value: i32) {
        self.value(kind::COUNT, [value as u32]);
    }

    /// As [`Writer::count_i64`].
    #[inline(always)]
    pub fn count_i64(self, value: i64) {
        self.value(kind::COUNT_64, [value as u32, (value >> 32) as u32]);
    }

    /// As [`Writer::measure`].
    #[inline(always)]
    pub fn measure(self, value: f32) {
        self.value(kind::MEASURE, [value.to_bits()]);
    }
}
