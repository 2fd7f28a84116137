//! A service, driven by a clock that the tests set and by clients that say what the tests want.
#![cfg(not(miri))]
#![allow(unreachable_pub, reason = "modules of one program")]

mod bounds;
mod clients;
mod cloned_sessions;
mod clones;
mod coming_and_going;
mod compression;
mod consumers;
mod file_clones;
mod files;
mod filters;
mod flushes;
mod host;
mod hostile;
mod known;
mod model;
mod others;
mod producers;
mod programs;
mod queries;
mod random;
mod refusals;
mod repeated_calls;
mod sessions;
mod settings;
mod stop_session;
mod stops;
mod told;
mod triggers;
mod wild;
mod witness;
mod world;
