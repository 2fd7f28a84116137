//! What consumers hear unasked.

use tracebuf::proto::fields::consumer::{
    clone_trigger_hit, data_source_instance_state_change as change, observable_events,
    observe_events_response,
};

use super::Service;
use crate::host::{ConnectionId, Host};
use crate::sessions::{FiredTrigger, InstanceState};
use crate::wire::ProtoBuilder;
use crate::wire::frames;

const INSTANCES: u64 = 1;
const ALL_STARTED: u64 = 2;
const CLONE_TRIGGER: u64 = 4;
/// Bytes of events in one message.
const MOST: usize = 64 << 10;

impl<H: Host> Service<H> {
    /// A consumer wants to hear of these events, and no longer of those that it wanted to hear of before.
    pub(super) fn observe(&mut self, connection: ConnectionId, request: Option<u64>, mask: u64) {
        let Some(one) = self.connections.get_mut(&connection) else { return };
        let consumer = &mut one.consumer;
        let before = consumer.observes.take();
        consumer.observed = mask;
        consumer.observes = request.filter(|_| mask != 0);
        consumer.changes = ProtoBuilder::new();
        consumer.all_started = false;
        let session = consumer.session;
        self.reject(connection, before);
        if mask == 0 {
            self.reject(connection, request);
        }
        let Some((id, session)) = session.and_then(|id| Some((id, self.sessions.get(&id)?))) else { return };
        let all_started = session.has_told_all_started;
        let instances: alloc::vec::Vec<u64> = session.instances.iter().map(|instance| instance.id).collect();
        instances.into_iter().for_each(|instance| self.observe_instance(id, instance));
        if all_started {
            self.observe_all_started(id);
        }
    }

    /// The consumer of a session that has come to observe something hears what there is to hear now.
    fn observer(&mut self, id: u64, of: u64) -> Option<ConnectionId> {
        let connection = self.sessions.get(&id)?.consumer?;
        let one = self.connections.get(&connection)?;
        (one.consumer.observed & of != 0).then_some(connection)
    }

    /// A data source is in another state.
    pub(super) fn observe_instance(&mut self, id: u64, instance: u64) {
        let Some(connection) = self.observer(id, INSTANCES) else { return };
        let Some(one) = self.instance(id, instance) else { return };
        let state = match one.state {
            InstanceState::Configured | InstanceState::Stopped => 1_u32,
            InstanceState::Started => 2,
            InstanceState::Starting | InstanceState::Stopping => return,
        };
        let (number, source) = (one.producer, one.source.clone());
        let name = self.producers.get(&number).map(|producer| producer.name()).unwrap_or_default();
        let told = ProtoBuilder::new()
            .bytes(change::PRODUCER_NAME, name.as_bytes())
            .bytes(change::DATA_SOURCE_NAME, source.as_bytes())
            .number(change::STATE, state);
        let Some(one) = self.connections.get_mut(&connection) else { return };
        let changes = core::mem::take(&mut one.consumer.changes);
        one.consumer.changes = changes.message(observable_events::INSTANCE_STATE_CHANGES, &told);
        let is_much = one.consumer.changes.as_bytes().len() > MOST;
        self.to_tell.insert(connection);
        if is_much {
            self.tell_events();
        }
    }

    pub(super) fn observe_all_started(&mut self, id: u64) {
        let Some(connection) = self.observer(id, ALL_STARTED) else { return };
        if let Some(one) = self.connections.get_mut(&connection) {
            one.consumer.all_started = true;
            self.to_tell.insert(connection);
        }
    }

    /// A trigger was fired for which the consumer is to clone the session. A message has room for one.
    pub(super) fn observe_hit(&mut self, id: u64, hit: &FiredTrigger) {
        use clone_trigger_hit as fields;
        let Some(connection) = self.observer(id, CLONE_TRIGGER) else { return };
        let told = ProtoBuilder::new()
            .number(fields::TRACING_SESSION_ID, id)
            .bytes(fields::TRIGGER_NAME, hit.name.as_bytes())
            .bytes(fields::PRODUCER_NAME, hit.producer.as_bytes())
            .number(fields::PRODUCER_UID, hit.uid)
            .number(fields::BOOT_TIME_NS, hit.time)
            .number(fields::TRIGGER_DELAY_MS, hit.stop_delay_ms);
        let Some(one) = self.connections.get_mut(&connection) else { return };
        let changes = core::mem::take(&mut one.consumer.changes);
        one.consumer.changes = changes.message(observable_events::CLONE_TRIGGER_HIT, &told);
        self.to_tell.insert(connection);
        self.tell_events();
    }

    /// Says what has come together since the last time.
    pub(super) fn tell_events(&mut self) {
        while let Some(connection) = self.to_tell.pop_first() {
            let Some(one) = self.connections.get_mut(&connection) else { continue };
            let Some(request) = one.consumer.observes else { continue };
            let mut events = core::mem::take(&mut one.consumer.changes);
            if core::mem::take(&mut one.consumer.all_started) {
                events = events.number(observable_events::ALL_DATA_SOURCES_STARTED, true);
            }
            let response = ProtoBuilder::new().message(observe_events_response::EVENTS, &events);
            self.send(connection, &frames::reply(request, &response, true));
        }
    }
}
