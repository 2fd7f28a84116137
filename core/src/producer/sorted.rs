//! Lists that are kept sorted, for binary search.

use heapless::Vec;

/// Inserts an item at its place, which is not beyond the list's end. `None` if there is no room. Does not use
/// `Vec::insert`, which can panic.
pub(crate) fn insert<T, const N: usize>(list: &mut Vec<T, N>, place: usize, item: T) -> Option<&mut T> {
    list.push(item).ok()?;
    let behind = list.get_mut(place..)?;
    let (last, others) = behind.split_last_mut()?;
    for other in others {
        core::mem::swap(other, last);
    }
    behind.first_mut()
}
