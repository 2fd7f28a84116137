//! Files that the commands read and write, and failures.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PathBufValueParser, TypedValueParser};
use flate2::bufread::MultiGzDecoder;
use tracebuf_std::display::Escaped;

const STDOUT: &str = "/dev/stdout";

/// Why a command failed: the text for standard error, and the exit status.
pub(crate) struct Failure {
    text: String,
    status: u8,
}

impl Failure {
    /// About a file, by the name it was given.
    pub(crate) fn of(file: &Path, why: impl Display) -> Self {
        let name = match file.to_str() {
            Some("-") => Path::new("standard input"),
            Some(STDOUT) => Path::new("standard output"),
            _ => file,
        };
        Self { text: format!("error: {}: {why}", Escaped(name.display())), status: 1 }
    }

    /// About a file that was to be written.
    pub(crate) fn writing(file: &Path, why: impl Display) -> Self {
        Self::of(file, format_args!("cannot be written: {why}"))
    }

    /// About a line of a script. Programs that run scripts rely on this text: the line's number, without the script's
    /// name.
    pub(crate) fn malformed(line: impl Display) -> Self {
        Self { text: format!("error {line}"), status: 2 }
    }

    /// The same failure, caused by the arguments.
    pub(crate) fn of_arguments(self) -> Self {
        Self { status: 2, ..self }
    }

    /// Prints the reason; returns the exit status.
    pub(crate) fn tell(&self) -> ExitCode {
        tell(&self.text);
        ExitCode::from(self.status)
    }
}

/// Prints a line on standard error. If that is gone, there is nobody to tell.
pub(crate) fn tell(text: &impl Display) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The outcome of a command, given that of its output. It is no failure if the reader has seen enough.
pub(crate) fn printed(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::writing(Path::new(STDOUT), error))
        }
        _ => Ok(()),
    }
}

/// Opens a file, plain or gzipped; - is standard input.
///
/// A gzipped file is known by its first four bytes. Nothing else starts like that: 0x1F begins no line of a script, and
/// as a page's bitmap these bytes have a layout of one chunk at most and states of chunks beyond it.
pub(crate) fn input(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let mut file: Box<dyn BufRead> = match path.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => Box::new(BufReader::with_capacity(1 << 16, File::open(path)?)),
    };
    // A pipe may give a byte at a time.
    let mut first = Vec::new();
    file.by_ref().take(4).read_to_end(&mut first)?;
    let is_gzipped = matches!(first[..], [0x1F, 0x8B, 8, flags] if flags & 0xE0 == 0);
    let file = io::Cursor::new(first).chain(file);
    if is_gzipped {
        return Ok(Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file))));
    }
    Ok(Box::new(file))
}

/// The name of a file to write; - is standard output, by the name for which `tracebuf-std` takes what is open.
pub(crate) fn output_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|path| if path == Path::new("-") { STDOUT.into() } else { path })
}

/// Whether a file to write is standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new(STDOUT)
}

/// Writes all of a file.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let result = match is_stdout(path) {
        true => io::stdout().write_all(content).and_then(|()| io::stdout().flush()),
        false => fs::write(path, content),
    };
    result.map_err(|error| Failure::writing(path, error))
}
