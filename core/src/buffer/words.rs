//! Little-endian words of the region.
//!
//! They are aligned, unlike `zerocopy::byteorder`'s: on ARMv6-M an unaligned word takes four byte accesses, and
//! a word that a reset can cut in half could not publish a chunk.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A 16-bit word.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub(crate) struct Le16(u16);

impl Le16 {
    pub(crate) const fn new(value: u16) -> Self {
        Self(value.to_le())
    }
    #[inline]
    pub(crate) const fn get(self) -> u16 {
        u16::from_le(self.0)
    }
    #[inline]
    pub(crate) fn set(&mut self, value: u16) {
        self.0 = value.to_le();
    }
}

/// A 32-bit word.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub(crate) struct Le32(u32);

impl Le32 {
    pub(crate) const fn new(value: u32) -> Self {
        Self(value.to_le())
    }
    #[inline]
    pub(crate) const fn get(self) -> u32 {
        u32::from_le(self.0)
    }
    #[inline]
    pub(crate) fn set(&mut self, value: u32) {
        self.0 = value.to_le();
    }
    /// Adds; sticks at the largest value instead of starting again from 0.
    pub(crate) fn saturating_add(&mut self, more: u32) {
        self.set(self.get().saturating_add(more));
    }
}

/// A 64-bit word.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub(crate) struct Le64(u64);

impl Le64 {
    #[inline]
    pub(crate) const fn get(self) -> u64 {
        u64::from_le(self.0)
    }
    #[inline]
    pub(crate) fn set(&mut self, value: u64) {
        self.0 = value.to_le();
    }
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(crate) fn add(&mut self, more: u32) {
        self.set(self.get().wrapping_add(u64::from(more)));
    }
    #[cfg_attr(target_os = "none", inline(never))]
    pub(crate) fn sub(&mut self, less: u32) {
        self.set(self.get().saturating_sub(u64::from(less)));
    }
}
