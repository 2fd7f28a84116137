//! The incremental state: when a new one starts, and the packet that starts it.

use super::Inner;
use crate::producer::track_event::clock::Clock;
use crate::producer::track_event::track::Track;
use crate::proto::fields::{
    builtin_clock, clock, clock_snapshot, sequence_flags, trace_packet, trace_packet_defaults,
    track_event_defaults,
};

/// The most bytes that an event without details has, if its name is known.
const SHORT_EVENT: usize = 40;

/// An old chunk is older than this, or, where there can be only few writers, than two for each. Ending a chunk makes
/// those of other writers older by one or two: if these were more than the age, each would end its own with nearly
/// every event.
const LEAST_AGE: u32 = 16;

impl<C: Clock, const N: usize, const T: usize> Inner<'_, C, N, T> {
    /// The time since the last event, in a state that holds. `None`: the state could not be written.
    #[cfg_attr(not(tracebuf_small), inline(always))]
    pub(super) fn time(&mut self) -> Option<u32> {
        let ticks = self.clock.now();
        let (generation, chunks) = self.writer.producer().progress();
        if !self.writer.is_interrupted()
            && self.generation == generation
            && (chunks.wrapping_sub(self.chunks) < self.lifetime
                || self.lifetime == 0 && self.is_beside_state())
            && let Some(delta) = self.scale.delta(ticks)
        {
            return Some(delta);
        }
        self.start_state(ticks).then_some(0)
    }

    /// Whether the next event, unless it is a long one, will be in the chunk that the state is in.
    pub(super) fn is_beside_state(&self) -> bool {
        self.writer.goes_into(self.chunks, SHORT_EVENT)
    }

    /// Starts the incremental state anew: clock, defaults, the description of the tracer's own track.
    #[cold]
    #[inline(never)]
    pub(super) fn start_state(&mut self, ticks: u64) -> bool {
        // Where each chunk has its own state, one begun further on in a chunk could end in the next. And a scrape gives
        // a chunk its place in the ring, where it stays: a state begun in an old chunk would be overwritten long before
        // the next state.
        let (age, writers) = (self.writer.chunk_age(), self.writer.producer().max_writers() as u32);
        let is_old = age > self.lifetime + self.lifetime / 2 && (age > LEAST_AGE || age > 2 * writers);
        if self.lifetime == 0 || is_old {
            self.writer.end_chunk();
        }
        // The state is as old as its first byte.
        (self.generation, self.chunks) = self.writer.producer().progress();
        self.names.clear();
        self.described.clear();
        let now = self.scale.start(ticks);
        let (unit, id) = (u64::from(self.unit_ns), u64::from(self.clock_id));
        let values = [now.wrapping_mul(unit), id, now, unit];
        if self.lifetime == 0 {
            // It is known by its chunk.
            self.chunks = self.writer.next_chunk();
        }
        // Where there is no chunk, each event comes here: in vain, and soon.
        if self.writer.begin() {
            for (field, what) in STATE {
                match (field, values.get(usize::from(what ^ VALUE))) {
                    (0, _) => self.writer.close_innermost(),
                    (field, Some(value)) => self.writer.number(u32::from(*field), *value),
                    (field, None) if *what == u8::MAX => self.writer.open(u32::from(*field)),
                    (field, None) => self.writer.number(u32::from(*field), u64::from(*what)),
                }
            }
            self.track.write_id(track_event_defaults::TRACK_UUID, &mut self.writer);
        }
        self.writer.finish();
        self.states = self.states.wrapping_add((!self.writer.is_interrupted()).into());
        let track = self.track;
        self.is_told(Some(track))
    }

    /// Describes the track and those above it, if the current state has not. False: that, or the state before it, was
    /// lost, and the event with it.
    #[inline(never)]
    pub(super) fn is_told(&mut self, mut next: Option<&Track<'_>>) -> bool {
        // Those above it come after it, and there may be a ring of them.
        for _ in 0..Track::MAX_DEPTH {
            let Some(track) = next else { break };
            if self.writer.is_interrupted() || self.knows(track) {
                break;
            }
            if self.described.push(track.id).is_err() {
                // Any will do: it is described again when it is used.
                self.described.clear();
            }
            track.describe(&mut self.writer);
            next = track.parent;
        }
        let lost = self.writer.is_interrupted();
        self.skipped = self.skipped.wrapping_add(lost.into());
        !lost
    }

    /// Whether the current state has described a track.
    #[cfg_attr(not(tracebuf_small), inline)]
    pub(super) fn knows(&self, track: &Track<'_>) -> bool {
        // Those that come and go have come last.
        self.described.iter().rev().any(|known| *known == track.id)
    }
}

/// The trace's incremental clock: the first of those that a sequence has for itself.
const INCREMENTAL: u64 = builtin_clock::MAX_ID + 1;

/// Fields of the packet that starts a state: a number and its value, or which of the values in `start_state`,
/// or a message.
const fn number(field: u32, value: u64) -> (u8, u8) {
    // From there on, it would be taken for an index or for a message.
    assert!(value < VALUE as u64);
    (byte(field), value as u8)
}

const fn value(field: u32, index: u8) -> (u8, u8) {
    (byte(field), VALUE | index)
}

const fn message(field: u32) -> (u8, u8) {
    (byte(field), u8::MAX)
}

const fn byte(field: u32) -> u8 {
    assert!(field != END.0 as u32 && field <= u8::MAX as u32);
    field as u8
}

const VALUE: u8 = 0x80;
const END: (u8, u8) = (0, 0);
const FLAGS: u64 = sequence_flags::INCREMENTAL_STATE_CLEARED | sequence_flags::NEEDS_INCREMENTAL_STATE;

static STATE: &[(u8, u8)] = &[
    value(trace_packet::TIMESTAMP, 0),
    value(trace_packet::TIMESTAMP_CLOCK_ID, 1),
    number(trace_packet::SEQUENCE_FLAGS, FLAGS),
    message(trace_packet::CLOCK_SNAPSHOT),
    message(clock_snapshot::CLOCKS),
    value(clock::CLOCK_ID, 1),
    value(clock::TIMESTAMP, 0),
    END,
    message(clock_snapshot::CLOCKS),
    number(clock::CLOCK_ID, INCREMENTAL),
    value(clock::TIMESTAMP, 2),
    number(clock::IS_INCREMENTAL, 1),
    value(clock::UNIT_MULTIPLIER_NS, 3),
    END,
    // Whatever the sequence's clock is: the trace is shown in the one to which the service relates all others.
    number(clock_snapshot::PRIMARY_TRACE_CLOCK, builtin_clock::BOOTTIME),
    END,
    message(trace_packet::TRACE_PACKET_DEFAULTS),
    number(trace_packet_defaults::TIMESTAMP_CLOCK_ID, INCREMENTAL),
    message(trace_packet_defaults::TRACK_EVENT_DEFAULTS),
];
