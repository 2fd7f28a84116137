//! Where in the program spans and events come from.

use tracebuf::producer::track_event::Event;
use tracing_core::{Level, Metadata};

/// A level's name, as a category.
pub(super) fn category(level: &Level) -> &'static str {
    level.as_str()
}

/// Adds the level and, if everything is wanted, the target, file and line.
pub(super) fn tell<'x, 'e, 'w, 'a>(
    metadata: &'static Metadata<'static>,
    all: bool,
    event: &'x mut Event<'e, 'w, 'a>,
) -> &'x mut Event<'e, 'w, 'a> {
    event.category(category(metadata.level()));
    if all {
        event.category(metadata.target());
        if let Some(file) = metadata.file() {
            event.source_location(file, metadata.line().unwrap_or(0));
        }
    }
    event
}
