//! Programs that keep a state: vectors of what comes of their patches, and a plain machine to compare with.

pub mod vector;
