//! What consumers ask about the service and about sessions.

use alloc::vec::Vec;

use tracebuf::buffer::BufferStats;
use tracebuf::proto::Message;
use tracebuf::proto::fields::consumer::{
    query_capabilities_response, query_service_state_response, tracing_service_capabilities,
    tracing_service_state, tracing_service_state_data_source, tracing_service_state_producer,
    tracing_session,
};
use tracebuf::proto::fields::trace_stats;
use tracebuf::proto::trace_stats::{TraceStats, WriterStats};
use tracebuf::service::writer_stats;

use super::Service;
use crate::host::{ConnectionId, Host};
use crate::packets::VERSION;
use crate::sessions::{Session, State};
use crate::wire::ProtoBuilder;
use crate::wire::frames;

/// Bytes of a part of an answer that has room in a frame.
const PART: usize = 64 << 10;

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
        let of_producers = |of: fn(&tracebuf::service::EndpointStats) -> u64| {
            self.producers.values().map(|producer| of(&producer.stats())).sum::<u64>()
        };
        let stats = TraceStats {
            buffers: &buffers,
            producers_connected: self.producers.len() as u32,
            producers_seen: self.last.producers_seen,
            chunks_discarded: self.discarded[0] + of_producers(|stats| stats.chunks_discarded),
            patches_discarded: self.discarded[1] + of_producers(|stats| stats.patches_discarded),
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

    pub(super) fn query_capabilities(&mut self, connection: ConnectionId, request: Option<u64>) {
        use tracing_service_capabilities as fields;
        let capabilities = ProtoBuilder::new()
            .number(fields::HAS_QUERY_CAPABILITIES, true)
            .each([1_u32, 2, 4], |of, kind| of.number(fields::OBSERVABLE_EVENTS, kind))
            .number(fields::HAS_TRACE_CONFIG_OUTPUT_PATH, true)
            .number(fields::HAS_CLONE_SESSION, true);
        let response = ProtoBuilder::new().message(query_capabilities_response::CAPABILITIES, &capabilities);
        self.reply(connection, request, &response);
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
        let mut all: Vec<ProtoBuilder> = Vec::new();
        let started = self.sessions.values().filter(|session| session.state == State::Started).count();
        all.push(
            ProtoBuilder::new()
                .number(fields::NUM_SESSIONS, self.sessions.len() as u64)
                .number(fields::NUM_SESSIONS_STARTED, started as u64)
                .bytes(fields::TRACING_SERVICE_VERSION, VERSION.as_bytes())
                .number(fields::SUPPORTS_TRACING_SESSIONS, true),
        );
        let shown = self.sessions.iter().filter(|(_, session)| uid == 0 || session.uid == uid);
        all.extend(shown.map(|(id, session)| {
            ProtoBuilder::new().message(fields::TRACING_SESSIONS, &told_session(*id, session))
        }));
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
        let mut part = ProtoBuilder::new();
        for item in all {
            let (before, item) = (part.as_bytes().len(), item.as_bytes());
            if before > 0 && before + item.len() > PART {
                self.send_state(connection, request, &part, true);
                part = ProtoBuilder::new();
            }
            part = part.fields(item);
        }
        self.send_state(connection, request, &part, false);
    }

    fn send_state(&mut self, connection: ConnectionId, request: u64, part: &ProtoBuilder, has_more: bool) {
        let response = ProtoBuilder::new().message(query_service_state_response::SERVICE_STATE, part);
        self.send(connection, &frames::reply(request, &response, has_more));
    }
}

/// An `int32` as a varint has it.
fn signed(number: i32) -> u64 {
    i64::from(number).cast_unsigned()
}

fn told_session(id: u64, session: &Session) -> ProtoBuilder {
    use tracing_session as fields;
    let config = &session.config;
    ProtoBuilder::new()
        .number(fields::ID, id)
        .number(fields::CONSUMER_UID, signed(session.uid as i32))
        .bytes(fields::STATE, session.state.text().as_bytes())
        .bytes(fields::UNIQUE_SESSION_NAME, config.name.as_bytes())
        .each(&config.buffers, |told, buffer| told.number(fields::BUFFER_SIZE_KB, buffer.size_kb))
        .number(fields::DURATION_MS, config.duration_ms)
        .number(fields::NUM_DATA_SOURCES, session.instances.len() as u64)
        .number(fields::START_REALTIME_NS, session.started.map_or(0, |clocks| clocks.realtime))
        .number(fields::BUGREPORT_SCORE, config.bugreport_score)
        .bytes(fields::BUGREPORT_FILENAME, config.bugreport_filename.as_bytes())
        .number(fields::IS_STARTED, session.state == State::Started)
}
