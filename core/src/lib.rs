//! The core of tracebuf: trace buffer, shared memory, writers, protobuf and service, without heap or operating system.
//!
//! tracebuf holds trace data from many writers in a fixed region of memory: 2 KiB of static RAM in firmware, gigabytes
//! of mapped pages in a service. It copes with what real producers do (packets spread over chunks, chunks out of order,
//! chunks scraped half-written and committed again, sizes patched in later, rings that lap), gives back only whole
//! packets, in order, and reports every loss and its cause. What comes out opens in ui.perfetto.dev as it is.
//!
//! `no_std`, no allocator, no panics whatever the input. The layout of shared memory, the semantics and the
//! names are those of [Perfetto](https://perfetto.dev).
//!
//! ```
//! use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
//! use tracebuf::service::{TraceExporter, sequence_id};
//!
//! // The caller hands over memory; all state lies in it.
//! let mut buffer = TraceBuffer::new(vec![0u8; 64 * 1024], Config::new(FillPolicy::RingBuffer))?;
//!
//! // Producers commit chunks: fragments of packets, each behind its size.
//! let header = ChunkHeader { producer_id: 1, writer_id: 1, fragments: 1, ..Default::default() };
//! buffer.copy_chunk_untrusted(&Chunk { header, payload: &[2, 0x40, 5] });
//!
//! // Whole packets come out, and make a trace file.
//! let mut file = [0u8; 1024];
//! let mut exporter = TraceExporter::new(&mut file[..]);
//! assert_eq!(exporter.drain(&mut buffer.read(), sequence_id).unwrap(), 1);
//! # Ok::<(), tracebuf::buffer::RegionError>(())
//! ```
//!
//! `examples/first_trace.rs` is a whole program, with this crate and `std` alone: threads that trace themselves into a
//! file. Run it with `cargo run -p tracebuf --example first_trace`.
//!
//! # Parts
//!
//! | module | what it is | knows |
//! |---|---|---|
//! | [`buffer`] | the central buffer: chunks in, whole packets out | `proto` |
//! | `inplace` | firmware's recorder, whose writers put events into the ring itself, and its decoder (with the feature `inplace`) | `Events` |
//! | [`producer`] | the producer side: shared memory, trace writers, track events | `proto`, `Events` |
//! | [`proto`] | varints, fields, validation, the trace file | nothing |
//! | [`service`] | what joins them: draining, scraping, flushes, trusted fields, export | all |
//! | [`Events`] | what `inplace` and `producer` have in common for hooks | nothing |
//! | `vm` | a state that outlives the ring (with the feature `vm`) | `buffer`, `proto` |
//! | [`wrapping`] | the order of numbers that wrap around | nothing |
//!
//! # Targets
//!
//! All with pointers of 32 or 64 bits, in either byte order: Cortex-M, RISC-V, WebAssembly, servers. Regions and traces
//! are the same on each.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `crc`, `histograms` | yes | what [`buffer::Config`] can ask for under these names |
//! | `producer` | yes | [`producer`], [`service::ProducerEndpoint`], [`service::StartMark`]: they need compare-and-swap |
//! | `patches` | yes | writers' packets over three chunks and more ([`producer::TraceWriter`]); implies `producer` |
//! | `portable-atomic` | | `producer` and `inplace` on targets without compare-and-swap, such as Cortex-M0; the application picks what stands in for it among that crate's own features, such as `unsafe-assume-single-core` |
//! | `inplace` | | [`inplace`], which needs compare-and-swap too |
//! | `inplace-crc` | | checksums of `inplace`'s complete chunks |
//! | `multicore` | | `inplace` on firmware's targets with several cores |
//! | `alloc` | | a `Vec<u8>` is a [`proto::Sink`], and endpoints keep on the heap what they know of writers |
//! | `std` | | `alloc`, and an output's error may be `std::io::Error`, through `embedded-io`'s feature of that name |
//! | `vm` | | [`vm`] |
//! | `frame` | | [`proto`]'s frames, for lines that lose bytes |
//! | `defmt` | | `defmt::Format` for errors and statistics |
//!
//! [`buffer`] and [`proto`] use no atomics: without `producer`, they are there on every target.
#![no_std]
#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

#[cfg(target_pointer_width = "16")]
compile_error!(
    "tracebuf needs pointers of 32 bits or more: offsets in a region, and the values in it, have 32"
);

#[cfg(all(
    any(feature = "producer", feature = "inplace"),
    not(any(target_has_atomic = "32", feature = "portable-atomic", loom))
))]
compile_error!(
    "this target has no compare-and-swap: the features `producer` and `inplace` of tracebuf need its feature `portable-atomic`"
);
#[cfg(all(any(feature = "producer", feature = "inplace"), feature = "portable-atomic", not(loom)))]
portable_atomic::cfg_no_atomic_cas! {
    compile_error!(
        "this target has no compare-and-swap: choose what stands in for it among the features of the crate \
         portable-atomic, such as `unsafe-assume-single-core` or `critical-section`"
    );
}

#[cfg(any(test, fuzzing, feature = "alloc"))]
extern crate alloc;
#[cfg(any(test, fuzzing, feature = "std"))]
extern crate std;

/// On microcontrollers flash is dearer than time: there the short cuts of the hot paths are left out, and functions
/// that are called from several places are not inlined. In attributes it is the `cfg` of that name, `tracebuf_small`,
/// which `build.rs` sets; with `RUSTFLAGS="--cfg tracebuf_small"`, tests do the same on the host.
pub(crate) const SMALL: bool = cfg!(tracebuf_small);

#[cfg(any(feature = "producer", feature = "inplace"))]
mod atomics;
#[cfg(all(feature = "inplace", tracebuf_linked))]
#[doc(hidden)]
pub mod build_mark;
mod debug;
mod events;
#[cfg(feature = "producer")]
mod list;
mod prefetch;
#[doc(hidden)]
pub mod steps;
pub mod wrapping;

pub use events::{Events, NewTracks};

pub mod buffer;
#[cfg(feature = "inplace")]
pub mod inplace;
#[cfg(feature = "producer")]
pub mod producer;
pub mod proto;
pub mod service;
#[cfg(feature = "vm")]
pub mod vm;
