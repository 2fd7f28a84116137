//! A stored chunk and its fragments, tokenised from its bytes whenever they are asked for.

use super::{CHUNK_CORRUPTED, FIRST_CONTINUES, LAST_CONTINUES, WRITER_ABORT};

/// A fragment of this size says that the writer gave its packet up.
pub(super) const ABORT: u64 = 0x0FFF_FFFF;
const VARINT_MAX: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Whole,
    Begin,
    Continue,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Fragment { start: usize, end: usize },
    Abort,
    Bad,
}

/// What tokenising a payload found: how far it is valid and how it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    pub(super) valid: usize,
    pub(super) fragments: usize,
    pub(super) aborted: bool,
    pub(super) malformed: bool,
}

impl Tokens {
    pub(super) fn truncated(&self) -> bool {
        self.aborted || self.malformed
    }

    /// The causes that stand at the end of such a chunk.
    pub(super) fn marks(&self) -> u16 {
        let mut marks = 0;
        if self.aborted {
            marks |= WRITER_ABORT;
        }
        if self.malformed {
            marks |= CHUNK_CORRUPTED;
        }
        marks
    }
}

#[derive(Clone, Debug)]
pub(super) struct StoredChunk {
    pub(super) key: (u16, u16),
    pub(super) id: u32,
    pub(super) at: u64,
    pub(super) outer: u64,
    pub(super) room: usize,
    pub(super) flags: u8,
    pub(super) complete: bool,
    pub(super) tokens: Tokens,
    /// The valid payload.
    pub(super) payload: Vec<u8>,
    pub(super) read: usize,
    /// Its first fragment was consumed, or it passed without one.
    pub(super) touched: bool,
    /// While it is being evicted: how much of it had been read.
    pub(super) seen: Option<usize>,
    /// It had unread bytes when its eviction began.
    pub(super) unread: bool,
    pub(super) evicted: u64,
    pub(super) broken: u64,
}

/// The size of the next fragment and where its bytes begin.
fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (i, byte) in bytes[at..].iter().take(VARINT_MAX).enumerate() {
        value |= u64::from(byte & 0x7F).wrapping_shl(7 * i as u32);
        if byte & 0x80 == 0 {
            return Some((value, at + i + 1));
        }
    }
    None
}

pub(super) fn token(bytes: &[u8], at: usize) -> Token {
    let Some((size, start)) = varint(bytes, at) else { return Token::Bad };
    if size == ABORT {
        return Token::Abort;
    }
    if size > (bytes.len() - start) as u64 {
        return Token::Bad;
    }
    Token::Fragment { start, end: start + size as usize }
}

/// Tokenises up to `declared` fragments, after the `known` ones that end at `known.valid`.
pub(super) fn tokenise(bytes: &[u8], known: Tokens, declared: usize) -> Tokens {
    let mut found = Tokens { aborted: false, malformed: false, ..known };
    while found.fragments < declared {
        match token(bytes, found.valid) {
            Token::Fragment { end, .. } => {
                found.fragments += 1;
                found.valid = end;
            }
            Token::Abort => {
                found.aborted = true;
                break;
            }
            Token::Bad => {
                found.malformed = true;
                break;
            }
        }
    }
    found
}

/// Whether there are only empty fragments.
pub(super) fn only_empty(bytes: &[u8]) -> bool {
    ends(bytes) == (0, bytes.len())
}

/// Where the last non-empty fragment ends.
pub(super) fn filled(bytes: &[u8]) -> usize {
    ends(bytes).0
}

/// Where the last non-empty fragment ends, and where the last one does.
fn ends(bytes: &[u8]) -> (usize, usize) {
    let (mut at, mut filled) = (0, 0);
    while at < bytes.len()
        && let Token::Fragment { start, end } = token(bytes, at)
    {
        if start < end {
            filled = end;
        }
        at = end;
    }
    (filled, at)
}

impl StoredChunk {
    /// The fragment at `at`: none at the end, an error if a patch broke it.
    pub(super) fn fragment_at(&self, at: usize) -> Option<Result<Fragment, ()>> {
        if at >= self.payload.len() {
            return None;
        }
        let Token::Fragment { start, end } = token(&self.payload, at) else { return Some(Err(())) };
        let continues = at == 0 && self.flags & FIRST_CONTINUES != 0;
        let continued = end == self.payload.len() && self.flags & LAST_CONTINUES != 0;
        let kind = match (continues, continued) {
            (false, false) => Kind::Whole,
            (false, true) => Kind::Begin,
            (true, true) => Kind::Continue,
            (true, false) => Kind::End,
        };
        Some(Ok(Fragment { kind, start, end }))
    }

    /// Committed with no fragment at all, as opposed to cut short before its first.
    pub(super) fn declared_empty(&self) -> bool {
        self.complete && self.payload.is_empty() && !self.tokens.truncated()
    }

    /// Nothing but empty whole packets lies after `at`.
    pub(super) fn only_empties_after(&self, at: usize) -> bool {
        let continues = at == 0 && self.flags & FIRST_CONTINUES != 0;
        let continued = self.flags & LAST_CONTINUES != 0;
        at >= self.payload.len() || !continues && !continued && only_empty(&self.payload[at..])
    }
}
