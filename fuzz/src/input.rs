//! Inputs: small numbers read from the front, so that inputs can be written by hand and mutate locally.

use arbitrary::Unstructured;

/// What is left of an input. Numbers beyond its end are 0.
pub struct Input<'a>(Unstructured<'a>);

impl<'a> Input<'a> {
    pub fn new(data: &'a [u8]) -> Self {
        Self(Unstructured::new(data))
    }
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }
    pub fn byte(&mut self) -> u8 {
        self.0.arbitrary().unwrap_or_default()
    }
    /// Two bytes, the lower first.
    pub fn u16(&mut self) -> u16 {
        self.0.arbitrary().unwrap_or_default()
    }
    /// Four bytes, the lowest first.
    pub fn u32(&mut self) -> u32 {
        self.0.arbitrary().unwrap_or_default()
    }
    /// The next bytes, at most so many.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        self.0.bytes(most.min(self.0.len())).unwrap_or_default()
    }
    pub fn rest(self) -> &'a [u8] {
        self.0.take_rest()
    }
}
