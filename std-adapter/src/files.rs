//! Files that commands read and write.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

/// Opens a file, plain or gzipped; - is standard input. A gzipped one is known by its first two bytes, so that standard
/// input may be one too.
pub(crate) fn open_any(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut plain: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::with_capacity(1 << 16, File::open(path)?))
    };
    // Nothing else starts so: 0x1F is no blank, no comment and no name of a script, and an image would have two
    // chunks of its first page being read at once.
    if plain.fill_buf()?.starts_with(&[0x1F, 0x8B]) {
        return Ok(Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(plain))));
    }
    Ok(plain)
}

/// All of such a file.
pub(crate) fn read_any(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_any(path)?.read_to_end(&mut bytes).map(|_| bytes)
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
