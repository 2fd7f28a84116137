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
use crate::host::{ConnectionId, Host};
use crate::sessions::{Session, State};
use crate::wire::ProtoBuilder;
use crate::wire::answers::{self, SessionState, signed};

impl<H: Host> Service<H> {
    /// The `TraceStats` of a session.
    pub(super) fn stats_of(&self, id: u64) -> Vec<u8> {
        let Some(session) = self.sessions.get(&id) else { return Vec::new() };
        let buffers: Vec<BufferStats> =
            session.buffers.iter().filter_map(|number| self.buffers.stats(*number)).collect();
        let mut writers: Vec<WriterStats> = Vec::new();
        for (number, place) in session.buffers.iter().zip(0..) {
            let sequences = self.buffers.sequences(*number);
            writers.extend(sequences.filter_map(|of| {
                let sequence = session.sequences.get(&(of.producer_id, of.writer_id))?;
                Some(writer_stats(&of, *sequence, place))
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
        let its = self.producers.iter().filter(|(number, _)| session.has_producer(**number));
        its.fold(session.discarded, |[chunks, patches], (_, producer)| {
            let stats = producer.stats();
            [chunks.saturating_add(stats.chunks_discarded), patches.saturating_add(stats.patches_discarded)]
        })
    }

    /// Says who and what is there, in as many messages as it takes: each is valid, and all together are one.
    pub(super) fn query_state(
        &mut self,
        connection: ConnectionId,
        request: Option<u64>,
        sessions_only: bool,
    ) {
        use tracing_service_state as fields;
        let Some(request) = request else { return };
        let uid = self.connections.get(&connection).map_or(u32::MAX, |one| one.peer.uid);
        let started = self.sessions.values().filter(|session| session.state == State::Started).count();
        let shown = self.sessions.iter().filter(|(_, session)| uid == 0 || session.uid == uid);
        let mut all: Vec<ProtoBuilder> =
            shown.map(|(id, session)| state_of(*id, session).encoded()).collect();
        for (number, producer) in self.producers.iter().filter(|_| !sessions_only) {
            use tracing_service_state_data_source as source_fields;
            use tracing_service_state_producer as producer_fields;
            let told = ProtoBuilder::new()
                .number(producer_fields::ID, *number)
                .bytes(producer_fields::NAME, producer.name().as_bytes())
                .number(producer_fields::UID, signed(producer.peer.uid as i32))
                .bytes(producer_fields::SDK_VERSION, producer.hello.sdk_version.as_bytes())
                .number(producer_fields::PID, signed(producer.peer.pid));
            all.push(ProtoBuilder::new().message(fields::PRODUCERS, &told));
            all.extend(producer.sources.iter().map(|source| {
                let told = ProtoBuilder::new()
                    .bytes(source_fields::DS_DESCRIPTOR, &source.whole)
                    .number(source_fields::PRODUCER_ID, *number);
                ProtoBuilder::new().message(fields::DATA_SOURCES, &told)
            }));
        }
        for frame in answers::service_state(request, [self.sessions.len() as u64, started as u64], all) {
            self.send(connection, &frame);
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
