//! A service, driven by a clock that the tests set and by clients that say what the tests want.
#![cfg(not(miri))]
#![allow(unreachable_pub, reason = "modules of one program")]

mod clients;
mod clones;
mod compression;
mod consumers;
mod files;
mod flushes;
mod hostile;
mod known;
mod memory;
mod model;
mod queries;
mod random;
mod sessions;
mod stop_session;
mod stops;
mod triggers;
mod wild;
mod witness;
mod world;
