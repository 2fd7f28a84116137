//! A source of packets for a session, [`DataSource`], and the place where they go, [`SourceOutput`].

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use tracebuf::producer::PacketHandle;
use tracebuf::proto::Message;
use tracebuf::proto::reader::{Field, FieldValue, Fields};
use tracebuf_session::{PacketWriter, Recorder, SidePackets};

/// A source of packets from outside of the program, such as the kernel's ftrace. A
/// [`SourceThread`](super::SourceThread) calls it, always from one thread.
///
/// ```
/// use std::io;
/// use std::time::Duration;
/// use tracebuf_machine::sources::{DataSource, SourceOutput, SourceThread};
/// use tracebuf_session::Session;
///
/// /// Counts, and says so in packets.
/// struct Ticks(u64);
///
/// impl DataSource for Ticks {
///     fn name(&self) -> &'static str {
///         "example.ticks"
///     }
///     fn start(&mut self, _: &mut SourceOutput) -> io::Result<()> {
///         Ok(())
///     }
///     fn drain(&mut self, out: &mut SourceOutput) -> Duration {
///         self.0 += 1;
///         out.packet(|packet| packet.message(900).varint(4, self.0)); // for_testing
///         Duration::from_millis(1)
///     }
///     fn stop(&mut self, out: &mut SourceOutput) {
///         self.drain(out);
///     }
/// }
///
/// let session = Session::builder().start()?;
/// let sources = SourceThread::start("ticks", &session.recorder(), &session.side_packets(), vec![Box::new(Ticks(0))])?;
/// sources.flush(Duration::from_secs(5))?;
/// sources.stop()?;
/// let mut trace = Vec::new();
/// session.snapshot()?.write(&mut trace)?;
/// session.stop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait DataSource: Send {
    /// Perfetto's name of the source, such as `linux.ftrace`, or one of its own.
    fn name(&self) -> &'static str;

    /// Begins to record. After an error the source is dropped.
    ///
    /// # Errors
    /// Whatever keeps it from recording anything.
    fn start(&mut self, out: &mut SourceOutput) -> io::Result<()>;

    /// Writes what has come since the last call, and returns how long it can wait for the next one. What takes longer is
    /// better done in parts, with a wait of zero after each: other sources of the thread have their turn in between.
    fn drain(&mut self, out: &mut SourceOutput) -> Duration;

    /// Writes all that was recorded until now.
    fn flush(&mut self, out: &mut SourceOutput) {
        self.drain(out);
    }

    /// Ends recording, writes what is left, and gives back what it holds of the system. A source that is dropped without
    /// this call gives that back too.
    fn stop(&mut self, out: &mut SourceOutput);

    /// Tells again what it has told only once: of that, a service's buffer may have lost something.
    fn tell_again(&mut self) {}

    /// Files that become readable when it is to be drained before its time.
    fn wakes_on(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }
}

/// The place where a source's packets go: a sequence of its own in a buffer of a session, and what the session keeps
/// beside its buffers, if it does.
pub struct SourceOutput {
    writer: PacketWriter,
    side: Option<SidePackets>,
    /// Packets that would have been kept.
    kept: u64,
}

impl SourceOutput {
    /// Writes where a recorder does, and beside the buffers of its session; without that place, what is to be
    /// [kept](Self::keep) goes into the buffer too. `None` if the session is over or has no free writer.
    pub fn new(recorder: &Recorder, side: impl Into<Option<SidePackets>>) -> Option<Self> {
        Some(Self { writer: recorder.packet_writer()?, side: side.into(), kept: 0 })
    }

    /// Writes a packet: see [`PacketWriter::packet`].
    pub fn packet(&mut self, fill: impl FnOnce(&mut PacketHandle<'_, '_>)) {
        self.writer.packet(fill);
    }

    /// Writes a packet that was made elsewhere: the bytes of a `TracePacket`. What is malformed in it is left out.
    pub fn bytes(&mut self, packet: &[u8]) {
        self.writer.packet(|out| {
            for Field { number, value, whole } in Fields::of(packet) {
                match value {
                    FieldValue::Number(value) => out.varint(number, value),
                    FieldValue::Bytes(bytes) => out.bytes(number, bytes),
                    // The tag's lowest bits tell four bytes from eight.
                    FieldValue::Fixed(value) => match whole.first().map(|tag| tag & 7) {
                        Some(5) => out.fixed32(number, value as u32),
                        _ => out.fixed64(number, value),
                    },
                }
            }
        });
    }

    /// Writes a packet.
    pub fn message<M: Message>(&mut self, packet: &M) {
        let mut bytes = Vec::new();
        let Ok(()) = packet.encode(&mut bytes);
        self.bytes(&bytes);
    }

    /// Writes a packet that a ring must not lose: in every file it comes before all that the buffers hold, if the
    /// session has a place for it. Returns its number.
    pub fn keep<M: Message>(&mut self, packet: &M) -> u64 {
        if let Some(side) = &self.side {
            return side.add(packet);
        }
        self.message(packet);
        self.kept += 1;
        self.kept
    }

    /// Forgets a packet that was [kept](Self::keep).
    pub fn forget(&self, number: u64) {
        self.side.iter().for_each(|side| side.remove(number));
    }

    /// Packets that shared memory had no room for.
    pub fn dropped(&self) -> u64 {
        self.writer.stats().dropped
    }
}

impl std::fmt::Debug for SourceOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceOutput").field("writer", &self.writer).finish_non_exhaustive()
    }
}
