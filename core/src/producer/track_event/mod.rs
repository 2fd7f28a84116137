//! Track events: slices, instants and counters on the timelines of a trace.
//!
//! A [`Tracer`] turns what one thread (or interrupt priority) does into packets of its
//! [`TraceWriter`](super::TraceWriter). On the tracer's own track, the begin of a slice with a name seen before takes
//! 11 to 13 bytes of shared memory, and the end of a slice 9 to 11, if the event before it was less than 2²¹ units of
//! time ago (2 ms, if they are nanoseconds); one more up to 2²⁸ units (0.27 s), and two up to 2³². A category takes two
//! more, another track eight.
//!
//! ```
//! use tracebuf::producer::*;
//! use tracebuf::producer::track_event::*;
//!
//! fn decode<const N: usize, const T: usize>(track: OnTrack<'_, '_, impl Clock, N, T>) {
//!     track.slice("decode", || {
//!         track.slice("parse", || { /* … */ });
//!         let _huffman = track.enter_with("huffman", |event| event.arg("bits", 12).flow(7));
//!         track.instant("table full");
//!     });
//! }
//!
//! static PROGRAM: Track<'static> = Track::process(1, "decoder");
//! static MAIN: Track<'static> = Track::thread(1, 2, "main").within(&PROGRAM);
//! static QUEUE: Track<'static> = Track::counter("queue", Unit::Count);
//!
//! # struct Nowhere;
//! # impl CommitSink for Nowhere { fn commit(&self, _: &CommitRequest<'_>) {} }
//! # let mut memory = vec![0u32; 16 * 1024];
//! # let memory = SharedMemory::new(atomic_words(&mut memory), 4096)?;
//! # let storage = ProducerStorage::<64, 8>::new();
//! # let producer = Producer::new(memory, Layout::Four, &storage, &Nowhere)?;
//! # let writer = producer.writer(0, Exhaustion::Drop).expect("one of eight");
//! let start = std::time::Instant::now();
//! let clock = move || start.elapsed().as_nanos() as u64;
//! // For a ring of 64 KiB: whatever lies in it, the state to read it by does so too.
//! let config = TracerConfig::new(1_000_000_000).state_every(64 * 1024 / 4);
//! let tracer = Tracer::new(writer, clock, &MAIN, config);
//! decode(tracer.track());
//! tracer.on(&QUEUE).count(3);
//! tracer.flush();
//! # Ok::<(), MemoryError>(())
//! ```
//!
//! # Names
//! Names, categories and annotation keys that live as long as the tracer are written once and then referred to by
//! number. They are known by where they lie: the same text elsewhere is another name. The numbers are part of the
//! *incremental state*, with the clock and the tracks' descriptions: about 80 bytes, and what it describes. That starts
//! anew after a packet that the writer dropped, when
//! [`Producer::clear_incremental_state`](super::Producer::clear_incremental_state) was called, when nothing happened for
//! 2³² units of time or ticks of the clock (4 s of nanoseconds), and when the producer has written
//! [`TracerConfig::state_every`] bytes since.

mod clock;
mod event;
mod names;
mod tracer;
mod track;

pub use clock::{Clock, Extended32};
pub use event::{Details, Event, Value, details};
pub use tracer::{
    LogMessage, LogPriority, OnTrack, OnTrackAt, Tracer, TracerConfig, TracerSliceGuard, TracerStats,
};
pub use track::{Track, Unit};

crate::debug::opaque_debug! {
    "Event": [] Event<'_, '_, '_>,
    "Extended32": [] Extended32,
    "OnTrack": [C, const NAMES: usize, const TRACKS: usize] OnTrack<'_, '_, C, NAMES, TRACKS>,
    "OnTrackAt": [C, const NAMES: usize, const TRACKS: usize] OnTrackAt<'_, '_, C, NAMES, TRACKS>,
    "TracerSliceGuard": [C: Clock, const NAMES: usize, const TRACKS: usize] TracerSliceGuard<'_, '_, C, NAMES, TRACKS>,
    "Tracer": [C, const NAMES: usize, const TRACKS: usize] Tracer<'_, C, NAMES, TRACKS>,
}
