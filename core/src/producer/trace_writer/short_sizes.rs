//! Short sizes of events with details: one byte each, as nearly all need no more.
//!
//! A size field has four bytes until the size is known, and most sizes need only one: what follows is moved then. On
//! hosts, where code is cheap, an event that is begun at once has sizes of one byte each, its packet's and its
//! own, and room is kept for more. If it gets longer or goes on in the next chunk, it is moved once.

use super::TraceWriter;

/// All the words of the chunk while the open packet has sizes of one byte, and the cursor fewer words; else none.
pub(super) struct ShortSizes<'a>(Words<'a>);

#[cfg(not(tracebuf_small))]
type Words<'a> = &'a [crate::producer::atomics::AtomicU32];
/// There are never any.
#[cfg(tracebuf_small)]
type Words<'a> = core::marker::PhantomData<&'a ()>;

impl ShortSizes<'_> {
    #[cfg(not(tracebuf_small))]
    pub(super) const NONE: Self = ShortSizes(&[]);
    #[cfg(tracebuf_small)]
    pub(super) const NONE: Self = ShortSizes(core::marker::PhantomData);
}
/// How many more bytes two sizes of four bytes have than two of one.
#[cfg(not(tracebuf_small))]
const MORE: usize = 6;
/// Words that are kept for these: once the sizes have them, there is still room for any few bytes.
#[cfg(not(tracebuf_small))]
const KEPT: usize = 3;

#[cfg(not(tracebuf_small))]
impl TraceWriter<'_> {
    /// Begins a packet and a message in it: the first `len` bytes of `words`, which has three more. The first byte will
    /// be the packet's size, and the one at `size_at` the message's; both are 0. For a writer that has nothing else to
    /// say. No packet is open. False: they do not fit the chunk.
    #[inline(always)]
    pub(crate) fn begin_at_once<const N: usize>(
        &mut self,
        words: [u32; N],
        len: usize,
        size_at: usize,
    ) -> bool {
        let fragment = self.cursor.pos();
        let fits = self.cursor.room() >= len + KEPT * 4;
        if fits {
            self.cursor.put_words(words, len);
            self.short = ShortSizes(self.cursor.leave_out(KEPT));
            self.counts.packets = self.counts.packets.wrapping_add(1);
            self.is_open = true;
            self.fragment = fragment;
            self.base = 0_u32.wrapping_sub(fragment as u32 + 1);
            let offset = (fragment + size_at) as u16;
            // No other is open.
            let _ = self.levels.push(super::fields::Level {
                chunk_id: self.chunk_id(),
                offset,
                start: size_at as u32,
            });
        }
        fits
    }

    /// Whether the open packet was begun like this and has not been moved.
    #[inline]
    pub(super) fn has_short_sizes(&self) -> bool {
        !self.short.0.is_empty()
    }

    /// Ends a packet that was begun like this and is short. False, with nothing done, if it is another.
    #[inline]
    pub(crate) fn end_at_once(&mut self) -> bool {
        let ([event], true) = (self.levels.as_slice(), self.has_short_sizes()) else { return false };
        let size = self.size_so_far();
        // As in `finish`.
        if size >= 127 {
            return false;
        }
        self.cursor.fill_short_size(event.offset.into(), size.wrapping_sub(event.start));
        self.cursor.fill_short_size(self.fragment, size);
        self.cursor.take_in(core::mem::replace(&mut self.short, ShortSizes::NONE).0);
        self.levels.clear();
        self.is_open = false;
        // It is in one chunk, and had no news to tell.
        self.count_packet();
        true
    }

    /// Lengthens the sizes of one byte to four. False: there are none.
    #[cold]
    #[inline(never)]
    pub(super) fn lengthen_sizes(&mut self) -> bool {
        let ShortSizes(words) = core::mem::replace(&mut self.short, ShortSizes::NONE);
        let Some(event) = self.levels.first().filter(|_| !words.is_empty()) else { return false };
        self.cursor.take_in(words);
        let field = usize::from(event.offset);
        self.cursor.make_place(field + 1, MORE);
        let end = self.cursor.pos();
        // What is between the two sizes.
        self.cursor.rewind(field);
        self.cursor.make_place(self.fragment + 1, MORE / 2);
        // A size that is to be patched says 0 until then.
        self.cursor.put(0, 4);
        self.cursor.rewind(self.fragment);
        self.cursor.put(0, 4);
        self.cursor.rewind(end);
        // The packet has three bytes more so far: its own size is not in it.
        self.base = self.base.wrapping_sub(MORE as u32 / 2);
        let mut by = MORE as u16 / 2;
        for level in &mut self.levels {
            level.offset = level.offset.wrapping_add(by);
            level.start = level.start.wrapping_add(MORE as u32 / 2);
            by = MORE as u16;
        }
        true
    }
}

#[cfg(tracebuf_small)]
impl TraceWriter<'_> {
    #[inline(always)]
    pub(super) fn has_short_sizes(&self) -> bool {
        false
    }

    /// There are none.
    #[inline(always)]
    pub(super) fn lengthen_sizes(&mut self) -> bool {
        false
    }
}
