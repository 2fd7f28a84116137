//! Records the crate `tracing` into a session: spans as slices, events as instants. Feature `tracing`.
//!
//! As a layer among others, with any filter that `tracing-subscriber` has:
//!
//! ```
//! use tracebuf_session::Session;
//! use tracebuf_tracing::TraceLayer;
//! use tracing_subscriber::prelude::*;
//!
//! let session = Session::builder().ring(16 << 20).fast_clock().start()?;
//! let subscriber = tracing_subscriber::registry().with(TraceLayer::new(session.recorder()));
//! tracing::subscriber::with_default(subscriber, || {
//!     let _span = tracing::info_span!("request", path = "/").entered();
//!     tracing::warn!(retries = 3, "slow");
//! });
//! # Ok::<(), tracebuf_session::SessionError>(())
//! ```
//!
//! As the only subscriber, for the lowest cost:
//!
//! ```
//! use tracebuf_session::Session;
//! use tracebuf_tracing::TraceSubscriber;
//!
//! let session = Session::builder().ring(16 << 20).fast_clock().start()?;
//! let subscriber = TraceSubscriber::new(session.recorder()).max_level(tracing::Level::INFO);
//! tracing::subscriber::with_default(subscriber, || {
//!     tracing::info_span!("work").in_scope(|| tracing::debug!("not recorded"));
//! });
//! # Ok::<(), tracebuf_session::SessionError>(())
//! ```
//!
//! # What becomes what
//! | `tracing` | trace |
//! |---|---|
//! | span entered and exited | a slice on the thread's track, each time that it is entered |
//! | span made and closed | with `lifetimes(true)`, a slice with its name on a track of its own, within its parent's |
//! | fields | debug annotations, those of a span on each of its slices |
//! | field recorded while the span is entered | an annotation of the slice's end, and of each later slice |
//! | event | an instant with the message as its name; without one, `event FILE:LINE` |
//! | event | with `logs(true)`, a line of a log as well: message, fields and level, with file and line as its tag |
//! | file and line | with `origins(true)`, the source location |
//! | target | with `origins(true)`, another category |
//! | module | nothing: the target is the same, unless set otherwise |
//! | level | the category: `TRACE`, `DEBUG`, `INFO`, `WARN`, `ERROR` |
//! | span entered on several threads, or again | with `flows(true)`, arrows from slice to slice, the life's first |
//! | `follows_from` | with `flows(true)`, an arrow to the next slice from each span followed, the newest 64 at most |
//!
//! An instrumented future enters its span each time that it is polled, and once more when it is dropped: each of these
//! is a slice of the thread that does so, and flows join them. With `lifetimes(true)` its whole duration, waiting
//! included, is another slice, beside the threads: on a track within that of the span in which, or for which, it was
//! made, if that span has one.
//!
//! Spans that are exited in another order than they were entered end their own slices: those above are ended and begun
//! again, because a track's slices are nested. For a [`TraceSubscriber`] without flows and lifetimes, all spans without
//! fields from one place in the program are the same: the one exited is taken to be the one that the thread entered
//! last. With either of these or a field, they are told apart.
//!
//! A guard kept in a thread local leaves its slice open if the list of the thread's spans is destroyed before it: drop
//! such guards before the thread ends. Its end is counted as a lost packet, and so are the begin and end of a span that
//! is entered after that.
//!
//! A layer that is removed while threads are in spans, by [`reload`](tracing_subscriber::reload) and `None`, hears of
//! no exits. When a recorder's last layer is dropped, the slices of the thread that drops it end; those of other
//! threads end before their next span begins or ends under a layer of that recorder, and stay open if none does, as
//! lifetimes do. Dropping it does not wait for shared memory, even where threads stall: ends for which there is no room
//! come later.
//!
//! The program's allocator may enter spans too, if a [`TraceSubscriber`] is the program's default: a registry panics
//! when the allocator enters one while the registry itself allocates. What comes from within the writing of a slice or
//! an instant is lost, as with recorders; so is a field that is recorded while another one of that same span is being
//! recorded.
//!
//! When the session is over, or in a child after a fork, nothing is recorded, at the cost of a few loads. With the
//! recorder of a [`Relay`](tracebuf_session::Relay), the next session that it is connected to takes what comes then: for
//! spans made while there was none, slices without fields and flows; for others, slices with all fields that were
//! recorded since.
//!
//! # Choosing what is recorded
//! Perfetto's service can be told which categories to record. A program that
//! [follows](tracebuf_ipc::ConnectionBuilder::follow_perfetto) it has a relay for each category that can be chosen;
//! here with a layer for each level:
//!
//! ```no_run
//! # #[cfg(any(target_os = "linux", target_os = "android"))]
//! use tracebuf_ipc::{Connection, perfetto_socket};
//! use tracebuf_session::Relay;
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
//! tracing_subscriber::registry().with(Vec::from(layers)).init();
//! # #[cfg(any(target_os = "linux", target_os = "android"))]
//! let _follower = Connection::builder().follow_perfetto(perfetto_socket(), move |service| {
//!     for (level, relay) in &relays {
//!         if service.wants(level.as_str()) {
//!             relay.connect(&service.recorder())?;
//!         }
//!     }
//!     Ok(())
//! })?;
//! # Ok::<(), tracebuf_session::SessionError>(())
//! ```
//!
//! Parts of a program can be chosen in the same way, by their targets. A layer's filter takes some 60 ns for every
//! span, wanted or not, so there should be few. All or nothing costs nothing more, with one layer, or a
//! [`TraceSubscriber`], and one relay.

#![deny(missing_docs)]
#![deny(missing_debug_implementations)]
#![deny(unsafe_code)]

mod callsites;
mod fields;
mod instants;
mod layer;
mod layers;
mod life;
mod lifetimes;
mod numbers;
mod origin;
mod owner;
mod spans;
mod stack;
mod subscriber;

pub use layer::TraceLayer;
pub use subscriber::TraceSubscriber;
