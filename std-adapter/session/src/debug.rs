//! `Debug` for types of which few fields tell anything.

/// Implements it with the type's name and these fields.
macro_rules! debug_fields {
    ($type:ident $(<$lifetime:lifetime>)? $(, $field:ident)*) => {
        impl std::fmt::Debug for $type $(<$lifetime>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}
