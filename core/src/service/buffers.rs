//! The central buffers as an endpoint finds them: by number.

use crate::buffer::{OverwriteObserver, TraceBuffer};

/// Central buffers, which are found by their numbers.
///
/// Slices, arrays and vectors are such: a buffer's number is its place. A service whose buffers come and go implements
/// it for what holds them.
///
/// ```
/// use tracebuf::buffer::{Config, FillPolicy, TraceBuffer, Unobserved};
/// use tracebuf::service::Buffers;
///
/// /// One buffer, with any number.
/// struct Numbered(u16, TraceBuffer<Vec<u8>>);
///
/// impl Buffers for Numbered {
///     type Memory = Vec<u8>;
///     type Observer = Unobserved;
///
///     fn buffer(&mut self, number: u16) -> Option<&mut TraceBuffer<Vec<u8>>> {
///         (number == self.0).then_some(&mut self.1)
///     }
/// }
///
/// let buffer = TraceBuffer::new(vec![0; 4096], Config::new(FillPolicy::RingBuffer))?;
/// let mut buffers = Numbered(40_000, buffer);
/// assert!(buffers.buffer(40_000).is_some() && buffers.buffer(0).is_none());
/// # Ok::<(), tracebuf::buffer::RegionError>(())
/// ```
pub trait Buffers {
    /// The buffers' memory.
    type Memory: AsRef<[u8]> + AsMut<[u8]>;
    /// What sees that they overwrite.
    type Observer: OverwriteObserver;

    /// The buffer of this number, if there is one. It stays the same for as long as there is one.
    fn buffer(&mut self, number: u16) -> Option<&mut TraceBuffer<Self::Memory, Self::Observer>>;
}

macro_rules! by_place {
    ($([$($parameter:tt)*] $buffers:ty)*) => {$(
        impl<M: AsRef<[u8]> + AsMut<[u8]>, O: OverwriteObserver, $($parameter)*> Buffers for $buffers {
            type Memory = M;
            type Observer = O;

            #[inline]
            fn buffer(&mut self, number: u16) -> Option<&mut TraceBuffer<M, O>> {
                self.get_mut(usize::from(number))
            }
        }
    )*};
}
by_place! { [] [TraceBuffer<M, O>] [const N: usize] [TraceBuffer<M, O>; N] }
#[cfg(feature = "alloc")]
by_place! { [] alloc::vec::Vec<TraceBuffer<M, O>> }

/// The numbers of the buffers that a producer may write to.
///
/// A `u32` is such a set, for the first 32. A service that gives its buffers numbers in turn has one of its own.
pub trait AllowedBuffers {
    /// Adds a number; false if it cannot be in this set.
    fn allow(&mut self, number: u16) -> bool;

    /// Whether a number is in the set. Asked for each chunk.
    fn has(&self, number: u16) -> bool;

    /// Calls `act` with each number.
    fn for_each(&self, act: impl FnMut(u16));
}

impl AllowedBuffers for u32 {
    fn allow(&mut self, number: u16) -> bool {
        let bit = 1u32.checked_shl(number.into());
        *self |= bit.unwrap_or(0);
        bit.is_some()
    }

    fn has(&self, number: u16) -> bool {
        self.checked_shr(number.into()).is_some_and(|bits| bits & 1 != 0)
    }

    fn for_each(&self, act: impl FnMut(u16)) {
        (0..u32::BITS as u16).filter(|number| self.has(*number)).for_each(act);
    }
}

#[cfg(test)]
mod tests {
    use super::AllowedBuffers;
    use std::vec::Vec;

    #[test]
    fn a_word_holds_the_first_32_numbers_and_no_other() {
        let mut allowed = 0;
        let taken = [0, 31, 32, 64, u16::MAX].map(|number| allowed.allow(number));
        assert_eq!(taken, [true, true, false, false, false]);
        assert_eq!(
            [0, 1, 31, 32, 63, u16::MAX].map(|number| allowed.has(number)),
            [true, false, true, false, false, false]
        );
        let mut all = Vec::new();
        allowed.for_each(|number| all.push(number));
        assert_eq!(all, [0, 31]);
    }
}
