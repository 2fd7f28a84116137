//! What the conformance tests are made of.

pub(crate) mod compare;
pub(crate) mod data;
pub(crate) mod truth;
