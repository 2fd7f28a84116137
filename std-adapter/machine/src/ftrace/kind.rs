//! Kinds of fields of the kernel's events, and the protobuf types that take them.

/// The kind of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text in the field itself, up to a NUL or the field's end.
    Text,
    /// Text or bytes elsewhere in the event; the field says where.
    Located {
        /// Whether the place counts from the field's end, not from the event's start.
        is_relative: bool,
        /// Whether it is bytes, not text.
        is_bytes: bool,
    },
    /// The six arguments of a system call.
    Arguments,
    /// The address of a constant text in the kernel.
    TextAddress,
    /// The address of something in the kernel that may have a name.
    Symbol,
    /// Text up to the event's end.
    TextToEnd,
    /// Yes or no.
    Bool,
    /// The number of an inode.
    Inode,
    /// A device, as the kernel encodes it.
    Device,
    /// A thread.
    Pid,
    /// A signed integer of this many bytes.
    Int(u8),
    /// An unsigned integer of this many bytes.
    Uint(u8),
}

/// A type of protobuf in the table of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProtoType {
    String,
    Bytes,
    Int32,
    Int64,
    Uint32,
    Uint64,
    Uint64s,
}

impl ProtoType {
    /// By its letter in the table.
    pub(super) fn of(letter: &str) -> Option<Self> {
        Some(match letter {
            "s" => Self::String,
            "b" => Self::Bytes,
            "i" => Self::Int32,
            "I" => Self::Int64,
            "u" => Self::Uint32,
            "U" => Self::Uint64,
            "U*" => Self::Uint64s,
            _ => return None,
        })
    }
}

impl Kind {
    /// The kind of a field by its declaration, size in bytes and sign; `None` if a trace has no place for it. The order
    /// of the questions is Perfetto's.
    pub fn of(declaration: &str, size: usize, is_signed: bool) -> Option<Self> {
        let starts_with = |start| declaration.starts_with(start);
        let is_word = matches!(size, 4 | 8);
        if has_sized_text(declaration) {
            Some(Self::Text)
        } else if let Some((is_relative, element)) = located(declaration) {
            let is_bytes = matches!(element, "u8" | "__u8" | "unsigned char");
            (size == 4).then_some(Self::Located { is_relative, is_bytes })
        } else if declaration == "unsigned long args[6]" && matches!(size, 24 | 48) {
            Some(Self::Arguments)
        } else if is_word && (declaration.contains("char[] ") || declaration.contains("char * ")) {
            Some(Self::TextAddress)
        } else if is_word && (starts_with("void*") || starts_with("void *")) {
            Some(Self::Symbol)
        } else if size == 0 {
            starts_with("char ").then_some(Self::TextToEnd)
        } else if starts_with("bool ") {
            Some(Self::Bool)
        } else if is_word && (starts_with("ino_t ") || starts_with("i_ino ")) {
            Some(Self::Inode)
        } else if is_word && starts_with("dev_t ") {
            Some(Self::Device)
        } else if size == 4 && starts_with("pid_t ") {
            Some(Self::Pid)
        } else if matches!(size, 1 | 2 | 4 | 8) {
            Some(if is_signed { Self::Int(size as u8) } else { Self::Uint(size as u8) })
        } else {
            None
        }
    }

    /// Whether a value of this kind goes into a field of that type.
    pub(super) const fn fits(self, proto: ProtoType) -> bool {
        use ProtoType::{Bytes, Int32, Int64, String, Uint32, Uint64, Uint64s};
        match self {
            Self::Located { is_bytes: true, .. } => matches!(proto, Bytes),
            Self::Text | Self::TextToEnd | Self::TextAddress | Self::Located { .. } => {
                matches!(proto, String)
            }
            Self::Arguments => matches!(proto, Uint64s),
            Self::Symbol | Self::Inode | Self::Device => matches!(proto, Uint64),
            Self::Bool => matches!(proto, Uint32 | Uint64),
            Self::Pid => matches!(proto, Int32 | Int64),
            Self::Int(len) => matches!(proto, Int64) || len <= 4 && matches!(proto, Int32),
            Self::Uint(len) => matches!(proto, Uint64) || len <= 4 && matches!(proto, Uint32),
        }
    }
}

/// Whether there is `char NAME[SIZE]` in a declaration.
fn has_sized_text(declaration: &str) -> bool {
    declaration.match_indices("char ").any(|(at, found)| {
        let rest = declaration.get(at + found.len()..).unwrap_or_default();
        let Some((name, rest)) = rest.split_once('[') else { return false };
        let Some((size, _)) = rest.split_once(']') else { return false };
        let is_name = |text: &str| !text.is_empty() && text.chars().all(is_identifier);
        is_name(name) && !name.starts_with(|c: char| c.is_ascii_digit()) && is_name(size)
    })
}

/// Whether a letter may be part of a name in C.
pub(super) const fn is_identifier(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The elements of what lies elsewhere in the event, and whether its place is relative.
fn located(declaration: &str) -> Option<(bool, &str)> {
    let (is_relative, rest) = match declaration.split_once("__data_loc ") {
        Some((_, rest)) => (false, rest),
        None => (true, declaration.split_once("__rel_loc ")?.1),
    };
    Some((is_relative, rest.split_once("[]").map_or("", |(element, _)| element)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declaration_has_the_first_kind_that_it_fits() {
        let (text, bytes) = (false, true);
        let located = |is_relative, is_bytes| Some(Kind::Located { is_relative, is_bytes });
        let kinds = [
            ("char comm[16]", 16, Some(Kind::Text)),
            ("unsigned char saddr[sizeof_in6]", 28, Some(Kind::Text)),
            ("char buf[]", 0, Some(Kind::TextToEnd)),
            ("char buf", 0, Some(Kind::TextToEnd)),
            ("unsigned long caller[]", 0, None),
            ("__data_loc char[] name", 4, located(false, text)),
            ("__data_loc unsigned long[] args", 4, located(false, text)),
            ("__data_loc u8[] buf", 4, located(false, bytes)),
            ("__rel_loc unsigned char[] buf", 4, located(true, bytes)),
            ("__rel_loc char[] name", 4, located(true, text)),
            ("__data_loc char[] name", 8, None),
            ("unsigned long args[6]", 48, Some(Kind::Arguments)),
            ("unsigned long args[4]", 32, None),
            ("const char * s", 8, Some(Kind::TextAddress)),
            ("char[] s", 8, Some(Kind::TextAddress)),
            ("void * work", 8, Some(Kind::Symbol)),
            ("void *work", 4, Some(Kind::Symbol)),
            ("const void * work", 8, Some(Kind::Uint(8))),
            ("bool success", 1, Some(Kind::Bool)),
            ("ino_t ino", 8, Some(Kind::Inode)),
            ("dev_t dev", 4, Some(Kind::Device)),
            ("pid_t pid", 4, Some(Kind::Pid)),
            ("pid_t pid", 8, Some(Kind::Uint(8))),
            ("__u8 daddr[4]", 4, Some(Kind::Uint(4))),
            ("char c", 1, Some(Kind::Uint(1))),
            ("struct x y", 12, None),
        ];
        for (declaration, size, kind) in kinds {
            assert_eq!(Kind::of(declaration, size, false), kind, "{declaration}");
        }
        assert_eq!(Kind::of("int ret", 4, true), Some(Kind::Int(4)));
    }

    #[test]
    fn a_value_goes_only_where_it_cannot_change() {
        use ProtoType::{Int32, Int64, String, Uint32, Uint64};
        let (int, uint) = (Kind::Int, Kind::Uint);
        assert!(int(4).fits(Int32) && int(8).fits(Int64) && uint(4).fits(Uint32) && uint(1).fits(Uint64));
        assert!(!int(8).fits(Int32) && !uint(4).fits(Int32) && !uint(8).fits(Uint32) && !int(1).fits(Uint64));
        assert!(Kind::Pid.fits(Int32) && !Kind::Pid.fits(Uint32) && !Kind::Text.fits(ProtoType::Bytes));
        assert!(Kind::Bool.fits(Uint32) && !Kind::Bool.fits(Int32) && !Kind::Symbol.fits(String));
    }
}
