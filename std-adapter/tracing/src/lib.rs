//! A layer and a subscriber that record the crate `tracing` into a session: spans as slices, events as instants.
//!
//! As a layer among others, with any filter that `tracing-subscriber` has:
//!
//! ```
//! use tracebuf_session::Session;
//! use tracebuf_tracing::TraceLayer;
//! use tracing_subscriber::prelude::*;
//!
//! let session = Session::builder().ring(16 << 20).fast_clock().start()?;
//! // With what async programs need. `TraceLayer::new` records least.
//! let layer = TraceLayer::for_async(session.recorder());
//! tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
//!     let _span = tracing::info_span!("request", path = "/").entered();
//!     tracing::warn!(retries = 3, "slow");
//! });
//! # Ok::<(), tracebuf_session::SessionError>(())
//! ```
//!
//! As the only subscriber, [`TraceSubscriber`] costs least. Both have a flight recorder write what led to a
//! [slow span](TraceLayer::slow).
//!
//! # What becomes what
//! | `tracing` | trace |
//! |---|---|
//! | span entered and exited | a slice on the thread's track, each time that it is entered |
//! | span made and closed | with `lifetimes(true)`, a slice with its name on a track of its own, within its parent's |
//! | fields | debug annotations, those of a span on each of its slices |
//! | field recorded while the span is entered | an annotation of the slice's end, and of each later slice |
//! | event | an instant with the message as its name; without one, the name that it was given, the text of its field `error` or `err`, or its target, with file and line as the source location |
//! | event | with `logs(true)`, a line of a log as well: message, fields and level, with file and line as its tag |
//! | event's field `counter.x`, `gauge.x` or `histogram.x` | a value of the counter track `x` of this process |
//! | event's field `monotonic_counter.x` | the sum of these on the counter track `x`, since the layer was made |
//! | record of the crate `log`, passed on by `tracing-log` | an event as those of `tracing`, with the record's own target, file and line |
//! | file and line | with `origins(true)`, the source location |
//! | target | with `origins(true)`, another category |
//! | module | nothing: the target is the same, unless set otherwise |
//! | level | the category: `TRACE`, `DEBUG`, `INFO`, `WARN`, `ERROR` |
//! | span entered on several threads, or again | with `flows(true)`, arrows from slice to slice, the life's first |
//! | `follows_from` | with `flows(true)`, an arrow to the next slice from each span followed, the newest 64 at most |
//!
//! An instrumented future enters its span with each poll, and once more when it is dropped: each is a slice on that
//! thread, and flows join them. With `lifetimes(true)` its whole duration, waiting included, is a slice beside the
//! threads, on a track within that of its parent, if that has one.
//!
//! # Limits
//! - **Exits out of order**: a span ends its own slice; those above it are ended and begun again, because a track's
//!   slices are nested. For a [`TraceSubscriber`] without flows and lifetimes, spans without fields from one place in
//!   the program are not told apart: the one that the thread entered last ends.
//! - **Guards in thread locals**: drop them before the thread ends. If the thread's list of spans is destroyed first,
//!   the slice stays open, and its end counts as a lost packet, as do spans entered after that.
//! - **Removed layers**, by [`reload`](tracing_subscriber::reload) and `None`, hear of no exits. When a recorder's last
//!   layer is dropped, the slices of that thread end; those of other threads end with their next span under a layer of
//!   that recorder, and stay open if there is none, as lifetimes do. Dropping it does not wait for shared memory.
//! - **Allocators** may enter spans if a [`TraceSubscriber`] is the program's default; a registry panics if the
//!   allocator enters one while the registry allocates. What comes from within the writing of a slice or an instant is
//!   lost, as is a field recorded while another one of the same span is being recorded.
//! - **After a session's end**, and in a child after a fork, nothing is recorded, at the cost of a few loads. With the
//!   recorder of a [`Relay`](tracebuf_session::Relay) the next session takes what comes then. Spans made or entered
//!   while there was none begin in it at their real times, with their fields and lives, as soon as their thread comes to
//!   another span or event; until then such a span costs as much as with a session, except for the writing.
//!
//! # Choosing what is recorded
//! Perfetto's service can be told which categories to record. A program that follows it, by `follow_perfetto` of the
//! crate `tracebuf-ipc`, has a relay for each category that can be chosen; here with a layer for each level:
//!
//! ```
//! use tracebuf_session::{Relay, Session};
//! use tracebuf_tracing::TraceLayer;
//! use tracing::Level;
//! use tracing_subscriber::filter::filter_fn;
//! use tracing_subscriber::prelude::*;
//!
//! let relays = [Level::ERROR, Level::WARN, Level::INFO].map(|level| (level, Relay::new()));
//! let layers = relays.each_ref().map(|(level, relay)| {
//!     let level = *level;
//!     TraceLayer::new(relay.recorder()).with_filter(filter_fn(move |what| *what.level() == level))
//! });
//! tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Vec::from(layers)))?;
//!
//! // With each connection, the relays of the levels that are wanted: `service.wants(level.as_str())`.
//! let session = Session::builder().start()?;
//! for (_, relay) in relays.iter().filter(|(level, _)| *level <= Level::WARN) {
//!     relay.connect(&session.recorder())?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Parts of a program can be chosen in the same way, by their targets. A layer's filter takes some 60 ns for every
//! span, wanted or not, so there should be few.
//!
//! # Modules
//! | module | what it holds | what it knows |
//! |---|---|---|
//! | `subscriber` | [`TraceSubscriber`] | `stack`, `spans`, `events`, `frontend`, `lifetime`, `fields`, `ids` |
//! | `layer` | [`TraceLayer`] | `stack`, `spans`, `events`, `frontend`, `lifetime`, `fields` |
//! | `stack` | the spans that each thread is in, and their slices | `spans`, `frontend`, `layers` |
//! | `spans` | data of spans: fields, flows, a life | `frontend`, `lifetime`, `slow`, `fields`, `ids` |
//! | `events` | events as instants and lines of a log | `event_name`, `fields`, `frontend`, `origin`, `counters` |
//! | `event_name` | names for events without a message | `fields` |
//! | `origin` | where an event comes from | `fields` |
//! | `frontend` | what layer and subscriber have in common | `layers`, `lifetime`, `slow`, `counters`, `origin` |
//! | `lifetime` | the life of a span, on a track of its own | – |
//! | `slow` | spans that take too long | `hanging` |
//! | `hanging` | spans that are still open long after they should have ended | – |
//! | `late` | spans that began while a relay led nowhere | `frontend` |
//! | `layers` | the layers that exist | – |
//! | `counters` | fields of events as counters | – |
//! | `fields` | fields of spans and events | – |
//! | `ids` | numbers of callsites and of spans | – |

#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

mod counters;
mod event_name;
mod events;
mod fields;
mod frontend;
mod hanging;
mod ids;
mod late;
mod layer;
mod layers;
mod lifetime;
mod origin;
mod slow;
mod spans;
mod stack;
mod subscriber;

pub use layer::TraceLayer;
pub use subscriber::TraceSubscriber;
