//! Little-endian words of the region.
//!
//! They are aligned, unlike `zerocopy::byteorder`'s: on ARMv6-M an unaligned word takes four byte accesses, and
//! a word that a reset can cut in half could not publish a chunk.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! words {
    ($($name:ident: $int:ident),*) => {$(
        #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(transparent)]
        pub(crate) struct $name($int);

        impl $name {
            #[inline]
            pub(crate) const fn get(self) -> $int {
                $int::from_le(self.0)
            }
            #[inline]
            pub(crate) fn set(&mut self, value: $int) {
                self.0 = value.to_le();
            }
        }
    )*};
}
words!(Le16: u16, Le32: u32, Le64: u64);

macro_rules! new_and_add {
    ($($name:ident: $int:ident),*) => {$(
        impl $name {
            pub(crate) const fn new(value: $int) -> Self {
                Self(value.to_le())
            }
            /// Adds; sticks at the largest value instead of starting again from 0.
            pub(crate) fn saturating_add(&mut self, more: $int) {
                self.set(self.get().saturating_add(more));
            }
        }
    )*};
}
new_and_add!(Le16: u16, Le32: u32);

impl Le64 {
    #[cfg_attr(not(tracebuf_small), inline)]
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(crate) fn add(&mut self, more: u32) {
        self.set(self.get().wrapping_add(u64::from(more)));
    }
    #[cfg_attr(tracebuf_small, inline(never))]
    pub(crate) fn sub(&mut self, less: u32) {
        self.set(self.get().saturating_sub(u64::from(less)));
    }
}
