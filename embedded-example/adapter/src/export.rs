//! Lines out of the device: a small trait and its implementations.
//!
//! ```
//! use tracebuf_embedded::export::{Blocking, Export};
//!
//! let mut uart = [0u8; 8]; // anything that implements embedded_io::Write
//! assert_eq!(Blocking(&mut uart[..]).offer(b"abc"), Ok(3));
//!
//! // Or a function that says how many bytes it has taken.
//! let mut probe = |bytes: &[u8]| Ok::<_, ()>(bytes.len().min(2));
//! assert_eq!(probe.offer(b"abc"), Ok(2));
//! ```

use embedded_hal::spi::SpiDevice;
use embedded_io::{Write, WriteReady};

/// How far a sender has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Bytes went out; there may be more.
    Sent,
    /// The line takes nothing now.
    Busy,
    /// There is nothing to send.
    Idle,
}

impl Progress {
    /// After a line has taken nothing.
    pub(crate) const fn or_busy(self) -> Self {
        if let Self::Idle = self { Self::Busy } else { self }
    }
}

/// Takes bytes of a trace on their way out. A function of this form is one, too.
pub trait Export {
    /// The line's error.
    type Error;

    /// Takes as many of the bytes as it can now, from the first on, and returns how many: 0 means try again later.
    ///
    /// # Errors
    /// The line's. Then it took none of the bytes, and they may be offered again.
    fn offer(&mut self, bytes: &[u8]) -> Result<usize, Self::Error>;
}

impl<F: FnMut(&[u8]) -> Result<usize, E>, E> Export for F {
    type Error = E;

    fn offer(&mut self, bytes: &[u8]) -> Result<usize, E> {
        self(bytes)
    }
}

/// A line that is waited for.
#[derive(Debug)]
pub struct Blocking<W>(pub W);

impl<W: Write> Export for Blocking<W> {
    type Error = W::Error;

    fn offer(&mut self, bytes: &[u8]) -> Result<usize, W::Error> {
        self.0.write(bytes)
    }
}

/// A line that is not waited for: it is given what it has room for.
#[derive(Debug)]
pub struct NonBlocking<W>(pub W);

impl<W: Write + WriteReady> Export for NonBlocking<W> {
    type Error = W::Error;

    fn offer(&mut self, bytes: &[u8]) -> Result<usize, W::Error> {
        let mut rest = bytes;
        let mut error = None;
        while !rest.is_empty() && error.is_none() {
            let ready = self.0.write_ready();
            match ready.and_then(|ready| if ready { self.0.write(rest) } else { Ok(0) }) {
                Ok(0) => break,
                Ok(taken) => rest = rest.get(taken..).unwrap_or_default(),
                Err(failed) => error = Some(failed),
            }
        }
        match (bytes.len() - rest.len(), error) {
            (0, Some(error)) => Err(error),
            // What was taken must not be offered again; an error that persists is reported by the next offer.
            (taken, _) => Ok(taken),
        }
    }
}

/// A device on an SPI bus that takes whatever is written, with a transaction for each frame.
#[derive(Debug)]
pub struct Spi<D>(pub D);

impl<D: SpiDevice> Export for Spi<D> {
    type Error = D::Error;

    fn offer(&mut self, bytes: &[u8]) -> Result<usize, D::Error> {
        self.0.write(bytes)?;
        Ok(bytes.len())
    }
}
