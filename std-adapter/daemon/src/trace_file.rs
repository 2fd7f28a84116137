//! A file of a trace that ends in a whole packet at every moment, also when the service is killed.
//!
//! A kill may end a write of the system at any of the file's pages. So a packet is first written into padding, which is
//! a packet itself, and then let be seen:
//!
//! 1. Pages of padding are put behind what is there. Each page is a packet, so a kill leaves whole ones.
//! 2. One header in front makes them all one packet.
//! 3. What is new is written into it, but for its first bytes, and behind it a header of the padding that is left.
//! 4. The first bytes replace the header in front. They lie in one page, which the system writes as a whole.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use tracebuf::proto::varint;

/// What the system writes as a whole: a page, which is larger on some machines and smaller on none.
const PAGE: u64 = 4096;
/// Bytes of padding's own: a packet's tag and size, and the tag and size of a field that packets do not have.
const HEADER: usize = 11;
const PACKET: u8 = 1 << 3 | 2;
const FIELD: [u8; 2] = [0xFA, 0x7F]; // field 2047, of bytes
/// A packet without anything.
const EMPTY: [u8; 2] = [PACKET, 0];
/// Bytes that are put behind a file, or copied, at once.
const AT_ONCE: u64 = 256 << 10;

/// A file with what is written of a trace.
#[derive(Debug)]
pub(crate) struct TraceFile {
    file: File,
    /// Where the trace begins in it. None of a pipe.
    begin: Option<u64>,
    padding: Option<Padding>,
}

/// What is read from another file: it, and where its trace begins and ends.
pub(crate) type Lent = io::Result<(File, std::ops::Range<u64>)>;

impl TraceFile {
    pub(crate) fn new(mut file: File) -> Self {
        let begin = file.stream_position().ok();
        // Behind it nothing is to be overwritten, and the first padding needs room in its page.
        let takes_padding = |begin: &u64| {
            let is_appended = fcntl_getfl(&file).is_ok_and(|flags| flags.contains(OFlags::APPEND));
            file.metadata().is_ok_and(|about| about.is_file() && about.len() == *begin)
                && !is_appended
                && room_in_page(*begin) >= HEADER as u64
        };
        let padding = begin.filter(takes_padding).map(Padding::at);
        Self { file, begin, padding }
    }

    /// Writes whole packets, or as many of them as there is room for.
    pub(crate) fn write(&mut self, packets: Vec<u8>) -> io::Result<()> {
        match &mut self.padding {
            _ if packets.is_empty() => Ok(()),
            Some(padding) => padding.write(&self.file, packets),
            None => write(&mut self.file, &packets),
        }
    }

    /// Whether it can be read from its beginning on: a pipe cannot.
    pub(crate) const fn can_be_lent(&self) -> bool {
        self.begin.is_some()
    }

    /// What there is by now, for another thread to copy.
    pub(crate) fn lend(&mut self) -> Lent {
        let (begin, end) = (self.begin.ok_or(Errno::SPIPE)?, self.end()?);
        Ok((self.file.try_clone()?, begin..end))
    }

    fn end(&mut self) -> io::Result<u64> {
        self.padding.as_ref().map_or_else(|| self.file.stream_position(), |padding| Ok(padding.packets))
    }

    /// Adds what another file has, or nothing.
    pub(crate) fn copy(&mut self, (from, range): (File, std::ops::Range<u64>)) -> io::Result<()> {
        let begin = self.end();
        let copied = self.copy_all(&from, range);
        if let (Err(_), Ok(begin)) = (&copied, begin) {
            self.cut(begin)?;
        }
        copied
    }

    fn copy_all(&mut self, from: &File, range: std::ops::Range<u64>) -> io::Result<()> {
        let (mut at, mut most) = (range.start, AT_ONCE);
        while at < range.end {
            let mut piece = vec![0; (range.end - at).min(most) as usize];
            from.read_exact_at(&mut piece, at)?;
            let whole = whole_packets(&piece, piece.len());
            if whole == 0 && at + most >= range.end {
                return Err(io::ErrorKind::InvalidData.into());
            }
            // A packet that is longer.
            most = if whole == 0 { 2 * most } else { AT_ONCE };
            piece.truncate(whole);
            at += whole as u64;
            self.write(piece)?;
        }
        Ok(())
    }

    fn cut(&mut self, end: u64) -> io::Result<()> {
        self.file.set_len(end)?;
        if let Some(padding) = &mut self.padding {
            *padding = Padding::at(end);
        }
        self.file.seek(SeekFrom::Start(end)).map(drop)
    }

    /// Lets it be on the disk, as far as there is one.
    pub(crate) fn sync(&self) -> io::Result<()> {
        match self.file.sync_data() {
            // A pipe, or something else that is not on a disk.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::INVAL | Errno::ROFS)) => Ok(()),
            other => other,
        }
    }

    /// The same, without padding.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if let Some(padding) = &self.padding {
            self.cut(padding.packets)?;
        }
        self.sync()
    }
}

/// Where the packets end, padding begins, and it ends; nothing else is behind it.
#[derive(Debug)]
struct Padding {
    packets: u64,
    /// Behind a few packets without anything, where its header would lie in two pages.
    begin: u64,
    end: u64,
}

impl Padding {
    /// None yet.
    const fn at(end: u64) -> Self {
        Self { packets: end, begin: end, end }
    }

    fn write(&mut self, file: &File, mut packets: Vec<u8>) -> io::Result<()> {
        let len = packets.len();
        let packets_end = self.begin + len as u64;
        let mut next = packets_end;
        // The header that comes behind lies in one page, to be replaced as a whole.
        while room_in_page(next) < HEADER as u64 {
            packets.extend(EMPTY);
            next += EMPTY.len() as u64;
        }
        if let Err(error) = self.grow(file, (next + HEADER as u64).next_multiple_of(PAGE)) {
            let room = (self.end - self.begin).saturating_sub(2 * HEADER as u64) as usize;
            packets.truncate(whole_packets(&packets, room.min(len)));
            if !packets.is_empty() {
                self.write(file, packets)?;
            }
            return Err(error);
        }
        packets.extend(header(self.end - next));
        let (first, rest) = packets.split_at_checked(HEADER).unwrap_or((&packets, &[]));
        file.write_all_at(rest, self.begin + HEADER as u64)?;
        file.write_all_at(first, self.begin)?;
        (self.packets, self.begin) = (packets_end, next);
        Ok(())
    }

    /// Makes it reach that far, or as far as there is room.
    fn grow(&mut self, file: &File, end: u64) -> io::Result<()> {
        if self.end >= end {
            return Ok(());
        }
        let mut grown = Ok(());
        while self.end < end && grown.is_ok() {
            let pages = pages_of_padding(self.end, end.min(self.end.next_multiple_of(PAGE) + AT_ONCE));
            grown = file.write_all_at(&pages, self.end);
            self.end = match &grown {
                Ok(()) => self.end + pages.len() as u64,
                // Of a page that is not whole nothing stays.
                Err(_) => {
                    let len = file.metadata()?.len();
                    let whole = (len - len % PAGE).max(self.end);
                    file.set_len(whole)?;
                    whole
                }
            };
        }
        if self.end > self.begin {
            file.write_all_at(&header(self.end - self.begin), self.begin)?;
        }
        grown
    }
}

/// Packets of padding, one up to each page's end.
fn pages_of_padding(begin: u64, end: u64) -> Vec<u8> {
    let mut pages = vec![0; (end - begin) as usize];
    let mut left = pages.as_mut_slice();
    let mut at = begin;
    while let Some((page, rest)) = left.split_at_mut_checked(room_in_page(at) as usize) {
        let len = page.len() as u64;
        page.iter_mut().zip(header(len)).for_each(|(byte, of_header)| *byte = of_header);
        (left, at) = (rest, at + len);
    }
    pages
}

/// That of padding that has so many bytes with it.
fn header(len: u64) -> [u8; HEADER] {
    let [tag, second] = FIELD;
    let size = |left: usize| varint::encode_redundant((len as usize - left) as u32).unwrap_or_default();
    let ([a, b, c, d], [e, f, g, h]) = (size(5), size(HEADER));
    [PACKET, a, b, c, d, tag, second, e, f, g, h]
}

const fn room_in_page(at: u64) -> u64 {
    PAGE - at % PAGE
}

/// Writes all, or leaves as many whole packets as there was room for.
fn write(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    put(file, bytes).or_else(|(written, error)| cut(file, bytes, written, error))
}

/// Writes all, or says how much it was, and why not more.
fn put(file: &mut File, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
    let mut written = 0;
    while let Some(left @ [_, ..]) = bytes.get(written..) {
        match file.write(left) {
            Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
            Ok(taken) => written += taken,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(file).map_err(|error| (written, error))?;
            }
            Err(error) => return Err((written, error)),
        }
    }
    Ok(())
}

/// A consumer may have given a pipe that does not wait.
fn wait(file: &File) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};
    match poll(&mut [PollFd::new(file, PollFlags::OUT)], None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Cuts a file back to its last whole packet. What cannot be cut, such as a pipe, stays as it is.
fn cut(file: &mut File, bytes: &[u8], written: usize, error: io::Error) -> io::Result<()> {
    let torn = written - whole_packets(bytes, written);
    if torn > 0
        && let Ok(end) = file.stream_position()
    {
        let end = end.saturating_sub(torn as u64);
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
    }
    Err(error)
}

/// Bytes of the packets that lie wholly within the first `len` bytes of a piece.
fn whole_packets(bytes: &[u8], len: usize) -> usize {
    let mut whole = 0;
    while let Some((size, packet)) = bytes.get(whole + 1..).and_then(varint::split) {
        let end = (bytes.len() - packet.len()).saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
        if end > len {
            break;
        }
        whole = end;
    }
    whole
}

#[cfg(test)]
mod tests;
