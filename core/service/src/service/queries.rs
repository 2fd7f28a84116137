//! What consumers ask about the service and about sessions.

use alloc::vec::Vec;

use tracebuf::buffer::BufferStats;
use tracebuf::proto::Message;
use tracebuf::proto::fields::consumer::{
    tracing_service_state, tracing_service_state_data_source, tracing_service_state_producer,
};
use tracebuf::proto::fields::trace_stats;
use tracebuf::proto::trace_stats::{TraceStats, WriterStats};
use tracebuf::service::writer_stats;

use super::Service;
use super::reading::MOST_UNSENT;
use crate::host::{ConnectionId, Host};
use crate::sessions::{Session, State};
use crate::wire::ProtoBuilder;
use crate::wire::answers::{self, SessionState, signed};

/// Most calls of a consumer that wait to hear what there is.
const MOST_QUERIES: usize = 16;

/// A call that asks what there is.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateQuery {
    request: u64,
    sessions_only: bool,
    /// How far it is answered; `None` if it is not yet.
    told: Option<Told>,
}

/// Where what is told next begins: at this session, or behind all at this producer, whose data sources come behind it.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    session: u64,
    producer: u16,
    part: usize,
}

impl<H: Host> Service<H> {
    /// The `TraceStats` of a session, with those of each writer or without.
    pub(super) fn stats_of(&self, id: u64, has_writers: bool) -> Vec<u8> {
        let Some(session) = self.sessions.get(&id) else { return Vec::new() };
        let buffers: Vec<BufferStats> =
            session.buffers.iter().filter_map(|number| self.buffers.stats(*number)).collect();
        let mut writers: Vec<WriterStats> = Vec::new();
        for (number, place) in session.buffers.iter().zip(0..).filter(|_| has_writers) {
            let sequences = self.buffers.sequences(*number);
            writers.extend(sequences.filter_map(|of| {
                let sequence = session.sequences.get(of.producer_id, of.writer_id)?;
                Some(writer_stats(&of, sequence, place))
            }));
        }
        let [chunks_discarded, patches_discarded] = self.discarded(session);
        let stats = TraceStats {
            buffers: &buffers,
            producers_connected: self.producers.len() as u32,
            producers_seen: self.last.producers_seen,
            chunks_discarded,
            patches_discarded,
            invalid_packets: session.invalid_packets,
            flushes_requested: session.flushes.requested,
            flushes_succeeded: session.flushes.succeeded,
            flushes_failed: session.flushes.failed,
            final_flush: session.flushes.last,
            ..TraceStats::default()
        }
        .with_writers(writers);
        let mut encoded = Vec::new();
        let Ok::<_, core::convert::Infallible>(()) = stats.encode(&mut encoded);
        let filter = session.filter.as_ref().map(|filter| filter.stats());
        let registered: usize = self.producers.values().map(|producer| producer.sources.len()).sum();
        ProtoBuilder::new()
            .fields(&encoded)
            .each(&filter, |stats, filter| stats.message(trace_stats::FILTER_STATS, filter))
            .number(trace_stats::DATA_SOURCES_REGISTERED, registered as u64)
            .number(trace_stats::DATA_SOURCES_SEEN, self.last.instance)
            .number(trace_stats::TRACING_SESSIONS, self.sessions.len() as u64)
            .number(trace_stats::TOTAL_BUFFERS, self.buffers.len() as u64)
            .into_bytes()
    }

    /// Chunks and patches that were refused, of producers of a session: what others wrote is none of its business.
    pub(super) fn discarded(&self, session: &Session) -> [u64; 2] {
        let its = self.producers.iter().filter(|(number, _)| session.producers.contains(*number));
        its.fold(session.discarded, |[chunks, patches], (_, producer)| {
            let stats = producer.stats();
            [chunks.saturating_add(stats.chunks_discarded), patches.saturating_add(stats.patches_discarded)]
        })
    }

    /// Says who and what is there, in turns and in as many messages as it takes: each is valid, and all together are one.
    pub(super) fn query_state(
        &mut self,
        connection: ConnectionId,
        request: Option<u64>,
        sessions_only: bool,
    ) {
        let one = self.connections.get_mut(&connection);
        let Some((request, one)) = request.zip(one) else { return };
        if one.consumer.queries.len() >= MOST_QUERIES {
            return self.reject(connection, Some(request));
        }
        one.consumer.queries.push_back(StateQuery { request, sessions_only, told: None });
        self.askers.insert(connection);
    }

    /// Sends a consumer some of what it asks for. Returns whether more can be sent at once.
    pub(super) fn query_turn(&mut self, connection: ConnectionId) -> bool {
        let Some(one) = self.connections.get(&connection) else { return false };
        let Some(query) = one.consumer.queries.front().copied() else {
            self.askers.remove(&connection);
            return false;
        };
        if one.unsent > MOST_UNSENT {
            return false;
        }
        let mut part = match query.told {
            Some(_) => ProtoBuilder::new(),
            None => {
                let is_started = |session: &&Session| session.state == State::Started;
                let started = self.sessions.values().filter(is_started).count();
                answers::state_begin([self.sessions.len() as u64, started as u64])
            }
        };
        let (uid, mut told) = (one.peer.uid, query.told.unwrap_or_default());
        let mut next = told;
        let items = core::iter::from_fn(|| {
            told = next;
            self.state_item(&mut next, uid, query.sessions_only)
        });
        let mut items = items.peekable();
        answers::push_state(&mut part, &mut items);
        let has_more = items.peek().is_some();
        drop(items);
        if let Some(one) = self.connections.get_mut(&connection) {
            match (one.consumer.queries.front_mut(), has_more) {
                // The one that has no room comes again.
                (Some(query), true) => query.told = Some(told),
                _ => _ = one.consumer.queries.pop_front(),
            }
        }
        self.send(connection, &answers::state_part(query.request, &part, has_more));
        true
    }

    /// The next of what there is, for a user.
    fn state_item(&self, told: &mut Told, uid: u32, sessions_only: bool) -> Option<ProtoBuilder> {
        use tracing_service_state as fields;
        use tracing_service_state_data_source as source_fields;
        use tracing_service_state_producer as producer_fields;
        let mut sessions = self.sessions.range(told.session..);
        if let Some((id, session)) = sessions.find(|(_, session)| uid == 0 || session.uid == uid) {
            told.session = *id + 1;
            return Some(state_of(*id, session).encoded());
        }
        told.session = u64::MAX;
        loop {
            let (number, producer) =
                self.producers.range(told.producer..).next().filter(|_| !sessions_only)?;
            let Told { producer: of, part, .. } = *told;
            if of != *number || part == 0 {
                (told.producer, told.part) = (*number, 1);
                let told = ProtoBuilder::new()
                    .number(producer_fields::ID, *number)
                    .bytes(producer_fields::NAME, producer.name().as_bytes())
                    .number(producer_fields::UID, signed(producer.peer.uid as i32))
                    .bytes(producer_fields::SDK_VERSION, producer.hello.sdk_version.as_bytes())
                    .number(producer_fields::PID, signed(producer.peer.pid));
                return Some(ProtoBuilder::new().message(fields::PRODUCERS, &told));
            }
            if let Some(source) = producer.sources.get(part - 1) {
                told.part += 1;
                let told = ProtoBuilder::new()
                    .bytes(source_fields::DS_DESCRIPTOR, &source.whole)
                    .number(source_fields::PRODUCER_ID, *number);
                return Some(ProtoBuilder::new().message(fields::DATA_SOURCES, &told));
            }
            (told.producer, told.part) = (number.checked_add(1)?, 0);
        }
    }
}

fn state_of(id: u64, session: &Session) -> SessionState<'_> {
    let config = &session.config;
    SessionState {
        id,
        uid: session.uid,
        state: session.state.text(),
        name: &config.name,
        buffers_kb: config.buffers.iter().map(|buffer| buffer.size_kb).collect(),
        duration_ms: config.duration_ms,
        data_sources: session.instances.len() as u64,
        started: session.started.map_or(0, |clocks| clocks.realtime),
        bugreport_score: config.bugreport_score,
        bugreport_filename: &config.bugreport_filename,
        is_started: session.state == State::Started,
    }
}
