//! Perfetto's protocol on its sockets: frames, what producers and consumers say, and what services answer.
//!
//! | module | what it holds | what it knows |
//! |---|---|---|
//! | [`calls`] | what programs say to a service, decoded | `frames` |
//! | [`program`] | the same, encoded | `calls`, `frames` |
//! | [`commands`] | what a service says to programs, encoded and decoded | – |
//! | [`answers`] | what a service answers consumers | `frames` |
//! | [`consumers`] | the methods of the other port | `frames` |
//! | [`frames`] | the outermost messages | – |
//! | `builder` | messages under construction | – |

pub mod answers;
pub mod calls;
pub mod commands;
pub mod consumers;
pub mod frames;
pub mod program;

mod builder;

use alloc::vec::Vec;

use tracebuf::proto::reader::{FieldValue, Fields};
use tracebuf::proto::varint;

pub use builder::ProtoBuilder;

/// Numbers in a repeated field, each by itself or several in a packed one.
pub(crate) fn repeated(message: &[u8], of: u32) -> Vec<u64> {
    let mut numbers = Vec::new();
    for field in Fields::of(message).filter(|field| field.number == of) {
        match field.value {
            FieldValue::Number(number) => numbers.push(number),
            FieldValue::Bytes(mut packed) => {
                while let Some((number, rest)) = varint::split(packed) {
                    numbers.push(number);
                    packed = rest;
                }
            }
            FieldValue::Fixed(_) => {}
        }
    }
    numbers
}
