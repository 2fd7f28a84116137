//! What the randomised tests and the fuzz targets share: the model buffer, operation
//! generators, simulated writers and the judges of what comes out.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod cases;
pub mod driver;
pub mod hostile;
pub mod identities;
pub mod judge;
pub mod model;
pub mod ops;
pub mod rng;
pub mod script;
pub mod writers;
