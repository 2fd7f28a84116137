//! Files that commands read and write.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};
use flate2::bufread::GzDecoder;

use crate::failure::{name_of, status};
use tracebuf_std::console::{file_of, output_of};
use tracebuf_std::display::Count;
use tracebuf_std::system::{id_at, id_of};

/// The most that a gzipped file may unpack to where all of it must be in memory. A file can become a thousand times as
/// large.
const UNPACKED_MAX: u64 = if cfg!(target_pointer_width = "64") { 4 << 30 } else { 1 << 30 };

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

/// All of such a file, and whether that is all of it; at most [`UNPACKED_MAX`] of a gzipped one. If it is cut or damaged,
/// that is reported, and the bytes are those that could be unpacked.
pub(crate) fn read_as_far(path: &Path) -> io::Result<(Vec<u8>, bool)> {
    let (bytes, broken) = read_all(open_plain(path)?, UNPACKED_MAX)?;
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

/// The bytes, and what is wrong with those that follow them.
fn read_all(file: impl BufRead, unpacked_max: u64) -> io::Result<(Vec<u8>, Option<io::Error>)> {
    let mut bytes = Vec::new();
    let (is_gzipped, mut file) = looked_at(file)?;
    if !is_gzipped {
        return file.read_to_end(&mut bytes).map(|_| (bytes, None));
    }
    let result = Unpacked::new(file).take(unpacked_max + 1).read_to_end(&mut bytes);
    if bytes.len() as u64 > unpacked_max {
        let why = format!("it unpacks to more than {unpacked_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    match result {
        Ok(_) => Ok((bytes, None)),
        Err(error) if is_of_content(&error) && !bytes.is_empty() => Ok((bytes, Some(error))),
        Err(error) => Err(error),
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

    #[test]
    fn a_gzipped_file_unpacks_to_so_much_and_no_more() {
        let plain = [7; 1000];
        let mut packed = Vec::new();
        GzEncoder::new(&plain[..], Compression::best()).read_to_end(&mut packed).unwrap();
        assert_eq!(read_all(&packed[..], 1000).unwrap().0, plain);
        let error = read_all(&packed[..], 999).unwrap_err();
        assert_eq!(error.to_string(), "it unpacks to more than 999 bytes");
        // Two members in a row are one file.
        let error = read_all(&[&packed[..], &packed].concat()[..], 1999).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        // What is not packed has no such limit.
        assert_eq!(read_all(&plain[..], 999).unwrap().0, plain);
    }

    #[test]
    fn of_a_gzipped_file_there_is_what_was_unpacked_before_it_is_cut_or_wrong() {
        let plain: Vec<u8> = (0..20_000u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        let mut packed = Vec::new();
        GzEncoder::new(&plain[..], Compression::best()).read_to_end(&mut packed).unwrap();
        for len in [packed.len() / 2, packed.len() - 8, packed.len() - 1] {
            let (bytes, broken) = read_all(&packed[..len], 1 << 20).unwrap();
            assert!(broken.is_some() && plain.starts_with(&bytes), "{len}");
            assert!(bytes.len() > plain.len() / 4, "{len}: {}", bytes.len());
        }
        for (behind, is_whole) in
            [(vec![0; 1], true), (vec![0; 100_000], true), (vec![0, 1], false), (b"more".to_vec(), false)]
        {
            let (bytes, broken) = read_all(&[&packed[..], &behind].concat()[..], 1 << 20).unwrap();
            assert!(bytes == plain && broken.is_none() == is_whole, "{broken:?}");
        }
        // Zeros may be between two as well.
        let (bytes, broken) = read_all(&[&packed[..], &[0; 500], &packed].concat()[..], 1 << 20).unwrap();
        assert!(bytes == [&plain[..], &plain].concat() && broken.is_none(), "{broken:?}");
        assert!(read_all(&packed[..12], 1 << 20).is_err());
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
        let error = read_all(packed.chain(BufReader::new(Failing)), 2000).unwrap_err();
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
            assert_eq!(read_all(BufReader::new(Slow(bytes)), 1000).unwrap().0, plain);
        }
        // Pages of shared memory with 14 chunks, some of them being read; then another method.
        let others = [[0x1F, 0x8B, 8, 0x50], [0x1F, 0x8B, 0x3B, 0x50], [0x1F, 0x8B, 7, 0x10]];
        let others = others.iter().map(|bytes| &bytes[..]);
        for short in [&b""[..], b"\x1F", b"x", b"\x1F\x8B\x08"].into_iter().chain(others) {
            assert_eq!(read_all(BufReader::new(Slow(short)), 1000).unwrap().0, short);
        }
    }
}
