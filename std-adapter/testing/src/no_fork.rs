//! Children after a fork, where there is none: a test of a child has nothing to find.

/// Returns true: a child that there is not does nothing wrong.
pub fn in_child(_: impl FnOnce() -> bool) -> bool {
    true
}
