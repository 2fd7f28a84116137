//! `Debug` for structs of many fields.
//!
//! What `derive` makes of more than five fields calls a function of `core` that asserts, and so brings the
//! machinery of panics into firmware.

/// The body of a `Debug::fmt`: the fields one by one.
macro_rules! debug_fields {
    ($self:ident, $f:ident, $name:literal, $($field:ident),* $(,)?) => {
        $f.debug_struct($name)$(.field(stringify!($field), &$self.$field))*.finish()
    };
}
pub(crate) use debug_fields;
