//! Protobuf messages as they are built, and their numbers.

use tracebuf_session::fields::{Fields, Value, push_bytes, push_number};

/// A message to which fields are added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Proto(Vec<u8>);

impl Proto {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// A number, or a boolean.
    pub(super) fn number(mut self, field: u32, value: impl Into<u64>) -> Self {
        push_number(&mut self.0, field, value.into());
        self
    }

    pub(super) fn bytes(mut self, field: u32, value: &[u8]) -> Self {
        push_bytes(&mut self.0, field, &[value]);
        self
    }

    pub(super) fn message(self, field: u32, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// Adds fields for each of several values.
    pub(super) fn each<T>(self, values: impl IntoIterator<Item = T>, add: impl Fn(Self, T) -> Self) -> Self {
        values.into_iter().fold(self, add)
    }

    /// Adds fields that are already encoded.
    pub(super) fn fields(mut self, encoded: &[u8]) -> Self {
        self.0.extend_from_slice(encoded);
        self
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Numbers of a message, 0 where it has none; `None` for a malformed one.
pub(super) fn numbers<const N: usize>(message: &[u8], of: [u32; N]) -> Option<[u64; N]> {
    let mut numbers = [0; N];
    let mut fields = Fields::of(message);
    for field in &mut fields {
        if let Value::Number(value) = field.value {
            let wanted = of.iter().zip(&mut numbers).find(|(number, _)| **number == field.number);
            wanted.into_iter().for_each(|(_, number)| *number = value);
        }
    }
    fields.is_at_end().then_some(numbers)
}
