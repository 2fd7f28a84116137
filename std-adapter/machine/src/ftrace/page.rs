//! A page of the kernel's ring buffer: its header, and the records in it.

use super::format;

/// Why a page could not be read to its end: Perfetto's `FtraceParseStatus`.
///
/// The rest of such a page is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ParseStatus {
    /// The kernel refused to give a page.
    ReadError = 2,
    /// It gave less than a page.
    ShortRead = 3,
    /// The page says that it holds nothing, or more than a page.
    PageHeader = 4,
    /// A record's header is cut.
    RecordHeader = 5,
    /// Padding of no length.
    EmptyPadding = 6,
    /// The length of padding is cut.
    PaddingCut = 7,
    /// Padding shorter than its own length word.
    PaddingLength = 8,
    /// A `time_extend` is cut.
    TimeExtend = 9,
    /// A `time_stamp` is cut.
    TimeStamp = 10,
    /// The length of a long record is cut.
    LengthCut = 11,
    /// A long record of length 0. Some kernels are known to write this; the trace remains readable.
    LengthZero = 12,
    /// A long record shorter than its own length word.
    Length = 13,
    /// No room for an event's id.
    EventId = 14,
    /// A record goes on beyond the page's data.
    RecordEnd = 15,
    /// A scheduling event shorter than its format.
    CompactEvent = 16,
    /// An event shorter than its format, or with text outside of itself.
    Event = 17,
}

/// The layout of pages: the file `events/header_page`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    commit: usize,
    commit_len: usize,
    data: usize,
    page_len: usize,
}

/// Bits of the word `commit`.
const DATA_LEN: u64 = (1 << 27) - 1;
const COUNT_STORED: u64 = 1 << 30;
const EVENTS_LOST: u64 = 1 << 31;

impl PageLayout {
    /// Parses `events/header_page`; `None` if it does not describe pages of 64 MiB or less.
    pub fn parse(header_page: &str) -> Option<Self> {
        let fields: Vec<_> = header_page.lines().filter_map(format::field).collect();
        let named = |name| fields.iter().find(|field| field.name == name);
        let (timestamp, commit, data) = (named("timestamp")?, named("commit")?, named("data")?);
        let page_len = data.offset + data.size;
        let is_known = (timestamp.offset, timestamp.size) == (0, 8)
            && matches!(commit.size, 4 | 8)
            && commit.offset >= 8
            && commit.offset + commit.size <= data.offset
            && data.size > 0
            && page_len as u64 <= DATA_LEN / 2;
        is_known.then_some(Self {
            commit: commit.offset,
            commit_len: commit.size,
            data: data.offset,
            page_len,
        })
    }

    /// Bytes in a page: always read that many.
    pub const fn page_len(&self) -> usize {
        self.page_len
    }

    /// Opens a page.
    ///
    /// # Errors
    /// [`ParseStatus::PageHeader`] if it says that it holds nothing, or more than was read.
    pub fn open<'p>(&self, page: &'p [u8]) -> Result<FtracePage<'p>, ParseStatus> {
        self.header(page).ok_or(ParseStatus::PageHeader)
    }

    fn header<'p>(&self, page: &'p [u8]) -> Option<FtracePage<'p>> {
        let timestamp = format::uint(page.get(..8)?);
        let commit = format::uint(page.get(self.commit..)?.get(..self.commit_len)?);
        let (len, rest) = ((commit & DATA_LEN) as usize, page.get(self.data..)?);
        let (data, after) = rest.split_at_checked(len).filter(|_| len > 0)?;
        let count = after.get(..self.commit_len).filter(|_| commit & COUNT_STORED != 0).map(format::uint);
        let lost = (commit & EVENTS_LOST != 0).then_some(Lost { count });
        Some(FtracePage { timestamp, lost, data })
    }
}

/// Events that were overwritten just before a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// How many; `None` if the page had no room to say it.
    pub count: Option<u64>,
}

/// A page with a sound header.
#[derive(Debug, Clone, Copy)]
pub struct FtracePage<'p> {
    /// Nanoseconds; the first record's time counts from here.
    pub timestamp: u64,
    /// The hole before this page, if there is one.
    pub lost: Option<Lost>,
    data: &'p [u8],
}

impl<'p> FtracePage<'p> {
    /// Its records, in order.
    pub const fn records(&self) -> Records<'p> {
        Records { data: self.data, at: 0, timestamp: self.timestamp, page_timestamp: self.timestamp }
    }

    /// Bytes of records, padding included.
    pub const fn len(&self) -> usize {
        self.data.len()
    }

    /// Always false: an empty page has no sound header.
    pub const fn is_empty(&self) -> bool {
        self.data.is_empty()
    }
}

/// A record that holds an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'p> {
    /// Nanoseconds of the buffer's clock.
    pub timestamp: u64,
    /// The event's id, which the kernel chose when it started.
    pub id: u16,
    /// The event, from its id on.
    pub data: &'p [u8],
}

/// The events of a page: an iterator, which ends after an error.
#[derive(Debug, Clone)]
pub struct Records<'p> {
    data: &'p [u8],
    at: usize,
    timestamp: u64,
    page_timestamp: u64,
}

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// What a time_stamp does not hold, because its 59 bits have no room for it.
const TOP_FIVE: u64 = !0 << 59;

impl<'p> Records<'p> {
    fn word(&mut self, or: ParseStatus) -> Result<u32, ParseStatus> {
        let word = self.data.get(self.at..).and_then(<[u8]>::first_chunk).ok_or(or)?;
        self.at += 4;
        Ok(u32::from_le_bytes(*word))
    }

    /// Skips what is no event; `None` at the page's end.
    fn event(&mut self) -> Result<Option<Record<'p>>, ParseStatus> {
        while self.at < self.data.len() {
            let header = self.word(ParseStatus::RecordHeader)?;
            let delta = u64::from(header >> 5);
            match header & 31 {
                PADDING => {
                    if delta == 0 {
                        return Err(ParseStatus::EmptyPadding);
                    }
                    let len = self.word(ParseStatus::PaddingCut)?;
                    let rest = len.checked_sub(4).ok_or(ParseStatus::PaddingLength)?;
                    self.timestamp = self.timestamp.wrapping_add(delta);
                    // Beyond the data it just ends the page.
                    self.at = self.at.saturating_add(rest as usize);
                }
                TIME_EXTEND => {
                    let more = u64::from(self.word(ParseStatus::TimeExtend)?) << 27;
                    self.timestamp = self.timestamp.wrapping_add(more + delta);
                }
                TIME_STAMP => {
                    let high = u64::from(self.word(ParseStatus::TimeStamp)?) << 27;
                    self.timestamp = self.page_timestamp & TOP_FIVE | high | delta;
                }
                words => {
                    self.timestamp = self.timestamp.wrapping_add(delta);
                    return self.data_record(words).map(Some);
                }
            }
        }
        Ok(None)
    }

    fn data_record(&mut self, words: u32) -> Result<Record<'p>, ParseStatus> {
        let len = match words {
            0 => match self.word(ParseStatus::LengthCut)? {
                0 => return Err(ParseStatus::LengthZero),
                len => len.checked_sub(4).ok_or(ParseStatus::Length)?,
            },
            words => words * 4,
        };
        let rest = self.data.get(self.at..).unwrap_or_default();
        let data = rest.get(..len as usize).ok_or(ParseStatus::RecordEnd)?;
        // A record of less than two bytes is told from a cut page by what follows, as Perfetto does.
        let id = rest.first_chunk().ok_or(ParseStatus::EventId)?;
        self.at += data.len();
        Ok(Record { timestamp: self.timestamp, id: u16::from_le_bytes(*id), data })
    }
}

impl<'p> Iterator for Records<'p> {
    type Item = Result<Record<'p>, ParseStatus>;

    fn next(&mut self) -> Option<Self::Item> {
        let event = self.event();
        if event.is_err() {
            self.at = self.data.len();
        }
        event.transpose()
    }
}

#[cfg(test)]
mod tests;
