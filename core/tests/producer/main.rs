//! The producer side and the service's, from writers to what comes out.
#![cfg(not(loom))]

mod accounting;
mod annotations;
mod any_calls;
mod any_recorder;
mod commit;
mod encoding;
mod endpoint;
mod event_reader;
mod full_list;
mod handles;
mod inside_events;
#[cfg(feature = "patches")]
mod late_patches;
mod layout;
mod log_messages;
mod long_events;
mod model;
mod nesting;
mod patches;
mod sending;
mod slices;
mod slow_thread;
mod source_locations;
mod states;
mod taking_back;
mod track_events;
mod tracks;
mod writer;
