//! `List`: at most so many items, in place or, where there is a heap, on it.

/// At most `N` items. With the feature `alloc` it takes memory for those that it has, otherwise for all.
#[cfg(not(feature = "alloc"))]
pub(crate) type List<T, const N: usize> = heapless::Vec<T, N>;

#[cfg(feature = "alloc")]
pub(crate) use on_heap::List;

#[cfg(feature = "alloc")]
mod on_heap {
    use alloc::vec::Vec;
    use core::ops::{Deref, DerefMut};

    /// What is used here of `heapless::Vec`, on the heap.
    pub(crate) struct List<T, const N: usize>(Vec<T>);

    impl<T, const N: usize> List<T, N> {
        pub(crate) const fn new() -> Self {
            List(Vec::new())
        }

        pub(crate) fn is_full(&self) -> bool {
            self.0.len() >= N
        }

        /// An error, with the item, if there is no room for it.
        pub(crate) fn push(&mut self, item: T) -> Result<(), T> {
            if self.is_full() || self.0.try_reserve(1).is_err() {
                return Err(item);
            }
            self.0.push(item);
            Ok(())
        }

        /// Takes out the item that is there, if there is one, and no other.
        pub(crate) fn remove(&mut self, place: usize) {
            if place < self.0.len() {
                self.0.remove(place);
            }
        }
    }

    impl<T, const N: usize> Deref for List<T, N> {
        type Target = [T];
        fn deref(&self) -> &[T] {
            &self.0
        }
    }

    impl<T, const N: usize> DerefMut for List<T, N> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::List;

    #[test]
    fn a_list_takes_as_many_items_as_it_may_and_gives_the_next_back() {
        let mut list = List::<u16, 3>::new();
        let taken = [1, 2, 3, 4].map(|item| (list.is_full(), list.push(item)));
        assert_eq!(taken, [(false, Ok(())), (false, Ok(())), (false, Ok(())), (true, Err(4))]);
        #[cfg(feature = "alloc")]
        [3, 1].into_iter().for_each(|place| list.remove(place));
        #[cfg(not(feature = "alloc"))]
        list.retain(|item| *item != 2);
        assert_eq!([list.push(5), list.push(6)], [Ok(()), Err(6)]);
        assert_eq!(list[..], [1, 3, 5]);
    }
}
