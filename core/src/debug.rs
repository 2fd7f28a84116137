//! `Debug` for structs of many fields, and for those whose fields would tell nothing.
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

/// `Debug` of a struct: its fields one by one.
macro_rules! debug_of {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($field), &self.$field))*.finish()
            }
        }
    };
}
pub(crate) use debug_of;

/// The name alone, for programs that derive `Debug` for something that contains such a value.
macro_rules! opaque_debug {
    ($($name:literal: [$($generics:tt)*] $type:ty),* $(,)?) => {
        $(impl<$($generics)*> core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct($name).finish_non_exhaustive()
            }
        })*
    };
}
pub(crate) use opaque_debug;
