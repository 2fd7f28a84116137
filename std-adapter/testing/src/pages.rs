//! The README and the pages in docs, whose programs are compiled and run as examples of this crate.

#[doc = include_str!("../../../README.md")]
struct Readme;

#[doc = include_str!("../../../docs/service.md")]
struct Service;

// Other programs record into a session on Linux alone.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[doc = include_str!("../../../docs/several-programs.md")]
struct SeveralPrograms;

#[doc = include_str!("../../../docs/own-service.md")]
struct OwnService;
