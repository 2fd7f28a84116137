//! Tests of open slices.
