//! Files that the commands read and write, and failures.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PathBufValueParser, TypedValueParser};
use flate2::bufread::GzDecoder;
use tracebuf_std::display::{Count, Escaped};
use tracebuf_std::system::id_at;

const STDOUT: &str = "/dev/stdout";

/// Why a command failed: the text for standard error, and the exit status.
pub(crate) struct Failure {
    text: String,
    status: u8,
}

impl Failure {
    /// About a file, by the name it was given.
    pub(crate) fn of(file: &Path, why: impl Display) -> Self {
        Self { text: format!("error: {}: {why}", name_of(file)), status: 1 }
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

/// What a file is called in messages.
fn name_of(file: &Path) -> Escaped<impl Display> {
    let name = match file.to_str() {
        Some("-") => Path::new("standard input"),
        Some(STDOUT) => Path::new("standard output"),
        _ => file,
    };
    Escaped(name.display())
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
        return Ok(Box::new(BufReader::with_capacity(1 << 16, Unpacked(Some(GzDecoder::new(file))))));
    }
    Ok(Box::new(file))
}

/// The members of a gzipped file. There may be zeros after each, as where a disk has only whole blocks.
struct Unpacked<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let count = member.read(bytes)?;
            if count > 0 || bytes.is_empty() {
                return Ok(count);
            }
            let Some(mut file) = self.0.take().map(GzDecoder::into_inner) else { break };
            while file.fill_buf()?.first() == Some(&0) {
                file.consume(1);
            }
            self.0 = if file.fill_buf()?.is_empty() { None } else { Some(GzDecoder::new(file)) };
        }
        Ok(0)
    }
}

/// The first `most` bytes of a file. If a gzipped one is cut or damaged before, that is told, and these are the bytes
/// up to there.
pub(crate) fn read_start(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    match input(path).and_then(|input| input.take(most).read_to_end(&mut bytes)) {
        // Not what the system says, which is not about the content.
        Err(error)
            if !bytes.is_empty()
                && error.raw_os_error().is_none()
                && error.kind() != io::ErrorKind::OutOfMemory =>
        {
            let (name, len) = (name_of(path), Count(bytes.len() as u64, "byte"));
            tell(&format_args!(
                "{name} cannot be unpacked to its end: {error}; what follows is of the {len} before"
            ));
        }
        other => drop(other.map_err(|error| Failure::of(path, error))?),
    }
    Ok(bytes)
}

/// Whether a file to write is the one that is read, by whatever name.
pub(crate) fn is_same(output: &Path, input: &Path) -> bool {
    let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
    let is_file = fs::metadata(input).is_ok_and(|input| input.is_file());
    is_file && id_at(output).is_ok_and(|output| id_at(input).is_ok_and(|input| input == output))
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
