//! What a session may ask for, and what goes with what.

use alloc::format;
use alloc::string::{String, ToString};

use super::{LONGEST, TraceConfig};

/// Most buffers of a session.
const MOST_BUFFERS: usize = 128;
/// Most data sources, and of whatever else is compared with those of others: that takes time.
pub(super) const MOST_LISTED: usize = 1024;
/// Most patterns, each of which takes memory and time.
const MOST_PATTERNS: usize = 128;
/// Bytes of the longest name that is kept for others, or repeated to them.
pub(crate) const LONGEST_NAME: usize = 4096;
/// KiB of buffers that sessions with guardrails may have, unless they say otherwise.
pub(super) const GUARDED: u64 = 128 << 10;

/// Cuts a text to so many bytes, or a few less, if it is longer.
pub(crate) fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
}

impl TraceConfig {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.duration_ms > LONGEST {
            return Err(format!("Requested too long trace ({} ms > {LONGEST} ms)", self.duration_ms));
        }
        if self.triggers.is_some() && self.duration_ms != 0 {
            return Err("duration_ms must not be set with triggers, which have their own times".to_string());
        }
        if self.writes_file && self.triggers.as_ref().is_some_and(|triggers| !triggers.starts) {
            return Err(
                "write_into_file cannot be used with triggers that stop or clone the session".to_string()
            );
        }
        let in_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        if !self.bugreport_filename.chars().all(in_name) {
            return Err(format!("Invalid bugreport_filename {}", self.bugreport_filename));
        }
        let triggers = self.triggers.as_ref().map_or(&[][..], |all| &all.triggers);
        let of_triggers = triggers.iter().filter(|one| !one.producers.is_empty()).count();
        let patterns = self.sources.iter().map(|source| source.producer_patterns.len()).sum::<usize>();
        let counts = [
            ("buffers", self.buffers.len(), MOST_BUFFERS),
            ("data sources", self.sources.len(), MOST_LISTED),
            ("producers", self.producers.len(), MOST_LISTED),
            ("session semaphores", self.semaphores.len(), MOST_LISTED),
            ("patterns", patterns + of_triggers, MOST_PATTERNS),
        ];
        if let Some((what, count, _)) = counts.iter().find(|(_, count, most)| count > most) {
            return Err(format!("Too many {what} configured ({count})"));
        }
        let named = triggers.iter().map(|one| &one.name).chain([&self.name]);
        if named.into_iter().any(|name| name.len() > LONGEST_NAME) {
            return Err(format!("A name has more than {LONGEST_NAME} bytes"));
        }
        if self.buffers.iter().any(|buffer| buffer.size_kb == 0 || buffer.size_kb >= 1 << 22) {
            return Err("Invalid buffer sizes".to_string());
        }
        for (at, buffer) in self.buffers.iter().enumerate() {
            let before = self.buffers.get(..at).unwrap_or_default();
            if !buffer.name.is_empty() && before.iter().any(|other| other.name == buffer.name) {
                return Err(format!("Duplicate buffer name {}", buffer.name));
            }
        }
        if self.guardrails { self.check_guardrails() } else { Ok(()) }
    }

    /// What is to be uploaded is small, and takes a day at most.
    fn check_guardrails(&self) -> Result<(), String> {
        if self.is_deferred {
            return Err("Guardrails allow no deferred start".to_string());
        }
        if self.buffers.iter().any(|buffer| !buffer.size_kb.is_multiple_of(4)) {
            return Err("Guardrails allow buffers in multiples of 4 KiB alone".to_string());
        }
        let total: u64 = self.buffers.iter().map(|buffer| buffer.size_kb).sum();
        if total > self.most_kb {
            return Err(format!("Guardrails allow {} KiB of buffers, and not {total}", self.most_kb));
        }
        let timeout = self.triggers.as_ref().map_or(0, |triggers| triggers.timeout_ms);
        if self.duration_ms.max(timeout) > LONGEST / 7 {
            return Err("Guardrails allow a day, and no more".to_string());
        }
        Ok(())
    }
}
