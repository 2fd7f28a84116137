//! The words of a region: its header, the fronts of its chunks, its events. Version 1.

/// "TBIP" in a little-endian dump.
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"TBIP");
pub(super) const VERSION: u32 = 1;

/// Most writers that a start may have.
pub const WRITERS_MAX: u32 = 63;

/// Most names that the table may have, by numbers from 1 on. The numbers above are of names that the linker numbers.
pub(super) const NAMES_MAX: u32 = 1024;
/// The last number of a name.
pub(super) const LINKED: u32 = 0x7FF;

/// Words before the names.
pub(super) const HEADER: usize = 16;
/// In the header's words of text: complete chunks have sums.
pub(super) const SUMS: u32 = 1 << 31;
/// Words in front of a chunk's events: state, time (two), and what [`Front`] holds.
pub(super) const FRONT: u32 = 4;

/// Where the header's words are.
pub(super) mod header {
    pub(in super::super) const MAGIC: usize = 0;
    /// Version, and the binary logarithms of a chunk's words, of chunks and of names; a byte each.
    pub(in super::super) const GEOMETRY: usize = 1;
    /// Words of text, and [`super::SUMS`].
    pub(in super::super) const TEXT: usize = 2;
    pub(in super::super) const FREQUENCY: usize = 3;
    /// Of the three before it.
    pub(in super::super) const CHECK: usize = 4;
    /// The timer's half periods so far, less one.
    pub(in super::super) const HALVES: usize = 5;
    /// How often a place was tried.
    pub(in super::super) const POSITION: usize = 6;
    /// Events that found no place.
    pub(in super::super) const DROPPED: usize = 7;
    pub(in super::super) const TEXT_USED: usize = 8;
    /// Starts, from 1.
    pub(in super::super) const STARTS: usize = 9;
    /// Writers of this start.
    pub(in super::super) const WRITERS: usize = 10;
    /// Names for which the table had no place.
    pub(in super::super) const UNNAMED: usize = 11;
    /// The build whose linker numbered names, and the first start of it; then the same of the build before.
    pub(in super::super) const BUILD: usize = 12;
    pub(in super::super) const BUILD_SINCE: usize = 13;
    pub(in super::super) const BUILD_BEFORE: usize = 14;
    pub(in super::super) const BEFORE_SINCE: usize = 15;
}

pub(super) const fn check(geometry: u32, text: u32, frequency: u32) -> u32 {
    let mixed = geometry ^ text.rotate_left(11) ^ frequency.rotate_left(22);
    mixed.wrapping_mul(0x9E37_79B1) ^ MAGIC
}

/// A chunk's first word: what it is in, who has it, and the position of its claim or completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State(pub(super) u32);

impl State {
    /// Nothing in it is needed any more: it was never used, or was read.
    pub(super) const FREE: u32 = 0;
    /// Its front is being written.
    pub(super) const CLAIMED: u32 = 1;
    /// A writer is adding events.
    pub(super) const OPEN: u32 = 2;
    pub(super) const COMPLETE: u32 = 3;

    pub(super) const fn new(is: u32, writer: u32, position: u32) -> Self {
        Self(is << 30 | (writer & 0x3F) << 24 | position & 0xFF_FFFF)
    }

    pub(super) const fn is(self) -> u32 {
        self.0 >> 30
    }

    pub(super) const fn writer(self) -> u32 {
        self.0 >> 24 & 0x3F
    }

    pub(super) const fn with(self, is: u32) -> Self {
        Self(self.0 & 0x3FFF_FFFF | is << 30)
    }

    /// How many places were tried between its position and this one: less than none, if somebody has tried one since.
    pub(super) const fn age(self, position: u32) -> i32 {
        (position.wrapping_sub(self.0) << 8) as i32 >> 8
    }
}

/// A chunk's fourth word: the name of its writer's track, the start (modulo 32), and the writer's own number of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Front(pub(super) u32);

impl Front {
    pub(super) const fn new(track: u32, start: u32) -> Self {
        Self(track << 21 | (start & 31) << 16)
    }

    pub(super) const fn track(self) -> u32 {
        self.0 >> 21
    }

    pub(super) const fn start(self) -> u32 {
        self.0 >> 16 & 31
    }

    pub(super) const fn number(self) -> u32 {
        self.0 & 0xFFFF
    }

    pub(super) const fn next(self) -> Self {
        Self(self.0 & !0xFFFF | self.0.wrapping_add(1) & 0xFFFF)
    }
}

/// The second word of a name: where its text is (15 bits), flags, and its length. Zero: nobody has the place.
///
/// What a look-up compares is the lower half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NameWord(pub(super) u32);

impl NameWord {
    /// The text was compared since this start: the address means the same.
    pub(super) const VERIFIED: u32 = 1;
    /// It is a track, with its number in place of the address.
    pub(super) const TRACK: u32 = 2;
    /// A reader has taken the text.
    pub(super) const SENT: u32 = 1 << 16;
    /// There was no room for the text.
    pub(super) const NO_TEXT: u32 = 0x7FFF;
    pub(super) const LONGEST: usize = 0xFF;

    pub(super) const fn new(text: u32, len: u32, flags: u32) -> Self {
        Self(text << 17 | len << 8 | flags)
    }

    pub(super) const fn text(self) -> u32 {
        self.0 >> 17
    }

    pub(super) const fn len(self) -> u32 {
        self.0 >> 8 & 0xFF
    }

    pub(super) const fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }

    /// Whether it is a name or a track of this length.
    pub(super) const fn is_like(self, len: u32, flags: u32) -> bool {
        self.0 & (0xFF00 | Self::TRACK) == len << 8 | flags
    }

    /// Whether it is an event's name of this length, known since this start.
    #[cfg(target_pointer_width = "32")]
    #[inline(always)]
    pub(super) const fn is_known(self, len: u32) -> bool {
        self.0 & 0xFFFF == len << 8 | Self::VERIFIED
    }

    /// Whether it is an event's name of any length, known since this start.
    #[cfg(target_pointer_width = "32")]
    #[inline(always)]
    pub(super) const fn is_verified(self) -> bool {
        self.0 & 0xFF == Self::VERIFIED
    }
}

/// Kinds of events, in the highest three bits of an event's word. Then 11 bits of name, 18 of time.
pub(super) mod kind {
    /// What follows belongs to the next event, or only sets the time: [`super::detail`] in place of the name.
    pub(in super::super) const DETAIL: u32 = 0;
    pub(in super::super) const BEGIN: u32 = 1;
    pub(in super::super) const END: u32 = 2;
    pub(in super::super) const INSTANT: u32 = 3;
    /// One word of value.
    pub(in super::super) const COUNT: u32 = 4;
    /// Two words of value, the lower first.
    pub(in super::super) const COUNT_64: u32 = 5;
    /// One word of value.
    pub(in super::super) const MEASURE: u32 = 6;
    /// The name is the track of the task that runs from here on; none when none does.
    pub(in super::super) const SWITCH: u32 = 7;
}

/// Details, each with an operand of 18 bits in place of time. Not 0, which ends a chunk.
pub(super) mod detail {
    /// Two words of time, the lower first.
    pub(in super::super) const TIME: u32 = 1;
    /// The operand is the track of the next event.
    pub(in super::super) const TRACK: u32 = 2;
    /// One word of flow.
    pub(in super::super) const FLOW: u32 = 3;
    /// The operand is the name of an argument; one word of value.
    pub(in super::super) const ARG_I32: u32 = 4;
    pub(in super::super) const ARG_F32: u32 = 5;
    /// The operand is the name, and above it 7 bits of length in bytes; then the text.
    pub(in super::super) const ARG_TEXT: u32 = 6;
    /// The operand is a priority, and above it 7 bits of length in bytes; then the text of a line of a log.
    pub(in super::super) const LOG: u32 = 7;
    /// The operand is how many events found no place before this, up to all ones.
    pub(in super::super) const LOST: u32 = 8;
    /// One word: the CRC-32/ISO-HDLC of the writer's number and of all words of the chunk from the second on, up to this
    /// one. It ends a chunk.
    pub(in super::super) const SUM: u32 = 9;
}

/// Bits of the steps from one event to the next; more need a time of their own.
pub(super) const STEPS_BITS: u32 = 18;
pub(super) const STEPS_MAX: u32 = (1 << STEPS_BITS) - 1;
/// Most bytes of a text within an event.
pub(super) const TEXT_MAX: usize = 64;

pub(super) const fn head(kind: u32, name: u32) -> u32 {
    kind << 29 | (name & 0x7FF) << 18
}

pub(super) const fn detail_word(detail: u32, operand: u32) -> u32 {
    detail << 18 | operand & STEPS_MAX
}

/// Words of what begins with this word.
pub(super) const fn len_of(word: u32) -> u32 {
    match word >> 29 {
        kind::COUNT | kind::MEASURE => 2,
        kind::COUNT_64 => 3,
        kind::DETAIL => match word >> 18 {
            detail::TIME => 3,
            detail::FLOW | detail::ARG_I32 | detail::ARG_F32 | detail::SUM => 2,
            detail::ARG_TEXT | detail::LOG => 1 + (word >> 11 & 0x7F).div_ceil(4),
            _ => 1,
        },
        _ => 1,
    }
}
