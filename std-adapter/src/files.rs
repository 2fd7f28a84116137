//! Files that commands read and write.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

/// What a gzipped file may unpack to in memory: more than any trace that is worth looking at. A file can become a
/// thousand times as large.
const UNPACKED_MAX: u64 = if cfg!(target_pointer_width = "64") { 4 << 30 } else { 1 << 30 };

/// Opens a file, plain or gzipped; - is standard input. A gzipped one is known by its first two bytes, so that standard
/// input may be one too.
pub(crate) fn open_any(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let (is_gzipped, file) = looked_at(open_plain(path)?)?;
    if is_gzipped {
        return Ok(Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file))));
    }
    Ok(Box::new(file))
}

fn open_plain(path: &Path) -> io::Result<Box<dyn BufRead>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 16, File::open(path)?)))
}

/// Whether a file is gzipped, and all of it. A pipe may give a byte at a time.
///
/// Nothing else starts so: 0x1F is no blank, no comment and no name of a script, and an image would have two chunks of
/// its first page being read at once.
fn looked_at<R: BufRead>(mut file: R) -> io::Result<(bool, impl BufRead)> {
    let mut first = Vec::new();
    file.by_ref().take(2).read_to_end(&mut first)?;
    Ok((first == [0x1F, 0x8B], io::Cursor::new(first).chain(file)))
}

/// All of such a file, of a gzipped one at most [`UNPACKED_MAX`].
pub(crate) fn read_any(path: &Path) -> io::Result<Vec<u8>> {
    read_all(open_plain(path)?, UNPACKED_MAX)
}

fn read_all(file: impl BufRead, unpacked_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let (is_gzipped, mut file) = looked_at(file)?;
    if !is_gzipped {
        return file.read_to_end(&mut bytes).map(|_| bytes);
    }
    MultiGzDecoder::new(file).take(unpacked_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > unpacked_max {
        let why = format!("it unpacks to more than {unpacked_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// Refuses to write into the file that is read, by whatever name: it would be emptied before it is read.
pub(crate) fn check_is_other(output: &Path, input: &Path) -> io::Result<()> {
    let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
    let (Ok(output), Ok(input)) = (fs::metadata(output), fs::metadata(input)) else { return Ok(()) };
    if input.is_file() && (input.dev(), input.ino()) == (output.dev(), output.ino()) {
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
        assert_eq!(read_all(&packed[..], 1000).unwrap(), plain);
        let error = read_all(&packed[..], 999).unwrap_err();
        assert_eq!(error.to_string(), "it unpacks to more than 999 bytes");
        // Two files in a row are one.
        let error = read_all(&[&packed[..], &packed].concat()[..], 1999).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        // What is not packed is as large as it is.
        assert_eq!(read_all(&plain[..], 999).unwrap(), plain);
    }

    #[test]
    fn a_file_that_comes_a_byte_at_a_time_is_known_by_its_first_two() {
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
            assert_eq!(read_all(BufReader::new(Slow(bytes)), 1000).unwrap(), plain);
        }
        for short in [&b""[..], b"\x1F", b"x"] {
            assert_eq!(read_all(BufReader::new(Slow(short)), 1000).unwrap(), short);
        }
    }
}
