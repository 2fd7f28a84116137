//! Looks at results, so that nothing is optimised away.

use core::convert::Infallible;
use core::fmt::{self, Write};
use core::hint::black_box;

/// Takes text and bytes to nowhere.
#[derive(Debug)]
pub(crate) struct Nowhere;

impl Write for Nowhere {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if black_box(text.len()) > 1000 { Err(fmt::Error) } else { Ok(()) }
    }
}

impl embedded_io::ErrorType for Nowhere {
    type Error = Infallible;
}

impl embedded_io::Write for Nowhere {
    /// Takes as many bytes as nobody knows; perhaps none.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        Ok(black_box(bytes.len()))
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// A result's value, if it is one; of an error, everything there is to see.
pub(crate) fn ok<T, E: core::error::Error>(result: Result<T, E>) -> Option<T> {
    if let Err(error) = &result {
        show(error);
        black_box(error.source());
    }
    result.ok()
}

/// Its text, both ways.
pub(crate) fn show<T: fmt::Debug + fmt::Display>(value: T) {
    let _ = black_box(write!(Nowhere, "{value}"));
    debug(value);
}

/// Its debugging text.
pub(crate) fn debug<T: fmt::Debug>(value: T) {
    let _ = black_box(write!(Nowhere, "{value:?}"));
    let _ = black_box(write!(Nowhere, "{value:#?}"));
}
