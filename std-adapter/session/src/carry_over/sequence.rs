//! What a sequence's packets refer to.

use tracebuf::proto::PacketView;
use tracebuf::proto::fields::{data_loss_reason, trace_packet, trace_packet_defaults, track_event_defaults};
use tracebuf::proto::reader::{message, messages, number};

use super::clock::{Moment, SequenceClock};
use super::descriptions::Descriptions;
use super::event::{CounterValue, Event, Kind};
use super::limits;
use super::names::Names;
use super::noted::Noted;
use super::slices::{NOWHERE, Tracks};
use super::{Id, Writer};

/// The sum of an incremental counter since the state's beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    pub(super) uuid: u64,
    pub(super) sum: i64,
    pub(super) fraction: f64,
}

impl Counter {
    pub(super) fn value(&self) -> CounterValue {
        match self.fraction {
            0.0 => CounterValue::Whole(self.sum),
            fraction => CounterValue::Fraction(fraction),
        }
    }
}

/// How a state differs from what was last noted of it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    #[default]
    Nothing,
    /// It has more names.
    More,
    /// It is another one.
    Another,
}

#[derive(Clone)]
pub(super) struct Sequence {
    pub(super) uid: u32,
    pub(super) pid: Option<i32>,
    /// Whether the state is known, so that packets which need it can be read.
    pub(super) is_readable: bool,
    pub(super) clock: SequenceClock,
    pub(super) defaults: Vec<u8>,
    pub(super) names: Names,
    pub(super) descriptions: Descriptions,
    pub(super) counters: Vec<Counter>,
    /// The track of events that name none, and its place.
    pub(super) track: Option<u64>,
    pub(super) place: u32,
    /// The other track that was used last, and its place.
    pub(super) other: (u64, u32),
    /// Whether packets have left that the trace which is being written does not have.
    pub(super) is_due: bool,
    /// Whether the ring has overwritten some of these: then the next packet says so.
    pub(super) is_overwritten: bool,
    /// Whether the trace that is being written was to have a packet of it, and whether it has one.
    pub(super) is_of_trace: bool,
    pub(super) has_stayed: bool,
    /// Whether a packet has told that they were.
    pub(super) has_told: bool,
    /// When its last packet was, if that can be told.
    pub(super) last: Option<Moment>,
    /// What was lost before the packets that left, and is to be told.
    pub(super) loss: u64,
    /// What has changed of its state since that was noted.
    pub(super) change: Change,
    /// What was noted last.
    pub(super) noted: Noted,
    /// Whether its open slices were dropped, because their ends may have been among what could not be read.
    pub(super) is_forgotten: bool,
}

impl Sequence {
    pub(super) fn new(uid: u32, pid: Option<i32>) -> Self {
        Self {
            uid,
            pid,
            is_readable: false,
            clock: SequenceClock::default(),
            defaults: Vec::new(),
            names: Names::default(),
            descriptions: Descriptions::default(),
            counters: Vec::new(),
            track: None,
            place: NOWHERE,
            other: (0, NOWHERE),
            is_due: false,
            is_overwritten: false,
            is_of_trace: false,
            has_stayed: false,
            has_told: false,
            last: None,
            loss: 0,
            change: Change::Nothing,
            noted: Noted::default(),
            is_forgotten: false,
        }
    }

    pub(super) fn writer(&self, id: Id) -> Writer {
        Writer { id, uid: self.uid, pid: self.pid }
    }

    /// What its next packet in the trace has to tell that was lost before.
    pub(super) fn untold(&mut self) -> u64 {
        const OVERWRITTEN: u64 = (data_loss_reason::PRESENT | data_loss_reason::OVERWRITE) as u64;
        let is_new = self.is_overwritten && !std::mem::replace(&mut self.has_told, true);
        std::mem::take(&mut self.loss) | if is_new { OVERWRITTEN } else { 0 }
    }

    /// Starts over with the packet that begins a state.
    pub(super) fn begin(&mut self, id: u32, packet: &PacketView<'_>, tracks: &mut Tracks) {
        self.is_readable = true;
        self.is_forgotten = false;
        self.change = Change::Another;
        self.clock = SequenceClock::of(packet);
        self.defaults.clear();
        self.names.clear();
        self.descriptions.clear();
        // They start at 0, and are still what they were described as.
        self.counters.iter_mut().for_each(|counter| (counter.sum, counter.fraction) = (0, 0.0));
        let before = (self.track.take(), std::mem::replace(&mut self.place, NOWHERE));
        self.learn(packet, tracks);
        if let (Some(uuid), place) = before {
            if self.track.is_some_and(|track| track != uuid) {
                // Another thread has the writer now, and the one before has ended.
                tracks.forget(id, Some(place));
            }
            tracks.let_go(place);
        }
    }

    /// Takes over what later packets refer to.
    pub(super) fn learn(&mut self, packet: &PacketView<'_>, tracks: &mut Tracks) {
        if !packet.snapshot.is_empty() || !packet.defaults.is_empty() {
            self.clock.read(packet);
            self.change = Change::Another;
        }
        if !packet.defaults.is_empty() {
            self.learn_defaults(packet.defaults, tracks);
        }
        if packet.has_names && self.is_readable {
            self.change = self.change.max(Change::More);
            let mut data = messages(packet.content, trace_packet::INTERNED_DATA);
            self.is_readable = data.all(|data| self.names.add(data)) && self.is_small();
        }
    }

    fn learn_defaults(&mut self, defaults: &[u8], tracks: &mut Tracks) {
        if !self.is_readable {
            return;
        }
        self.defaults.clear();
        self.defaults.extend_from_slice(defaults);
        self.is_readable = self.is_small();
        let track = message(defaults, trace_packet_defaults::TRACK_EVENT_DEFAULTS)
            .and_then(|defaults| number(defaults, track_event_defaults::TRACK_UUID));
        if let Some(uuid) = track.filter(|_| track != self.track) {
            let held = tracks.hold(uuid);
            if self.track.is_some() {
                tracks.let_go(self.place);
            }
            (self.track, self.place) = (track, held);
        }
    }

    fn is_small(&self) -> bool {
        self.names.bytes().len() + self.defaults.len() + self.clock.size() <= limits::STATE
    }

    /// The place of the track of an event, which for a begin is made.
    #[inline]
    pub(super) fn place_of(&mut self, event: &Event<'_>, tracks: &mut Tracks) -> u32 {
        match event.track {
            None => self.place,
            Some(uuid)
                if self.other.0 == uuid && tracks.get(self.other.1).is_some_and(|t| t.uuid == uuid) =>
            {
                self.other.1
            }
            Some(uuid) => {
                let is_begin = event.kind == Kind::Begin;
                let place = if is_begin { Some(tracks.place(uuid)) } else { tracks.find(uuid) };
                self.other = (uuid, place.unwrap_or(NOWHERE));
                self.other.1
            }
        }
    }

    /// Adds to a counter that counts from one value to the next. Returns what its value is now, whichever way it counts.
    pub(super) fn count(&mut self, uuid: u64, value: CounterValue) -> CounterValue {
        let Some(counter) = self.counters.iter_mut().find(|counter| counter.uuid == uuid) else {
            return value;
        };
        match value {
            CounterValue::Whole(more) => counter.sum = counter.sum.wrapping_add(more),
            CounterValue::Fraction(more) => counter.fraction += more,
        }
        counter.value()
    }

    /// Notes whether a track is a counter's whose values count from one to the next.
    pub(super) fn see_counter(&mut self, uuid: u64, is_incremental: bool) {
        let known = self.counters.iter().position(|counter| counter.uuid == uuid);
        match (known, is_incremental) {
            (None, true) if self.counters.len() < limits::COUNTERS => {
                self.counters.push(Counter { uuid, sum: 0, fraction: 0.0 });
            }
            (Some(at), false) => drop(self.counters.remove(at)),
            _ => {}
        }
    }
}
