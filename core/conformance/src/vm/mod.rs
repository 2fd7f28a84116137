//! Programs that keep a state: vectors of what comes of their patches, and a plain machine to compare with.

pub mod compare;
pub mod generate;
mod model;
mod tree;
pub mod vector;
