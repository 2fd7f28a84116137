//! Packets and messages as their author sees them.

use super::trace_writer::TraceWriter;
use crate::proto::WireType;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};

/// A packet being written. It ends when this is dropped, whatever is still open in it.
///
/// ```
/// use tracebuf::producer::TraceWriter;
/// use tracebuf::proto::fields::trace_packet;
///
/// /// A packet that ends with the function, wherever that returns.
/// fn greet(writer: &mut TraceWriter<'_>, now: u64, name: Option<&str>) {
///     let mut packet = writer.packet();
///     packet.varint(trace_packet::TIMESTAMP, now);
///     let Some(name) = name else { return };
///     packet.message(trace_packet::FOR_TESTING).string(1, name);
/// }
/// ```
///
/// Forgotten, it ends when the next one begins or the writer is flushed.
pub struct PacketHandle<'w, 'a> {
    message: MessageHandle<'w, 'a>,
}

/// A message being written: the packet itself, or one nested in it. It ends when this is dropped.
///
/// Fields are written in the order of the calls. An invalid field number (0, or 2²⁹ and more) gives the whole packet
/// up. A packet with fields that only the service may write, such as its ids, is dropped by the service
/// ([`TraceExporter`](crate::service::TraceExporter) counts it). Cost: a field of a few bytes is one or two stores of a
/// word.
pub struct MessageHandle<'w, 'a> {
    writer: &'w mut TraceWriter<'a>,
    /// How many messages are open up to this one; those beyond were forgotten by their owners.
    depth: usize,
}

impl<'a> TraceWriter<'a> {
    /// Begins a packet; it ends when the handle is dropped. When there is no free chunk and the policy does not wait,
    /// the packet is discarded and counted as dropped, even if nothing is written.
    pub fn packet(&mut self) -> PacketHandle<'_, 'a> {
        self.enter();
        self.begin();
        PacketHandle { message: MessageHandle { writer: self, depth: 0 } }
    }
}

impl<'w, 'a> Deref for PacketHandle<'w, 'a> {
    type Target = MessageHandle<'w, 'a>;
    fn deref(&self) -> &Self::Target {
        &self.message
    }
}

impl DerefMut for PacketHandle<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.message
    }
}

impl<'w, 'a> MessageHandle<'w, 'a> {
    /// The `depth`th open message, for its author. What opened it ends it.
    pub(crate) fn lent(writer: &'w mut TraceWriter<'a>, depth: usize) -> ManuallyDrop<Self> {
        ManuallyDrop::new(MessageHandle { writer, depth })
    }

    /// An unsigned integer, an enum's number, or a signed one cast (`int64`, not `sint64`).
    pub fn varint(&mut self, field: u32, value: u64) {
        self.here().number(field, value);
    }

    /// A `bool`.
    pub fn bool(&mut self, field: u32, value: bool) {
        self.varint(field, u64::from(value));
    }

    /// Eight bytes: `fixed64` and `sfixed64`.
    pub fn fixed64(&mut self, field: u32, value: u64) {
        let writer = self.here();
        writer.tag(field, WireType::Fixed64);
        writer.put(value as u32, 4);
        writer.put((value >> 32) as u32, 4);
    }

    /// A `double`.
    pub fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    /// Four bytes: `fixed32`, `sfixed32`, and `float` by its bits.
    pub fn fixed32(&mut self, field: u32, value: u32) {
        let writer = self.here();
        writer.tag(field, WireType::Fixed32);
        writer.put(value, 4);
    }

    /// A string.
    pub fn string(&mut self, field: u32, value: &str) {
        self.bytes(field, value.as_bytes());
    }

    /// Bytes, or a message serialised elsewhere.
    pub fn bytes(&mut self, field: u32, value: &[u8]) {
        self.here().bytes(field, value);
    }

    /// A string made by formatting, without a buffer of its own; it takes a level as a [message](Self::message) does.
    pub fn formatted(&mut self, field: u32, text: fmt::Arguments<'_>) {
        let mut message = self.message(field);
        // The text of a value that fails to format ends where it failed.
        let _ = fmt::Write::write_fmt(&mut Text(&mut message), text);
    }

    /// A nested message. Until it ends, it takes one of [`TraceWriter::MAX_NESTING`] levels; with none left, the whole
    /// packet is given up.
    pub fn message(&mut self, field: u32) -> MessageHandle<'_, 'a> {
        let depth = self.depth + 1;
        self.here().open(field);
        // In a packet given up no level is open, and what is written at any depth goes nowhere.
        MessageHandle { writer: self.writer, depth }
    }

    /// The writer, after all that was forgotten in this message has been ended.
    pub(crate) fn here(&mut self) -> &mut TraceWriter<'a> {
        self.writer.close_levels(self.depth);
        self.writer
    }
}

impl Drop for MessageHandle<'_, '_> {
    fn drop(&mut self) {
        match self.depth.checked_sub(1) {
            Some(outer) => self.writer.close_levels(outer),
            // The packet's own, wherever it was swapped to.
            None => {
                self.writer.finish();
                self.writer.leave();
            }
        }
    }
}

struct Text<'t, 'w, 'a>(&'t mut MessageHandle<'w, 'a>);

impl fmt::Write for Text<'_, '_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.writer.put_bytes(text.as_bytes());
        Ok(())
    }
}
