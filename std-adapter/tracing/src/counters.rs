//! Fields of events as counters: `counter.`, `gauge.`, `histogram.` and `monotonic_counter.` before a name.

use std::hash::{BuildHasher, BuildHasherDefault};
use std::sync::OnceLock;

use rustc_hash::FxHasher;
use tracebuf::producer::track_event::{Unit, Value};
use tracebuf_session::{Recorder, SharedCounter};

/// What a field's value does to its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// It is the value from now on.
    Set,
    /// It is added to those before.
    Add,
}

/// The counter that a field is a value of, by its name.
pub(super) fn counter_of(field: &'static str) -> Option<(Change, &'static str)> {
    let (kind, name) = field.split_once('.')?;
    let change = match kind {
        "counter" | "gauge" | "histogram" => Change::Set,
        "monotonic_counter" => Change::Add,
        _ => return None,
    };
    (!name.is_empty()).then_some((change, name))
}

/// Counters that have a place.
const SLOTS: usize = 1024;
const PROBES: usize = 16;

/// The counters of a layer or subscriber, by how they change and their names. No lock is held while one is looked for
/// or recorded: recording may wait for a thread that comes here too, and an allocator may come here while a counter is
/// made.
#[derive(Debug, Default)]
pub(super) struct Counters(OnceLock<Box<[Place]>>);

/// Of one counter, once there is one.
type Place = OnceLock<(Change, SharedCounter)>;

impl Counters {
    /// Takes up a field's value. Returns false if it is none: a text, no number, below zero if it is to be added.
    pub(super) fn take(&self, recorder: &Recorder, field: &'static str, value: Value<'_>) -> bool {
        let Some((change, name)) = counter_of(field) else { return false };
        let whole = match value {
            Value::Bool(value) => i64::from(value),
            Value::Int(value) => value,
            // As large as a trace can tell.
            Value::Uint(value) | Value::Pointer(value) => i64::try_from(value).unwrap_or(i64::MAX),
            Value::Double(value) => return self.take_fraction(recorder, change, name, value),
            Value::Str(_) => return false,
        };
        if change == Change::Add && whole < 0 {
            return false;
        }
        let apply = |counter: &SharedCounter| match change {
            Change::Set => counter.set_whole(whole),
            Change::Add => counter.add(whole),
        };
        self.with(recorder, change, name, apply)
    }

    fn take_fraction(&self, recorder: &Recorder, change: Change, name: &'static str, value: f64) -> bool {
        if !value.is_finite() || change == Change::Add && value < 0.0 {
            return false;
        }
        let apply = |counter: &SharedCounter| match change {
            Change::Set => counter.set(value),
            Change::Add => counter.add_fraction(value),
        };
        self.with(recorder, change, name, apply)
    }

    /// Returns false, with a packet counted as lost, if there are too many counters.
    fn with(
        &self,
        recorder: &Recorder,
        change: Change,
        name: &str,
        apply: impl FnOnce(&SharedCounter),
    ) -> bool {
        let slots = match self.0.get() {
            Some(slots) => slots,
            None => {
                let made = (0..SLOTS).map(|_| OnceLock::new()).collect();
                let _ = self.0.set(made);
                let Some(slots) = self.0.get() else { return false };
                slots
            }
        };
        let first = BuildHasherDefault::<FxHasher>::default().hash_one((change as u8, name)) as usize;
        let found = (0..PROBES).find_map(|probe| {
            let slot = slots.get(first.wrapping_add(probe) % SLOTS)?;
            if slot.get().is_none() {
                let _ = slot.set((change, SharedCounter::new(recorder.clone(), name, Unit::Unspecified)));
            }
            slot.get().filter(|(of, counter)| *of == change && counter.name() == name)
        });
        match found {
            Some((_, counter)) => apply(counter),
            None => recorder.lose(),
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_a_counter_by_what_its_name_begins_with() {
        let told = [
            ("counter.queue", Some((Change::Set, "queue"))),
            ("histogram.a.b", Some((Change::Set, "a.b"))),
            ("gauge.load", Some((Change::Set, "load"))),
            ("monotonic_counter.requests", Some((Change::Add, "requests"))),
            ("counter.", None),
            ("counter", None),
            ("counters.queue", None),
            ("message", None),
        ];
        told.iter().for_each(|(field, counter)| assert_eq!(counter_of(field), *counter, "{field}"));
    }

    #[test]
    fn more_names_than_there_is_room_for_are_counted_as_lost() {
        let session = tracebuf_session::Session::builder().ring(4 << 20).start().expect("a session");
        let (counters, recorder) = (Counters::default(), session.recorder());
        let taken = |name: &str| counters.with(&recorder, Change::Set, name, |counter| counter.set_whole(1));
        let refused = (0..2 * SLOTS).filter(|number| !taken(&format!("counter {number}"))).count();
        assert!((SLOTS..SLOTS + SLOTS / 4).contains(&refused), "{refused}");
        assert!(taken("counter 0"), "those that have a place keep it");
        let lost = session.summary().expect("a summary").buffers[0].trace_writer_packet_loss;
        assert_eq!(lost, refused as u64);
    }
}
