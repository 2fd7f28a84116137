//! Where an event comes from: its own metadata, or what `tracing-log` tells of a record of the crate `log`.

use std::ops::Range;

use tracebuf::producer::track_event::Event;
use tracebuf_session::parts::interned;
use tracing_core::Metadata;

use super::fields::KeptFields;

/// A text, and the same as one that lives as long as the program, if there is one.
#[derive(Clone, Copy, Debug)]
struct Text<'f>(&'f str, Option<&'static str>);

/// The target, file and line of an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'f> {
    target: Text<'f>,
    place: Option<(Text<'f>, u32)>,
}

/// Places of the texts that a record's origin consists of, taken off its fields.
pub(super) struct LogOrigin {
    target: Range<usize>,
    file: Range<usize>,
    line: Option<u64>,
}

impl LogOrigin {
    /// Takes a record's origin off the fields of its event; `None` if it is an event of `tracing`'s own.
    pub(super) fn take(metadata: &Metadata<'_>, fields: &mut KeptFields) -> Option<Self> {
        // All records have the same metadata, one for each level.
        if metadata.target() != "log" || metadata.name() != "log event" {
            return None;
        }
        let target = fields.take_text("log.target");
        fields.take_text("log.module_path");
        Some(Self { target, file: fields.take_text("log.file"), line: fields.take_number("log.line") })
    }
}

impl<'f> Origin<'f> {
    pub(super) fn of(metadata: &'static Metadata<'static>) -> Origin<'static> {
        let known = |text: &'static str| Text(text, Some(text));
        let place = metadata.file().map(|file| (known(file), metadata.line().unwrap_or(0)));
        Origin { target: known(metadata.target()), place }
    }

    pub(super) fn of_record(record: &LogOrigin, fields: &'f KeptFields) -> Self {
        let text = |place: &Range<usize>| {
            let text = fields.text_at(place);
            Text(text, interned(text))
        };
        let line = record.line.map_or(0, |line| u32::try_from(line).unwrap_or(u32::MAX));
        let place = (!record.file.is_empty()).then(|| (text(&record.file), line));
        Self { target: text(&record.target), place }
    }

    /// The place that a line of a log has as its tag.
    pub(super) fn tag(&self) -> Option<(&'static str, u32)> {
        let (Text(_, known), line) = self.place?;
        known.zip(Some(line))
    }

    /// Adds target, file and line to an event.
    pub(super) fn describe(&self, event: &mut Event<'_, '_, '_>) {
        match self.target {
            Text(_, Some(known)) => event.category(known),
            Text(target, None) => event.category_text(target),
        };
        match self.place {
            Some((Text(_, Some(known)), line)) => {
                event.source_location(known, line);
            }
            Some((Text(file, None), line)) => {
                event.source_text(file, line);
            }
            None => {}
        }
    }
}
