//! Lines: an offer takes what there is room for, and nothing twice.

use embedded_io::{ErrorType, Write, WriteReady};
use std::convert::Infallible;
use tracebuf_embedded::export::{Export, NonBlocking};

/// A UART with room for a few bytes between two looks at it.
#[derive(Default)]
pub(crate) struct Uart {
    pub(crate) room: usize,
    pub(crate) sent: Vec<u8>,
}

impl ErrorType for Uart {
    type Error = Infallible;
}

impl WriteReady for Uart {
    fn write_ready(&mut self) -> Result<bool, Infallible> {
        Ok(self.room > 0)
    }
}

impl Write for Uart {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        assert!(self.room > 0, "this would block");
        let count = bytes.len().min(self.room);
        self.sent.extend(&bytes[..count]);
        self.room -= count;
        Ok(count)
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// A UART that fails after so many bytes, and then works again.
struct Fails {
    good: usize,
    sent: Vec<u8>,
}

impl ErrorType for Fails {
    type Error = embedded_io::ErrorKind;
}

impl WriteReady for Fails {
    fn write_ready(&mut self) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

impl Write for Fails {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Self::Error> {
        if self.good == 0 {
            self.good = 100;
            return Err(embedded_io::ErrorKind::Other);
        }
        let count = bytes.len().min(self.good).min(2);
        self.sent.extend(&bytes[..count]);
        self.good -= count;
        Ok(count)
    }

    fn flush(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

#[test]
fn an_error_after_some_bytes_does_not_send_them_twice() {
    let mut line = NonBlocking(Fails { good: 4, sent: Vec::new() });
    assert_eq!(line.offer(b"abcdef"), Ok(4));
    line.0.good = 0;
    assert_eq!(line.offer(b"ef"), Err(embedded_io::ErrorKind::Other));
    assert_eq!(line.offer(b"ef"), Ok(2));
    assert_eq!(line.0.sent, b"abcdef");
}

#[test]
fn an_offer_says_how_much_was_taken() {
    let mut line = NonBlocking(Uart { room: 4, sent: Vec::new() });
    assert_eq!((line.offer(b"abcdef"), line.offer(b"ef")), (Ok(4), Ok(0)));
}
