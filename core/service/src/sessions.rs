//! A tracing session: its state, its data sources, and what it has still to say.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use tracebuf::proto::SequenceId;
use tracebuf::proto::trace_stats::FinalFlush;

use crate::config::{TraceConfig, TriggerConfig};
use crate::filter::Filtering;
use crate::host::{Clocks, ConnectionId, FileToken};

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
    /// What it is told, as it is told.
    pub(crate) config: Vec<u8>,
}

/// A moment in a session's life, which the trace tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// A field of `TracingServiceEvent`.
    pub(crate) kind: u32,
    /// What the field says: true, or a number.
    pub(crate) value: u64,
    pub(crate) time: u64,
}

impl Moment {
    pub(crate) const fn new(kind: u32, time: u64) -> Self {
        Self { kind, value: 1, time }
    }
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
}

/// What a session's trace says of the session, besides data.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Everything that is said once has been.
    pub(crate) beginning: bool,
    pub(crate) marker_is_due: bool,
    pub(crate) stats_are_due: bool,
    pub(crate) moments: Vec<Moment>,
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
    pub(crate) config: TraceConfig,
    pub(crate) buffers: Vec<u16>,
    pub(crate) instances: Vec<Instance>,
    /// The call to answer when it has ended.
    pub(crate) enabled_by: Option<u64>,
    /// Why it has ended, if that is an error.
    pub(crate) error: Option<String>,
    pub(crate) started: Option<Clocks>,
    /// When it is to end, on the clock that its duration is in.
    pub(crate) ends_at: Option<u64>,
    /// Whether a trigger of it was fired.
    pub(crate) is_triggered: bool,
    /// Triggers of which the consumer is to hear later, so that it clones the session.
    pub(crate) hits: Vec<FiredTrigger>,
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
    pub(crate) sequences: BTreeMap<(u16, u16), SequenceId>,
    /// The flush before a write that has not ended.
    pub(crate) is_flushing_to_write: bool,
}

/// Most moments of a kind that come again, and most readings of clocks, that wait to be told.
const MOST_WAITING: usize = 64;
/// Nanoseconds by which clocks must have moved against each other to be told of again.
const DRIFT: u64 = 10_000_000;
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
            config,
            buffers,
            instances: Vec::new(),
            enabled_by,
            error: None,
            started: None,
            ends_at: None,
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
            sequences: BTreeMap::new(),
            is_flushing_to_write: false,
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

    /// The number of a writer's packets in this trace.
    pub(crate) fn sequence(
        sequences: &mut BTreeMap<(u16, u16), SequenceId>,
        producer: u16,
        writer: u16,
    ) -> SequenceId {
        let next = sequences.len().saturating_add(2);
        let next = u32::try_from(next).ok().and_then(SequenceId::new).unwrap_or(SequenceId::FIRST_WRITER);
        *sequences.entry((producer, writer)).or_insert(next)
    }

    /// What the clock shows that its duration is in.
    pub(crate) const fn clock(&self, clocks: &Clocks) -> u64 {
        if self.config.counts_sleep { clocks.boottime } else { clocks.monotonic }
    }

    /// Whether its consumer may read it: neither what goes into a file, nor before a trigger, nor what is there to be
    /// cloned.
    pub(crate) fn is_readable(&self) -> bool {
        let may_read = |triggers: &TriggerConfig| self.is_triggered && !triggers.clones;
        self.state == State::Cloned
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
