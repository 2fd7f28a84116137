//! Names of a device: their keys, and their texts as far as they were kept.

use tracebuf::inplace::{RegionView, Text};

/// A name by its number.
pub(crate) trait Names {
    /// What an event's number stands for: its text or, if that was not kept, its address; `None` if nothing is known.
    fn name(&self, number: u32) -> Option<Vec<u8>>;

    /// Whether its text was kept.
    fn has_text(&self, number: u32) -> bool;
}

/// The bytes of a text that need not be UTF-8, as text.
pub(crate) fn text_of(text: Text<'_>) -> Vec<u8> {
    String::from_utf8_lossy(&text.bytes().collect::<Vec<_>>()).into_owned().into_bytes()
}

/// What stands for a name without a text: whoever has the program can still look the address up.
pub(crate) fn address(key: u32) -> Vec<u8> {
    format!("{key:#010x}").into_bytes()
}

impl Names for RegionView<'_> {
    fn name(&self, number: u32) -> Option<Vec<u8>> {
        let name = RegionView::name(self, number)?;
        Some(name.text.map_or_else(|| address(name.key), text_of))
    }

    fn has_text(&self, number: u32) -> bool {
        RegionView::name(self, number).is_some_and(|name| name.text.is_some())
    }
}
