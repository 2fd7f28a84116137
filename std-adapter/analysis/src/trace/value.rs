//! Values of arguments.

use std::fmt;
use std::sync::Arc;

/// The value of an argument.
///
/// ```
/// use tracebuf_analysis::trace::Value;
///
/// let value = Value::Uint(42);
/// assert_eq!((value.as_i64(), value.as_str()), (Some(42), None));
/// assert_eq!(value.to_string(), "42");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number.
    Uint(u64),
    /// A whole number that may be negative.
    Int(i64),
    /// A number.
    Double(f64),
    /// A text.
    String(Arc<str>),
    /// An address.
    Pointer(u64),
    /// JSON, as it was written.
    Json(Arc<str>),
    /// Values with names.
    Dict(Vec<(Arc<str>, Value)>),
    /// Values in order.
    Array(Vec<Value>),
}

impl Value {
    /// The whole number that it is; `None` for anything else, and for one that is too large.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Uint(value) | Self::Pointer(value) => i64::try_from(*value).ok(),
            _ => None,
        }
    }

    /// The number that it is, whole or not.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Double(value) => Some(*value),
            Self::Int(value) => Some(*value as f64),
            Self::Uint(value) => Some(*value as f64),
            _ => None,
        }
    }

    /// The text that it is.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) | Self::Json(text) => Some(text),
            _ => None,
        }
    }

    /// What it is of true and false.
    #[must_use]
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(value) = self { Some(*value) } else { None }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Double(value) => write!(f, "{value}"),
            Self::String(text) | Self::Json(text) => f.write_str(text),
            Self::Pointer(value) => write!(f, "{value:#x}"),
            Self::Dict(entries) => {
                f.debug_map().entries(entries.iter().map(|(name, value)| (name, value))).finish()
            }
            Self::Array(values) => f.debug_list().entries(values).finish(),
        }
    }
}
