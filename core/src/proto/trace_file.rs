//! The writer of trace files: [`TraceFileWriter`].

use core::fmt;

use embedded_io::{Error as _, ErrorKind, Write};

use super::fields::trace;
use super::{MAX_LENGTH, Message, Sink, TrustedFields, TrustedSuffix};

/// Why a packet was not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum WriteError<E> {
    /// The output's own error. Never [`Interrupted`](embedded_io::ErrorKind::Interrupted): such a write is made again.
    Output(E),
    /// The output took nothing, or claims to have taken more than it was given.
    Stuck,
    /// The packet is longer than [`MAX_LENGTH`]. Nothing of it was written; others may follow.
    TooLong,
    /// An earlier write failed and may have left part of a packet, after which nothing can be read.
    AfterFailure,
}

impl<E: fmt::Display> fmt::Display for WriteError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Output(error) => write!(f, "cannot write the trace: {error}"),
            WriteError::Stuck => f.write_str("the trace's output takes no more bytes"),
            WriteError::TooLong => write!(f, "a packet of more than {MAX_LENGTH} bytes"),
            WriteError::AfterFailure => f.write_str("the trace broke off earlier"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for WriteError<E> {}

/// Writes packets to an output as a trace file, as they come.
///
/// Every byte goes straight to the output, in pieces as small as a tag. There is no header and no footer: what was
/// written up to any packet's end is a trace, and traces may be put one after the other.
///
/// ```
/// use tracebuf::proto::{SequenceId, TraceFileWriter, TrustedFields};
///
/// let mut file = [0; 32];
/// let mut writer = TraceFileWriter::new(&mut file[..]);
/// let fragments: [&[u8]; 2] = [&[0x40], &[5]];
/// writer.packet(fragments, &TrustedFields::new(0, SequenceId::FIRST_WRITER)).unwrap();
/// assert_eq!((writer.packets(), writer.bytes()), (1, 8));
/// assert_eq!(file[..8], [0x0A, 6, 0x40, 5, 0x18, 0, 0x50, 2]);
/// ```
#[derive(Debug)]
pub struct TraceFileWriter<W> {
    output: W,
    packets: u64,
    bytes: u64,
    broken: bool,
}

impl<W: Write> TraceFileWriter<W> {
    /// Writes to `output` from where it stands.
    pub const fn new(output: W) -> Self {
        Self { output, packets: 0, bytes: 0, broken: false }
    }

    /// Writes a packet that lies in `fragments`, with `trusted` appended; returns the bytes it took in the file. The
    /// fragments are iterated over twice, because the length comes first; none is copied.
    ///
    /// # Errors
    /// [`WriteError`]; after any except [`TooLong`](WriteError::TooLong), no more can be written.
    pub fn packet<'a, I>(
        &mut self,
        fragments: I,
        trusted: &TrustedFields,
    ) -> Result<usize, WriteError<W::Error>>
    where
        I: IntoIterator<Item = &'a [u8], IntoIter: Clone>,
    {
        self.message(&Fragments(fragments.into_iter()), trusted)
    }

    /// Writes one of the service's own packets, like [`packet`](Self::packet); its fields are encoded straight to the
    /// output.
    ///
    /// # Errors
    /// Those of `packet`.
    pub fn message<M: Message>(
        &mut self,
        fields: &M,
        trusted: &TrustedFields,
    ) -> Result<usize, WriteError<W::Error>> {
        self.framed(fields, fields.encoded_len(), &trusted.suffix())
    }

    /// Whether a write has failed, and no more can be written.
    pub(crate) const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Like [`message`](Self::message), when its length and the trusted fields' bytes are known.
    pub(crate) fn framed<M: Message>(
        &mut self,
        fields: &M,
        len: usize,
        suffix: &TrustedSuffix,
    ) -> Result<usize, WriteError<W::Error>> {
        if self.broken {
            return Err(WriteError::AfterFailure);
        }
        let len = len.saturating_add(suffix.as_bytes().len());
        if len > MAX_LENGTH as usize {
            return Err(WriteError::TooLong);
        }
        let mut out = Output { output: &mut self.output, written: 0 };
        // Until all of it is out.
        self.broken = true;
        out.length(trace::PACKET, len)?;
        fields.encode(&mut out)?;
        out.put(suffix.as_bytes())?;
        let written = out.written;
        self.broken = false;
        self.packets = self.packets.saturating_add(1);
        self.bytes = self.bytes.saturating_add(written as u64);
        Ok(written)
    }

    /// Flushes the output.
    ///
    /// # Errors
    /// The output's own.
    pub fn flush(&mut self) -> Result<(), WriteError<W::Error>> {
        self.output.flush().map_err(WriteError::Output)
    }
}

impl<W> TraceFileWriter<W> {
    /// Whole packets written.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes of whole packets written: after a failure, where to cut the output.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the output back.
    pub fn into_output(self) -> W {
        self.output
    }
}

/// A packet in pieces.
pub(crate) struct Fragments<I>(pub(crate) I);

impl<'a, I: Iterator<Item = &'a [u8]> + Clone> Message for Fragments<I> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        self.0.clone().try_for_each(|fragment| out.put(fragment))
    }
}

/// A [`Sink`] over a writer.
struct Output<'a, W> {
    output: &'a mut W,
    written: usize,
}

impl<W: Write> Sink for Output<'_, W> {
    type Error = WriteError<W::Error>;

    fn put(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        write_all(self.output, bytes)?;
        self.written = self.written.saturating_add(bytes.len());
        Ok(())
    }
}

/// Like `Write::write_all`, which however panics when nothing is taken, and does not repeat a write that a signal
/// interrupted.
pub(crate) fn write_all<W: Write>(output: &mut W, bytes: &[u8]) -> Result<(), WriteError<W::Error>> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match output.write(rest) {
            Ok(0) => return Err(WriteError::Stuck),
            Ok(taken) => rest = rest.get(taken..).ok_or(WriteError::Stuck)?,
            // Nothing was taken, and nothing is wrong.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(WriteError::Output(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{SequenceId, TracePackets};
    use embedded_io::ErrorType;
    use std::vec::Vec;

    const TRUSTED: TrustedFields = TrustedFields::new(0, SequenceId::FIRST_WRITER);

    /// Takes up to `step` bytes a call and `room` in all; then does what `end` says.
    struct Output {
        taken: Vec<u8>,
        step: usize,
        room: usize,
        end: Result<usize, ErrorKind>,
    }

    impl ErrorType for Output {
        type Error = ErrorKind;
    }

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> Result<usize, ErrorKind> {
            let now = bytes.len().min(self.step).min(self.room - self.taken.len());
            self.taken.extend_from_slice(&bytes[..now]);
            if now == 0 { self.end } else { Ok(now) }
        }

        fn flush(&mut self) -> Result<(), ErrorKind> {
            self.end.map(|_| ())
        }
    }

    fn output(step: usize, room: usize, end: Result<usize, ErrorKind>) -> TraceFileWriter<Output> {
        TraceFileWriter::new(Output { taken: Vec::new(), step, room, end })
    }

    #[test]
    fn packets_come_back_from_an_output_that_takes_any_number_of_bytes_a_call() {
        let long = [0x55; 300];
        for step in [1, 2, 7, 1000] {
            let mut writer = output(step, 10_000, Ok(0));
            let first = writer.packet([&[0x40][..], &[1], &[0x40, 2]], &TRUSTED).unwrap();
            let second = writer.packet([&[0x5A, 0xAC, 0x02][..], &long], &TRUSTED).unwrap();
            writer.packet([], &TRUSTED).unwrap();
            assert_eq!(writer.packets(), 3);
            assert_eq!(writer.bytes(), (first + second + 6) as u64);
            writer.flush().unwrap();

            let file = writer.into_output().taken;
            let packets: Vec<_> = TracePackets::new(&file).map(Result::unwrap).collect();
            let suffix = TRUSTED.suffix();
            assert_eq!(packets[0], [&[0x40, 1, 0x40, 2][..], suffix.as_bytes()].concat());
            assert_eq!(packets[1], [&[0x5A, 0xAC, 0x02], &long[..], suffix.as_bytes()].concat());
            assert_eq!(packets[2], suffix.as_bytes());
        }
    }

    #[test]
    fn a_write_that_a_signal_interrupts_is_made_again() {
        /// Every other call is interrupted before a byte is taken.
        #[derive(Default)]
        struct Signals {
            taken: Vec<u8>,
            interrupted: bool,
        }

        impl ErrorType for Signals {
            type Error = ErrorKind;
        }

        impl Write for Signals {
            fn write(&mut self, bytes: &[u8]) -> Result<usize, ErrorKind> {
                self.interrupted = !self.interrupted;
                if self.interrupted {
                    return Err(ErrorKind::Interrupted);
                }
                self.taken.extend_from_slice(&bytes[..1]);
                Ok(1)
            }

            fn flush(&mut self) -> Result<(), ErrorKind> {
                Ok(())
            }
        }

        let mut writer = TraceFileWriter::new(Signals::default());
        for _ in 0..2 {
            assert_eq!(writer.packet([&[0x40, 1][..]], &TRUSTED), Ok(8));
        }
        let packet = [0x0A, 6, 0x40, 1, 0x18, 0, 0x50, 2];
        assert_eq!(writer.into_output().taken, [packet, packet].concat());
    }

    #[test]
    fn an_output_that_ends_anywhere_leaves_the_whole_packets_and_is_not_written_again() {
        for room in 0..16 {
            for (end, expected) in [
                (Ok(0), WriteError::Stuck),
                (Ok(usize::MAX), WriteError::Stuck),
                (Err(ErrorKind::BrokenPipe), WriteError::Output(ErrorKind::BrokenPipe)),
            ] {
                let mut writer = output(3, room, end);
                let mut result = Ok(8);
                while result.is_ok() {
                    result = writer.packet([&[0x40, 1][..]], &TRUSTED);
                }
                assert_eq!(result, Err(expected));
                assert_eq!(writer.packet([], &TRUSTED), Err(WriteError::AfterFailure));
                assert_eq!(writer.bytes(), room as u64 / 8 * 8);
                assert_eq!(writer.packets(), room as u64 / 8);
                assert_eq!(writer.into_output().taken.len(), room, "and nothing behind it");
            }
        }
    }

    #[test]
    fn a_packet_that_is_too_long_is_refused_whole_and_others_follow() {
        let mebibyte = std::vec![0; 1 << 20];
        let mut writer = output(1000, 100, Ok(0));
        let too_long = core::iter::repeat_n(&mebibyte[..], 256);
        assert_eq!(writer.packet(too_long, &TRUSTED), Err(WriteError::TooLong));
        assert_eq!(writer.packet([], &TRUSTED), Ok(6));
        // What a length can just say is not too long.
        let suffix = TRUSTED.suffix();
        let longest = MAX_LENGTH as usize - suffix.as_bytes().len();
        assert!(writer.framed(&Fragments(core::iter::empty()), longest, &suffix).is_ok());
        assert_eq!(
            writer.framed(&Fragments(core::iter::empty()), longest + 1, &suffix),
            Err(WriteError::TooLong)
        );
    }

    #[test]
    fn an_output_that_cannot_be_flushed_says_so() {
        let mut writer = output(1, 100, Err(ErrorKind::BrokenPipe));
        assert_eq!(writer.flush(), Err(WriteError::Output(ErrorKind::BrokenPipe)));
    }
}
