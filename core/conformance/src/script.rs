//! The text form of what producers do to a trace buffer: `.tbops` scripts, with one operation per line.
//!
//! ```
//! use tracebuf_conformance::script::{Op, parse_line};
//!
//! assert_eq!(parse_line(b"readn 0x10  # sixteen packets"), Ok(Some(Op::ReadN(16))));
//! assert_eq!(parse_line(b"  # only a comment"), Ok(None));
//! assert_eq!(parse_line(b"readn ten").unwrap_err().to_string(), "the count is not a number: 'ten'");
//! ```
//!
//! A line may have:
//!
//! ```text
#![doc = include_str!("script/grammar.txt")]
//! ```

use std::fmt;

use tracebuf::buffer::{ChunkFlags, ChunkHeader, FillPolicy, Patch};

/// One operation of a script.
///
/// ```
/// use tracebuf_conformance::script::{Malformed, Op, parse_line};
///
/// // How many chunks does producer 1 commit?
/// let script = "new 4096 ring\ncopy 1 2 0 1 0 1 1000 10 03616263\nread\n";
/// let ops = script.lines().filter_map(|line| parse_line(line.as_bytes()).transpose());
/// let ops = ops.collect::<Result<Vec<Op>, Malformed>>()?;
/// let chunks = ops.iter().filter(|op| matches!(op, Op::Copy { header, .. } if header.producer_id == 1));
/// assert_eq!((ops.len(), chunks.count()), (3, 1));
/// # Ok::<(), Malformed>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Makes the buffer: before everything else, and only once, but again if it failed.
    New {
        /// Room for chunks in bytes, their headers included.
        size: u64,
        /// What happens when the room is used up.
        policy: FillPolicy,
    },
    /// A producer commits a chunk.
    Copy {
        /// Everything but the payload.
        header: ChunkHeader,
        /// The fragments as the writer left them, of any length.
        payload: Vec<u8>,
    },
    /// A producer patches a chunk it committed earlier.
    Patch {
        /// The producer's id.
        producer: u16,
        /// The writer's id.
        writer: u16,
        /// The id of the chunk.
        chunk: u32,
        /// More patches follow, in another request.
        pending: bool,
        /// What to write where.  An offset above `u32::MAX` is cut off there: no payload is that long.
        patches: Vec<Patch>,
    },
    /// Begins a read and reads to the end.
    Read,
    /// Begins a read and reads at most this many packets.
    ReadN(u64),
    /// Clones the buffer and reads the clone to its end.
    Clone,
    /// Prints all counters.
    Stats,
    /// Prints the whole packets that overwriting has dropped since the last time, in order.
    Overwritten,
}

/// Why a line is not an operation.
///
/// ```
/// use tracebuf_conformance::script::{Malformed, parse_line};
///
/// let error = parse_line(b"new 4096").unwrap_err();
/// assert_eq!(error, Malformed::Missing("policy"));
/// assert_eq!(error.to_string(), "the policy is missing");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// No operation has this name.
    UnknownOperation(String),
    /// The line ends before this field.
    Missing(&'static str),
    /// This field is not a number.
    NotANumber(&'static str, String),
    /// This number does not fit the field.
    OutOfRange(&'static str, String),
    /// This field is none of the words it may be.
    NotAChoice(&'static str, &'static str, String),
    /// This field is not pairs of hexadecimal digits.
    NotHex(&'static str, String),
    /// A patch is not `OFFSET:HEX8`.
    NotAPatch(String),
    /// The line goes on where it should end.
    TrailingText(String),
    /// The line has more than this many bytes.
    TooLong(usize),
    /// An operation on a buffer comes before a `new` that made one.
    BeforeNew,
    /// An operation on a buffer comes after a `new` that failed, for this reason.
    AfterFailedNew(String),
    /// A second `new`, after one that made the buffer.
    SecondNew,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownOperation(text) => write!(f, "no operation is called '{text}'"),
            Self::Missing(field) => write!(f, "the {field} is missing"),
            Self::NotANumber(field, text) => write!(f, "the {field} is not a number: '{text}'"),
            Self::OutOfRange(field, text) => write!(f, "the {field} is out of range: '{text}'"),
            Self::NotAChoice(field, words, text) => write!(f, "the {field} is not {words}: '{text}'"),
            Self::NotHex(field, text) => write!(f, "the {field} is not pairs of hex digits: '{text}'"),
            Self::NotAPatch(text) => write!(f, "a patch is not OFFSET:HEX8: '{text}'"),
            Self::TrailingText(text) => write!(f, "the line should end before '{text}'"),
            Self::TooLong(most) => write!(f, "it has more than {most} bytes"),
            Self::BeforeNew => f.write_str("no buffer was made yet"),
            Self::AfterFailedNew(why) => write!(f, "no buffer was made: {why}"),
            Self::SecondNew => f.write_str("the buffer was made already"),
        }
    }
}

impl std::error::Error for Malformed {}

/// Reads one line, with or without its line end; `None` if it has nothing but blanks and a comment.
///
/// The line need not be text: any bytes give an answer, in time proportional to their number.
///
/// # Errors
/// The first thing that is wrong with the line.  Whether a `new` came before is not checked here.
pub fn parse_line(line: &[u8]) -> Result<Option<Op>, Malformed> {
    let code = line.split(|&byte| byte == b'#').next().unwrap_or_default();
    let mut fields = Fields { rest: code };
    let Some(name) = fields.token() else { return Ok(None) };
    let op = match name {
        b"new" => Op::New {
            size: fields.unsigned("size", u64::MAX)?,
            policy: fields.choice(
                "policy",
                "ring or discard",
                &[(b"ring", FillPolicy::RingBuffer), (b"discard", FillPolicy::Discard)],
            )?,
        },
        b"copy" => copy(&mut fields)?,
        b"patch" => Op::Patch {
            producer: fields.id("producer")?,
            writer: fields.id("writer")?,
            chunk: fields.u32("chunk id")?,
            pending: fields.bit("pending mark")?,
            patches: patches(fields.required("patch list")?)?,
        },
        b"read" => Op::Read,
        b"readn" => Op::ReadN(fields.unsigned("count", u64::MAX)?),
        b"clone" => Op::Clone,
        b"stats" => Op::Stats,
        b"overwritten" => Op::Overwritten,
        other => return Err(Malformed::UnknownOperation(quote(other))),
    };
    match fields.token() {
        Some(text) => Err(Malformed::TrailingText(quote(text))),
        None => Ok(Some(op)),
    }
}

fn copy(fields: &mut Fields<'_>) -> Result<Op, Malformed> {
    let header = ChunkHeader {
        producer_id: fields.id("producer")?,
        writer_id: fields.id("writer")?,
        chunk_id: fields.u32("chunk id")?,
        fragments: fields.id("number of fragments")?,
        // Only the low byte can hold flags, and only three of its bits are a producer's to set.
        flags: ChunkFlags::from_bits_truncate((fields.unsigned("flags", u64::MAX)? & 0xFF) as u8),
        complete: fields.bit("complete mark")?,
        // Either sign is accepted: -1 and 4294967295 are the same user id.
        uid: fields.signed("uid", i32::MIN.into(), u32::MAX.into())? as u32,
        pid: fields.signed("pid", i32::MIN.into(), i32::MAX.into())? as i32,
    };
    let payload = match fields.required("payload")? {
        b"-" => Vec::new(),
        digits => hex(digits).ok_or_else(|| Malformed::NotHex("payload", quote(digits)))?,
    };
    Ok(Op::Copy { header, payload })
}

fn patches(list: &[u8]) -> Result<Vec<Patch>, Malformed> {
    if list == b"-" {
        return Ok(Vec::new());
    }
    list.split(|&byte| byte == b',').map(patch).collect()
}

fn patch(text: &[u8]) -> Result<Patch, Malformed> {
    let malformed = || Malformed::NotAPatch(quote(text));
    let colon = text.iter().position(|&byte| byte == b':').ok_or_else(malformed)?;
    let (offset, digits) = (&text[..colon], &text[colon + 1..]);
    let offset = match number(offset).ok_or_else(malformed)? {
        Number::Fits(offset) => u32::try_from(offset).unwrap_or(u32::MAX),
        Number::TooLarge => return Err(Malformed::OutOfRange("patch offset", quote(offset))),
    };
    let data = hex(digits).and_then(|bytes| bytes.try_into().ok()).ok_or_else(malformed)?;
    Ok(Patch { offset, data })
}

/// The rest of a line, taken token by token.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn token(&mut self) -> Option<&'a [u8]> {
        let text = self.rest.trim_ascii_start();
        let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
        let (token, rest) = text.split_at(end);
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }

    fn required(&mut self, field: &'static str) -> Result<&'a [u8], Malformed> {
        self.token().ok_or(Malformed::Missing(field))
    }

    fn unsigned(&mut self, field: &'static str, max: u64) -> Result<u64, Malformed> {
        let text = self.required(field)?;
        match number(text) {
            Some(Number::Fits(value)) if value <= max => Ok(value),
            Some(_) => Err(Malformed::OutOfRange(field, quote(text))),
            None if text.starts_with(b"-") && number(&text[1..]).is_some() => {
                Err(Malformed::OutOfRange(field, quote(text)))
            }
            None => Err(Malformed::NotANumber(field, quote(text))),
        }
    }

    fn signed(&mut self, field: &'static str, min: i64, max: i64) -> Result<i64, Malformed> {
        let text = self.required(field)?;
        let (negative, digits) = match text.strip_prefix(b"-") {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let magnitude = match number(digits) {
            Some(Number::Fits(value)) => i64::try_from(value).ok(),
            Some(Number::TooLarge) => None,
            None => return Err(Malformed::NotANumber(field, quote(text))),
        };
        magnitude
            .map(|value| if negative { -value } else { value })
            .filter(|value| (min..=max).contains(value))
            .ok_or_else(|| Malformed::OutOfRange(field, quote(text)))
    }

    fn id(&mut self, field: &'static str) -> Result<u16, Malformed> {
        Ok(self.unsigned(field, u16::MAX.into())? as u16)
    }

    fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        Ok(self.unsigned(field, u32::MAX.into())? as u32)
    }

    fn bit(&mut self, field: &'static str) -> Result<bool, Malformed> {
        Ok(self.unsigned(field, 1)? == 1)
    }

    fn choice<T: Copy>(
        &mut self,
        field: &'static str,
        words: &'static str,
        table: &[(&[u8], T)],
    ) -> Result<T, Malformed> {
        let text = self.required(field)?;
        let found = table.iter().find(|(word, _)| *word == text);
        found.map(|(_, value)| *value).ok_or_else(|| Malformed::NotAChoice(field, words, quote(text)))
    }
}

/// What digits can mean.
enum Number {
    Fits(u64),
    TooLarge,
}

/// Decimal or `0x` digits, at least one and nothing else.
fn number(text: &[u8]) -> Option<Number> {
    let (digits, radix) = match text.strip_prefix(b"0x").or_else(|| text.strip_prefix(b"0X")) {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value = Some(0_u64);
    for &digit in digits {
        let digit = char::from(digit).to_digit(radix)?;
        value = value.and_then(|v| v.checked_mul(radix.into())?.checked_add(digit.into()));
    }
    Some(value.map_or(Number::TooLarge, Number::Fits))
}

/// Pairs of hexadecimal digits; `None` if they are not, or if there are none.
fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect()
}

/// The text as it can be shown in a message: its first 40 bytes, with replacements for what is not text.
fn quote(text: &[u8]) -> String {
    const SHOWN: usize = 40;
    let (shown, rest) = text.split_at(text.len().min(SHOWN));
    let dots = if rest.is_empty() { "" } else { "…" };
    let shown = String::from_utf8_lossy(shown);
    shown.chars().flat_map(char::escape_debug).chain(dots.chars()).collect()
}

#[cfg(test)]
mod tests;
