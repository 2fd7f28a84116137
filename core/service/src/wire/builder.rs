//! Protobuf messages under construction: [`ProtoBuilder`].

use alloc::vec::Vec;
use core::convert::Infallible;

use tracebuf::proto::Sink;

/// A protobuf message that grows field by field.
///
/// ```
/// use tracebuf_service::wire::ProtoBuilder;
///
/// let inner = ProtoBuilder::new().bytes(1, b"a");
/// let message = ProtoBuilder::new().number(2, true).message(3, &inner);
/// assert_eq!(message.as_bytes(), b"\x10\x01\x1A\x03\x0A\x01a");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtoBuilder(Vec<u8>);

impl ProtoBuilder {
    /// Without fields.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds an integer, a boolean or an enumeration.
    #[must_use]
    pub fn number(mut self, field: u32, value: impl Into<u64>) -> Self {
        let Ok::<_, Infallible>(()) = self.0.varint(field, value.into());
        self
    }

    /// Adds a string or bytes.
    #[must_use]
    pub fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        let Ok::<_, Infallible>(()) = self.0.bytes(field, value);
        self
    }

    /// Adds a message.
    #[must_use]
    pub fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// Adds something for each of the values.
    #[must_use]
    pub fn each<T>(self, values: impl IntoIterator<Item = T>, add: impl Fn(Self, T) -> Self) -> Self {
        values.into_iter().fold(self, add)
    }

    /// Adds fields that are encoded already.
    #[must_use]
    pub fn fields(mut self, encoded: &[u8]) -> Self {
        self.0.extend_from_slice(encoded);
        self
    }

    /// The message.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The message, which is no longer under construction.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
