//! The name under which an event without a message is shown.

use tracebuf::producer::track_event::Event;
use tracing_core::Metadata;

use super::fields::KeptFields;

/// Most bytes of an error's text that become a name.
const MAX_ERROR: usize = 120;

/// A name for an event: the one that it was given, the text of its error, or its target. `tracing` itself only has its
/// place for a name, `event src/main.rs:3`, which is then its source location.
pub(super) struct EventName<'f> {
    /// A name that lives long, or nothing.
    pub(super) fixed: &'static str,
    text: &'f str,
    place: Option<(&'static str, u32)>,
}

impl<'f> EventName<'f> {
    pub(super) fn of(metadata: &'static Metadata<'static>, message: &'f str, fields: &'f KeptFields) -> Self {
        let (fixed, text, place) = ("", message, None);
        if !message.is_empty() {
            return Self { fixed, text, place };
        }
        let place = metadata.file().zip(metadata.line());
        let is_place = |(file, _): &(&str, u32)| {
            metadata.name().strip_prefix("event ").is_some_and(|name| name.starts_with(file))
        };
        if !place.as_ref().is_some_and(is_place) {
            return Self { fixed: metadata.name(), text, place: None };
        }
        match ["error", "err"]
            .map(|name| first_line(fields.text_of(name)))
            .into_iter()
            .find(|text| !text.is_empty())
        {
            Some(text) => Self { fixed, text, place },
            None => Self { fixed: metadata.target(), text, place },
        }
    }

    /// Adds what of the name does not live long, and the place that is named nowhere else.
    pub(super) fn add_to(&self, event: &mut Event<'_, '_, '_>, has_place: bool) {
        if !self.text.is_empty() {
            event.name(self.text);
        }
        if let Some((file, line)) = self.place.filter(|_| !has_place) {
            event.source_location(file, line);
        }
    }
}

fn first_line(text: &str) -> &str {
    let line = text.trim_start().lines().next().unwrap_or_default();
    let end = (0..=MAX_ERROR.min(line.len())).rfind(|end| line.is_char_boundary(*end));
    line.get(..end.unwrap_or(0)).unwrap_or_default().trim_end()
}
