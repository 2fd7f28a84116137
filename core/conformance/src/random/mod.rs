//! Random work for a trace buffer, and judges of what comes out of it.
//!
//! Tests and fuzz targets share it. [`hostile`] and [`writers`] make operations from a number or from bytes; [`driver`]
//! runs them on the buffer and on the model and compares, [`judge`] goes by what honest writers wrote; [`cases`] makes
//! a failing case small.
#![allow(missing_docs)] // names say it, or are those of `tracebuf::buffer`

pub mod cases;
pub mod driver;
pub mod hostile;
pub mod identities;
pub mod judge;
pub mod ops;
pub mod rng;
pub mod writers;
