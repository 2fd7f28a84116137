//! Tests of the buffer as a whole from inside; those from outside are in `core/tests`.

mod cost;
pub(super) mod memory;
