//! Files that commands read and write.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use clap::builder::{PathBufValueParser, TypedValueParser};
use flate2::bufread::GzDecoder;

use crate::failure::{name_of, status};
use crate::options::MostUnpacked;
use tracebuf_std::console::{file_of, output_of};
use tracebuf_std::display::{Bytes, Count};
use tracebuf_std::system::{id_at, id_of};

/// The name of a file to write; - is standard output.
pub(crate) fn output_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(output_of)
}

/// Opens a file, plain or gzipped; - is standard input. A gzipped one is recognised by its first bytes, so standard
/// input may be gzipped too.
pub(crate) fn open_any(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let (is_gzipped, file) = looked_at(open_plain(path)?)?;
    if is_gzipped {
        return Ok(Box::new(BufReader::with_capacity(1 << 16, Unpacked::new(file))));
    }
    Ok(Box::new(file))
}

fn open_plain(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 16, File::open(path)?)))
}

/// Returns true if a file is gzipped, and all of the file. A pipe may give a byte at a time.
///
/// No trace starts like this: its first byte would be no packet's tag.
fn looked_at<R: BufRead>(mut file: R) -> io::Result<(bool, impl BufRead)> {
    let mut first = Vec::new();
    file.by_ref().take(GZIP_START as u64).read_to_end(&mut first)?;
    Ok((is_gzipped(&first), io::Cursor::new(first).chain(file)))
}

/// Bytes of a file that tell whether it is gzipped.
pub(crate) const GZIP_START: usize = 4;

/// Returns true if a file that begins with these bytes is gzipped: two that say so, the one method that there is, and
/// flags of which the three highest are reserved.
pub(crate) fn is_gzipped(bytes: &[u8]) -> bool {
    matches!(bytes, [0x1F, 0x8B, 8, flags, ..] if flags & 0xE0 == 0)
}

/// A gzipped file: its members, one after the other. There may be zeros after each, as there are where a disk or a tape
/// has only whole blocks.
struct Unpacked<R> {
    /// `None` at the end.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Unpacked<R> {
    fn new(file: R) -> Self {
        Self { member: Some(GzDecoder::new(file)) }
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(bytes)?;
            if count > 0 || bytes.is_empty() {
                return Ok(count);
            }
            // What follows it can only be looked at once it has been read to its end, as here.
            let Some(mut file) = self.member.take().map(GzDecoder::into_inner) else { break };
            if !is_end_behind_zeros(&mut file)? {
                self.member = Some(GzDecoder::new(file));
            }
        }
        Ok(0)
    }
}

/// Reads zeros, and says whether nothing else is left.
fn is_end_behind_zeros(file: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = file.fill_buf()?;
        let (zeros, all) = (bytes.iter().take_while(|byte| **byte == 0).count(), bytes.len());
        file.consume(zeros);
        if zeros < all || all == 0 {
            return Ok(all == 0);
        }
    }
}

/// All of such a file, and whether that is all of it; of a gzipped one, no more than it may unpack to. If it is cut or
/// damaged, that is reported, and the bytes are those that could be unpacked.
pub(crate) fn read_as_far(path: &Path, most: &MostUnpacked) -> io::Result<(Vec<u8>, bool)> {
    let len = fs::metadata(path).ok().filter(fs::Metadata::is_file).map_or(0, |file| file.len());
    let (bytes, broken) = read_all(open_plain(path)?, len, most)?;
    if let Some(error) = &broken {
        report_cut(path, error, bytes.len() as u64);
    }
    Ok((bytes, broken.is_none()))
}

/// Reports that a file ends after so many bytes, because the rest cannot be unpacked.
pub(crate) fn report_cut(path: &Path, error: &io::Error, len: u64) {
    let name = name_of(path);
    let len = Count(len, "byte");
    status!("{name} cannot be unpacked to its end: {error}; what follows is of the {len} before");
}

/// Returns true if the file's content is wrong, rather than the system that reads it.
pub(crate) fn is_of_content(error: &io::Error) -> bool {
    error.raw_os_error().is_none() && error.kind() != io::ErrorKind::OutOfMemory
}

/// The bytes, and what is wrong with those that follow them. The file has this many, if that is known.
fn read_all(file: impl BufRead, len: u64, most: &MostUnpacked) -> io::Result<(Vec<u8>, Option<io::Error>)> {
    /// Bytes after which it is looked whether they are too many.
    const PIECE: u64 = 1 << 20;
    let mut bytes = Vec::new();
    let (is_gzipped, mut file) = looked_at(file)?;
    if !is_gzipped {
        return file.read_to_end(&mut bytes).map(|_| (bytes, None));
    }
    let packed = Rc::new(Cell::new(0));
    let mut file = Unpacked::new(Taken { file, taken: packed.clone() });
    loop {
        let limit = most.of(len.max(packed.get()));
        let piece = PIECE.min(limit.saturating_add(1) - bytes.len() as u64);
        let result = file.by_ref().take(piece).read_to_end(&mut bytes);
        // By now more of a pipe has come.
        let limit = most.of(len.max(packed.get()));
        if bytes.len() as u64 > limit {
            let why = format!("it unpacks to more than {}; --most-unpacked takes more of it", Bytes(limit));
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        match result {
            Ok(0) => return Ok((bytes, None)),
            Ok(_) => {}
            Err(error) if is_of_content(&error) && !bytes.is_empty() => return Ok((bytes, Some(error))),
            Err(error) => return Err(error),
        }
    }
}

/// A file of which it is known how much was taken.
struct Taken<R> {
    file: R,
    taken: Rc<Cell<u64>>,
}

impl<R: BufRead> Read for Taken<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(bytes)?;
        self.taken.set(self.taken.get() + count as u64);
        Ok(count)
    }
}

impl<R: BufRead> BufRead for Taken<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.file.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.taken.set(self.taken.get() + count as u64);
        self.file.consume(count);
    }
}

/// Refuses to write into the file that is read, by whatever name: it would be emptied before being read.
pub(crate) fn check_is_other(output: &Path, input: &Path) -> io::Result<()> {
    let id = if input == Path::new("-") {
        file_of(io::stdin()).and_then(|input| id_of(&input))
    } else {
        id_at(input)
    };
    let is_file = || fs::metadata(output).is_ok_and(|output| output.is_file());
    if id.is_ok_and(|id| id_at(output).is_ok_and(|output| output == id)) && is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is the file that is read"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, bufread::GzEncoder};

    const ANY: MostUnpacked = MostUnpacked::of_bytes(1 << 30);

    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        GzEncoder::new(plain, Compression::best()).read_to_end(&mut packed).unwrap();
        packed
    }

    #[test]
    fn a_gzipped_file_unpacks_to_so_much_and_no_more() {
        let plain = [7; 1000];
        let packed = packed(&plain);
        let at_most = |file: &[u8], most| read_all(file, 0, &MostUnpacked::of_bytes(most));
        assert_eq!(at_most(&packed, 1000).unwrap().0, plain);
        let error = at_most(&packed, 999).unwrap_err();
        assert_eq!(error.to_string(), "it unpacks to more than 999 bytes; --most-unpacked takes more of it");
        // Two members in a row are one file.
        let error = at_most(&[&packed[..], &packed].concat(), 1999).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        // What is not packed has no such limit.
        assert_eq!(at_most(&plain, 999).unwrap().0, plain);
    }

    #[test]
    fn without_an_option_the_limit_is_in_proportion_to_the_file() {
        let (few, most) = (MostUnpacked::FEW as usize, MostUnpacked::default());
        // Hardly any file becomes as much larger as zeros do.
        let bomb = packed(&vec![0; few + 1]);
        assert!(bomb.len() * 100 < few);
        let error = read_all(&bomb[..], bomb.len() as u64, &most).unwrap_err();
        assert_eq!(error.to_string(), "it unpacks to more than 64 MiB; --most-unpacked takes more of it");
        assert_eq!(read_all(&bomb[..], 0, &MostUnpacked::of_bytes(few as u64 + 1)).unwrap().0.len(), few + 1);
        // One that is as long as this on the whole may begin with as much.
        let enough = few as u64 / MostUnpacked::TIMES + 1;
        assert_eq!(read_all(&bomb[..], enough, &most).unwrap().0.len(), few + 1);
        // Of a pipe counts what has come.
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        let much: Vec<u8> = (0..enough + 1000).map(|_| random()).collect();
        let both = [packed(&much), bomb].concat();
        assert_eq!(read_all(&both[..], 0, &most).unwrap().0.len(), much.len() + few + 1);
    }

    #[test]
    fn of_a_gzipped_file_there_is_what_was_unpacked_before_it_is_cut_or_wrong() {
        let plain: Vec<u8> = (0..20_000u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        let mut packed = Vec::new();
        GzEncoder::new(&plain[..], Compression::best()).read_to_end(&mut packed).unwrap();
        for len in [packed.len() / 2, packed.len() - 8, packed.len() - 1] {
            let (bytes, broken) = read_all(&packed[..len], 0, &ANY).unwrap();
            assert!(broken.is_some() && plain.starts_with(&bytes), "{len}");
            assert!(bytes.len() > plain.len() / 4, "{len}: {}", bytes.len());
        }
        for (behind, is_whole) in
            [(vec![0; 1], true), (vec![0; 100_000], true), (vec![0, 1], false), (b"more".to_vec(), false)]
        {
            let (bytes, broken) = read_all(&[&packed[..], &behind].concat()[..], 0, &ANY).unwrap();
            assert!(bytes == plain && broken.is_none() == is_whole, "{broken:?}");
        }
        // Zeros may be between two as well.
        let (bytes, broken) = read_all(&[&packed[..], &[0; 500], &packed].concat()[..], 0, &ANY).unwrap();
        assert!(bytes == [&plain[..], &plain].concat() && broken.is_none(), "{broken:?}");
        assert!(read_all(&packed[..12], 0, &ANY).is_err());
    }

    #[test]
    fn what_the_system_says_is_an_error_however_much_was_read() {
        /// Linux's number; any other would do.
        const EIO: i32 = 5;
        struct Failing;
        impl Read for Failing {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::from_raw_os_error(EIO))
            }
        }
        let mut packed = Vec::new();
        GzEncoder::new(&[7; 1000][..], Compression::best()).read_to_end(&mut packed).unwrap();
        packed.truncate(packed.len() - 8);
        let error = read_all(packed.chain(BufReader::new(Failing)), 0, &ANY).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(EIO));
    }

    #[test]
    fn a_file_that_comes_a_byte_at_a_time_is_known_by_its_first_bytes() {
        struct Slow<'b>(&'b [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                let len = bytes.len().min(1);
                self.0.read(&mut bytes[..len])
            }
        }
        let plain = b"\x1Fplain".repeat(10);
        let mut packed = Vec::new();
        GzEncoder::new(&plain[..], Compression::best()).read_to_end(&mut packed).unwrap();
        for bytes in [&plain, &packed] {
            assert_eq!(read_all(BufReader::new(Slow(bytes)), 0, &ANY).unwrap().0, plain);
        }
        // Pages of shared memory with 14 chunks, some of them being read; then another method.
        let others = [[0x1F, 0x8B, 8, 0x50], [0x1F, 0x8B, 0x3B, 0x50], [0x1F, 0x8B, 7, 0x10]];
        let others = others.iter().map(|bytes| &bytes[..]);
        for short in [&b""[..], b"\x1F", b"x", b"\x1F\x8B\x08"].into_iter().chain(others) {
            assert_eq!(read_all(BufReader::new(Slow(short)), 0, &ANY).unwrap().0, short);
        }
    }
}
