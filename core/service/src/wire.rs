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

pub use builder::ProtoBuilder;
