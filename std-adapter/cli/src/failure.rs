//! Lines on standard error, and the failure of a command.

use std::fmt::{Display, Write as _};
use std::path::Path;
use std::process::ExitCode;

use tracebuf_std::display::Escaped;

/// Prints a line on standard error. Its reader may be gone, or the disk full: that keeps no command from its work.
macro_rules! status {
    () => { status!("") };
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "{}", crate::failure::shown(&format!($($text)*)));
    }};
}
pub(crate) use status;

/// A text that is safe for a terminal: control characters, which a file's name may have, are shown rather than obeyed.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\t' => shown.push(letter),
            _ => _ = write!(shown, "{}", Escaped(letter)),
        }
    }
    shown
}

/// The name of standard output as a file.
pub(crate) use tracebuf_std::console::STDOUT;

/// The name under which a file that is read or written is reported: on one line, whatever it contains.
pub(crate) fn name_of(file: &Path) -> impl Display {
    Escaped(told(file).display())
}

/// The file's name, or what it stands for.
pub(crate) fn told(file: &Path) -> &Path {
    match file.to_str() {
        Some("-") => Path::new("standard input"),
        Some(STDOUT) => Path::new("standard output"),
        _ => file,
    }
}

/// The failure of a command: the text for standard error, and the exit status.
pub(crate) struct Failure {
    text: String,
    status: u8,
}

impl Failure {
    /// The exit status when the arguments are such that nothing can be done.
    pub(crate) const OF_ARGUMENTS: u8 = 2;

    pub(crate) fn new(why: impl Display) -> Self {
        Self { text: format!("error: {why}"), status: 1 }
    }

    /// About a file, by the name it was given.
    pub(crate) fn of(file: &Path, why: impl Display) -> Self {
        Self::new(format_args!("{}: {why}", name_of(file)))
    }

    /// The library's error, prefixed with the file's name unless it already begins with that.
    pub(crate) fn of_library(file: &Path, error: impl Display) -> Self {
        let text = error.to_string();
        match text.strip_prefix(&format!("{}: ", Escaped(file.display()))) {
            Some(why) => Self::of(file, why),
            None => Self::new(text),
        }
    }

    /// About a file that was to be written.
    pub(crate) fn writing(file: &Path, why: impl Display) -> Self {
        Self::of(file, format_args!("cannot be written: {why}"))
    }

    /// The same failure, caused by arguments.
    pub(crate) fn of_arguments(self) -> Self {
        Self { status: Self::OF_ARGUMENTS, ..self }
    }

    /// The same failure, with another exit status.
    pub(crate) fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// Adds more text.
    pub(crate) fn followed_by(self, more: impl Display) -> Self {
        Self { text: format!("{}{more}", self.text), ..self }
    }

    /// Prints why, and returns the exit status.
    pub(crate) fn report(&self) -> ExitCode {
        status!("{}", self.text);
        ExitCode::from(self.status)
    }
}
