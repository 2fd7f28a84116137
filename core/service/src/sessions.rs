//! A tracing session: its state, its data sources, and what it has still to say.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use tracebuf::proto::trace_stats::FinalFlush;

use crate::config::{TraceConfig, TriggerConfig};
use crate::filter::Filtering;
use crate::host::{Clocks, ConnectionId, FileToken};
use crate::sequences::Sequences;

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Set up, and not recording.
    Configured,
    Started,
    /// Told to stop; data sources may still have something to say.
    Stopping,
    Disabled,
    /// A copy of another: there to be read.
    Cloned,
}

impl State {
    /// Whether it records no more.
    pub(crate) const fn is_over(self) -> bool {
        matches!(self, Self::Disabled | Self::Cloned)
    }

    /// As `ConcurrentSessionEvent` has it.
    pub(crate) const fn number(self) -> u32 {
        match self {
            Self::Disabled => 1,
            Self::Configured => 2,
            Self::Started => 3,
            Self::Stopping => 4,
            Self::Cloned => 5,
        }
    }

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Configured => "CONFIGURED",
            Self::Started => "STARTED",
            Self::Stopping => "STOP_WAIT",
            Self::Disabled => "DISABLED",
            Self::Cloned => "CLONED_READ_ONLY",
        }
    }
}

/// Where a data source is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InstanceState {
    Configured,
    Starting,
    Started,
    Stopping,
    Stopped,
}

/// A data source that a producer runs for a session.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) id: u64,
    pub(crate) producer: u16,
    /// The place of what is wanted among the session's data sources.
    pub(crate) wanted: usize,
    pub(crate) state: InstanceState,
    pub(crate) source: String,
    pub(crate) notifies_start: bool,
    pub(crate) notifies_stop: bool,
    pub(crate) clears_state: bool,
    pub(crate) is_flushed: bool,
}

/// A moment in a session's life, which the trace tells of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// A field of `TracingServiceEvent`.
    pub(crate) kind: u32,
    /// What the field says: true, or a number, if it is not of data sources.
    pub(crate) value: u64,
    pub(crate) time: u64,
    /// Data sources that it is about, each with its producer's name.
    pub(crate) sources: Vec<(String, String)>,
}

impl Moment {
    pub(crate) const fn new(kind: u32, time: u64) -> Self {
        Self { kind, value: 1, time, sources: Vec::new() }
    }
}

/// What another session became, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherSession {
    pub(crate) id: u64,
    pub(crate) state: State,
    pub(crate) time: u64,
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) sources: usize,
}

/// A trigger that a session has received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FiredTrigger {
    pub(crate) name: String,
    pub(crate) producer: String,
    pub(crate) uid: u32,
    pub(crate) stop_delay_ms: u64,
    pub(crate) time: u64,
}

/// The file that a session writes.
#[derive(Debug)]
pub(crate) struct OutputFile {
    pub(crate) token: FileToken,
    /// Bytes handed to the host, and those of them that are written.
    pub(crate) given: u64,
    pub(crate) written: u64,
    /// Told to write what there is, and not done yet.
    pub(crate) drains: bool,
    pub(crate) is_full: bool,
    pub(crate) is_finishing: bool,
    /// Bytes that each buffer had taken when all of it was read last.
    pub(crate) drained: Vec<u64>,
    /// Bytes that buffers have lost since, as far as the log says so.
    pub(crate) lost: u64,
    /// The call by which a session was cloned into it, which is answered when it is complete.
    pub(crate) cloned_by: Option<u64>,
}

/// What a session's trace says of the session, besides data.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Everything that is said once has been.
    pub(crate) beginning: bool,
    /// It has another number now than was said at its beginning.
    pub(crate) is_renamed: bool,
    pub(crate) marker_is_due: bool,
    pub(crate) stats_are_due: bool,
    pub(crate) moments: Vec<Moment>,
    /// What sessions beside it were when it began, and became since.
    pub(crate) others: Vec<OtherSession>,
    pub(crate) triggers: Vec<FiredTrigger>,
    /// The trigger for which the session was cloned.
    pub(crate) clone_trigger: Option<FiredTrigger>,
    pub(crate) initial_clocks: Option<Clocks>,
    pub(crate) clocks: Vec<Clocks>,
}

/// Flushes of a session.
#[derive(Debug, Default)]
pub(crate) struct FlushCounts {
    pub(crate) requested: u64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) last: FinalFlush,
}

/// A tracing session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) uid: u32,
    pub(crate) consumer: Option<ConnectionId>,
    /// The key by which a consumer finds it again.
    pub(crate) detached: Option<String>,
    pub(crate) state: State,
    /// Since when it is that, as boot time.
    pub(crate) since: u64,
    pub(crate) config: TraceConfig,
    pub(crate) buffers: Vec<u16>,
    pub(crate) instances: Vec<Instance>,
    /// Producers that are there, and have run data sources for it: some may have none left.
    pub(crate) producers: BTreeSet<u16>,
    /// The call to answer when it has ended: of whoever has detached it, too. Clients of Perfetto's take an answer that
    /// comes earlier for the end of an attached one.
    pub(crate) enabled_by: Option<(ConnectionId, u64)>,
    /// Why it has ended, if that is an error.
    pub(crate) error: Option<String>,
    pub(crate) started: Option<Clocks>,
    /// When it is to end, on the clock that its duration is in.
    pub(crate) ends_at: Option<u64>,
    /// The boot time from which on clocks are told of, if that is to count sleep.
    pub(crate) snapshot_at: u64,
    /// Whether a trigger of it was fired.
    pub(crate) is_triggered: bool,
    /// Triggers of which the consumer is to hear later, so that it clones the session, and when on the steady clock.
    pub(crate) hits: Vec<(u64, FiredTrigger)>,
    pub(crate) has_told_all_started: bool,
    /// A flush before the end is under way.
    pub(crate) is_ending: bool,
    /// To be forgotten, as soon as its file is complete.
    pub(crate) is_freed: bool,
    pub(crate) file: Option<OutputFile>,
    /// What of packets is left; `None` for all.
    pub(crate) filter: Option<Box<Filtering>>,
    pub(crate) told: Told,
    pub(crate) flushes: FlushCounts,
    pub(crate) invalid_packets: u64,
    /// Chunks and patches that were refused, of its producers that are gone.
    pub(crate) discarded: [u64; 2],
    /// That producers do not answer flushes was said, and none was answered since.
    pub(crate) has_said_late: bool,
    pub(crate) sequences: Sequences,
    /// The flush before a write that has not ended.
    pub(crate) is_flushing_to_write: bool,
}

/// Most moments of a kind that come again, and most readings of clocks, that wait to be told.
const MOST_WAITING: usize = 64;
/// Nanoseconds by which clocks must have moved against each other to be told of again.
const DRIFT: u64 = 10_000_000;
/// Most data sources of which it is said that they are slow.
const MOST_SLOW: usize = 32;
/// Most states of other sessions that wait.
const MOST_OTHERS: usize = 4096;
/// Most readings of clocks that wait.
const MOST_CLOCKS: usize = 16;

impl Session {
    pub(crate) fn new(
        uid: u32,
        consumer: ConnectionId,
        enabled_by: Option<u64>,
        config: TraceConfig,
        buffers: Vec<u16>,
    ) -> Self {
        Self {
            uid,
            consumer: Some(consumer),
            detached: None,
            state: State::Configured,
            since: 0,
            config,
            buffers,
            instances: Vec::new(),
            producers: BTreeSet::new(),
            enabled_by: enabled_by.map(|request| (consumer, request)),
            error: None,
            started: None,
            ends_at: None,
            snapshot_at: 0,
            is_triggered: false,
            hits: Vec::new(),
            has_told_all_started: false,
            is_ending: false,
            is_freed: false,
            file: None,
            filter: None,
            told: Told::default(),
            flushes: FlushCounts::default(),
            invalid_packets: 0,
            discarded: [0; 2],
            has_said_late: false,
            sequences: Sequences::default(),
            is_flushing_to_write: false,
        }
    }

    /// Notes data sources that take too long, if there are some.
    pub(crate) fn note_slow(&mut self, kind: u32, time: u64, mut sources: Vec<(String, String)>) {
        sources.truncate(MOST_SLOW);
        if !sources.is_empty() {
            self.told.moments.retain(|moment| moment.kind != kind);
            self.told.moments.push(Moment { sources, ..Moment::new(kind, time) });
        }
    }

    /// Notes what another session has become, if it wants to know.
    pub(crate) fn note_other(&mut self, id: u64, other: &Self) {
        let others = &mut self.told.others;
        if self.config.builtin.others && !self.state.is_over() && others.len() < MOST_OTHERS {
            others.push(OtherSession {
                id,
                state: other.state,
                time: other.since,
                name: other.config.name.clone(),
                uid: other.uid,
                sources: other.instances.len(),
            });
        }
    }

    /// Notes a moment: the newest of its kind, except for flushes, of which some are kept.
    pub(crate) fn note(&mut self, kind: u32, time: u64, several: bool) {
        let moments = &mut self.told.moments;
        let most = if several { MOST_WAITING } else { 1 };
        let of_kind = moments.iter().filter(|moment| moment.kind == kind).count();
        if of_kind >= most
            && let Some(oldest) = moments.iter().position(|moment| moment.kind == kind)
        {
            moments.remove(oldest);
        }
        moments.push(Moment::new(kind, time));
    }

    /// Notes what clocks show, if some have moved against the others since.
    pub(crate) fn note_clocks(&mut self, now: Clocks) {
        let ahead = |clocks: &Clocks| {
            [clocks.realtime, clocks.monotonic, clocks.monotonic_raw]
                .map(|clock| clock.wrapping_sub(clocks.boottime) as i64)
        };
        let last = self.told.clocks.last();
        let moved = last.is_none_or(|last| {
            let moved = ahead(last).into_iter().zip(ahead(&now)).map(|(then, now)| then.abs_diff(now));
            moved.into_iter().any(|moved| moved >= DRIFT)
        });
        if moved && self.told.clocks.len() < MOST_CLOCKS {
            self.told.clocks.push(now);
        }
    }

    /// A data source by its number.
    pub(crate) fn instance(&mut self, number: u64) -> Option<&mut Instance> {
        // They are in the order of their numbers.
        let at = self.instances.binary_search_by_key(&number, |one| one.id).ok()?;
        self.instances.get_mut(at)
    }

    /// The first data source with this number or a higher one.
    pub(crate) fn instance_from(&self, number: u64) -> Option<&Instance> {
        self.instances.get(self.instances.partition_point(|one| one.id < number))
    }

    /// What the clock shows that its duration is in.
    pub(crate) const fn clock(&self, clocks: &Clocks) -> u64 {
        if self.config.counts_sleep { clocks.boottime } else { clocks.monotonic }
    }

    /// Whether its consumer may read it: neither what goes into a file, nor before a trigger, nor what is there to be
    /// cloned.
    pub(crate) fn is_readable(&self) -> bool {
        let may_read = |triggers: &TriggerConfig| self.is_triggered && !triggers.clones;
        self.state == State::Cloned && self.file.is_none()
            || !self.config.writes_file && self.config.triggers.as_ref().is_none_or(may_read)
    }

    pub(crate) fn are_all_stopped(&self) -> bool {
        self.instances.iter().all(|instance| instance.state == InstanceState::Stopped)
    }

    pub(crate) fn are_all_started(&self) -> bool {
        let waits = |state| matches!(state, InstanceState::Configured | InstanceState::Starting);
        !self.instances.iter().any(|instance| waits(instance.state))
    }
}
