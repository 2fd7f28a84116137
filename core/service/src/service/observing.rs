//! What consumers hear unasked.

use alloc::collections::BTreeSet;

use tracebuf::proto::fields::consumer::{
    clone_trigger_hit, data_source_instance_state_change as change, observable_events,
    observe_events_response,
};

use super::Service;
use super::reading::MOST_UNSENT;
use crate::host::{ConnectionId, Host};
use crate::sessions::{FiredTrigger, Instance, InstanceState};
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
        consumer.observes = request.filter(|_| mask != 0);
        // Who wants no answer hears of nothing.
        consumer.observed = if consumer.observes.is_some() { mask } else { 0 };
        consumer.changes = ProtoBuilder::new();
        consumer.tells_from = None;
        consumer.all_started = false;
        let session = consumer.session;
        self.reject(connection, before);
        if mask == 0 {
            self.reject(connection, request);
        }
        let Some((id, session)) = session.and_then(|id| Some((id, self.sessions.get(&id)?))) else { return };
        if session.has_told_all_started {
            self.observe_all_started(id);
        }
        if let Some(connection) = self.observer(id, INSTANCES) {
            self.tell_all(connection);
        }
    }

    /// A consumer hears how all data sources are.
    fn tell_all(&mut self, connection: ConnectionId) {
        if let Some(one) = self.connections.get_mut(&connection) {
            (one.consumer.changes, one.consumer.tells_from) = (ProtoBuilder::new(), Some(0));
            self.to_tell.insert(connection);
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
        let session = self.sessions.get(&id);
        let one = session.and_then(|of| of.instance_from(instance)).filter(|one| one.id == instance);
        let Some(told) = one.and_then(|one| self.change(one)) else { return };
        let Some(one) = self.connections.get_mut(&connection) else { return };
        if one.consumer.tells_from.is_some_and(|from| instance >= from) {
            return;
        }
        if one.consumer.changes.as_bytes().len() > MOST {
            // It does not take what it is told: programs could fill memory with what waits.
            return self.tell_all(connection);
        }
        let changes = core::mem::take(&mut one.consumer.changes);
        one.consumer.changes = changes.message(observable_events::INSTANCE_STATE_CHANGES, &told);
        let is_much = one.consumer.changes.as_bytes().len() > MOST;
        self.to_tell.insert(connection);
        if is_much {
            self.tell_events();
        }
    }

    /// What is said of a data source, as it is.
    fn change(&self, one: &Instance) -> Option<ProtoBuilder> {
        let state = match one.state {
            InstanceState::Configured | InstanceState::Stopped => 1_u32,
            InstanceState::Started => 2,
            InstanceState::Starting | InstanceState::Stopping => return None,
        };
        let name = self.producers.get(&one.producer).map(|producer| producer.name()).unwrap_or_default();
        let told = ProtoBuilder::new()
            .bytes(change::PRODUCER_NAME, name.as_bytes())
            .bytes(change::DATA_SOURCE_NAME, one.source.as_bytes())
            .number(change::STATE, state);
        Some(told)
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
        let events = ProtoBuilder::new().message(observable_events::CLONE_TRIGGER_HIT, &told);
        self.send_events(connection, &events);
    }

    fn send_events(&mut self, connection: ConnectionId, events: &ProtoBuilder) {
        let observes = self.connections.get(&connection).and_then(|one| one.consumer.observes);
        if let Some(request) = observes {
            let response = ProtoBuilder::new().message(observe_events_response::EVENTS, events);
            self.send(connection, &frames::reply(request, &response, true));
        }
    }

    /// Says what has come together since the last time, to those who take it.
    pub(super) fn tell_events(&mut self) {
        let mut behind = BTreeSet::new();
        while let Some(connection) = self.to_tell.pop_first() {
            if self.tell(connection) {
                behind.insert(connection);
            }
        }
        self.to_tell.append(&mut behind);
    }

    /// Tells a consumer what there is to tell. Returns whether there is more, which it does not take yet.
    fn tell(&mut self, connection: ConnectionId) -> bool {
        loop {
            self.add_states(connection);
            let Some(one) = self.connections.get_mut(&connection) else { return false };
            if one.unsent > MOST_UNSENT {
                return true;
            }
            let is_last = one.consumer.tells_from.is_none();
            let mut events = core::mem::take(&mut one.consumer.changes);
            if is_last && core::mem::take(&mut one.consumer.all_started) {
                events = events.number(observable_events::ALL_DATA_SOURCES_STARTED, true);
            }
            if !events.as_bytes().is_empty() {
                self.send_events(connection, &events);
            }
            if is_last {
                return false;
            }
        }
    }

    /// Adds how data sources are that a consumer has still to hear of, as many as a message has room for.
    fn add_states(&mut self, connection: ConnectionId) {
        loop {
            let Some(one) = self.connections.get(&connection) else { return };
            let is_full = one.consumer.changes.as_bytes().len() > MOST;
            let Some(from) = one.consumer.tells_from.filter(|_| !is_full) else { return };
            let session = one.consumer.session.and_then(|id| self.sessions.get(&id));
            let next = session.and_then(|session| session.instance_from(from));
            let told = next.and_then(|one| self.change(one));
            let from = next.map(|one| one.id + 1);
            let Some(one) = self.connections.get_mut(&connection) else { return };
            let changes = core::mem::take(&mut one.consumer.changes);
            one.consumer.changes =
                changes.each(&told, |all, told| all.message(observable_events::INSTANCE_STATE_CHANGES, told));
            one.consumer.tells_from = from;
        }
    }
}
