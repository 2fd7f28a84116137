//! Protobuf messages under construction: [`ProtoBuilder`].

use std::convert::Infallible;

use tracebuf::proto::Sink;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProtoBuilder(Vec<u8>);

impl ProtoBuilder {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn number(mut self, field: u32, value: impl Into<u64>) -> Self {
        let Ok::<_, Infallible>(()) = self.0.varint(field, value.into());
        self
    }

    pub(crate) fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        let Ok::<_, Infallible>(()) = self.0.bytes(field, value);
        self
    }

    pub(crate) fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    pub(crate) fn each<T>(self, values: impl IntoIterator<Item = T>, add: impl Fn(Self, T) -> Self) -> Self {
        values.into_iter().fold(self, add)
    }

    pub(crate) fn fields(mut self, encoded: &[u8]) -> Self {
        self.0.extend_from_slice(encoded);
        self
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}
