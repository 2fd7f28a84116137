//! Data sources that producers run for sessions.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use tracebuf::proto::fields::ipc::data_source_config as field;
use tracebuf::proto::reader::Fields;
use tracebuf::service::AllowedBuffers;
use tracebuf::vm::RingProgram;

use super::Service;
use super::timers::MS;
use crate::config::{SourceConfig, TraceConfig};
use crate::host::{Action, Host};
use crate::sessions::{Instance, InstanceState, State};
use crate::wire::ProtoBuilder;
use crate::wire::calls::SourceDescriptor;
use crate::wire::commands;

/// Most instances of one session.
const MOST_INSTANCES: usize = 16_384;

/// What the service says of a data source, whatever the consumer has said of that.
const OWN_FIELDS: [u32; 7] = [
    field::TARGET_BUFFER,
    field::TRACE_DURATION_MS,
    field::TRACING_SESSION_ID,
    field::ENABLE_EXTRA_GUARDRAILS,
    field::STOP_TIMEOUT_MS,
    field::SESSION_INITIATOR,
    field::PREFER_SUSPEND_CLOCK_FOR_DURATION,
];

/// The `DataSourceConfig` that a producer gets: as the consumer wrote it, but for some fields.
fn told(source: &SourceConfig, config: &TraceConfig, session: u64, buffer: u16) -> Vec<u8> {
    let others = Fields::of(&source.config).filter(|read| !OWN_FIELDS.contains(&read.number));
    let mut told = ProtoBuilder::new()
        .each(others, |told, read| told.fields(read.whole))
        .number(field::TARGET_BUFFER, buffer)
        .number(field::TRACE_DURATION_MS, config.duration_ms)
        .number(field::TRACING_SESSION_ID, session)
        .number(field::STOP_TIMEOUT_MS, config.stop_timeout_ms)
        .number(field::ENABLE_EXTRA_GUARDRAILS, config.guardrails);
    if config.counts_sleep {
        told = told.number(field::PREFER_SUSPEND_CLOCK_FOR_DURATION, true);
    }
    told.into_bytes()
}

impl<H: Host> Service<H> {
    /// Sets a data source up in each session that wants it.
    pub(super) fn offer(&mut self, number: u16, source: &SourceDescriptor) {
        let sessions: Vec<u64> = self.sessions.keys().copied().collect();
        for id in sessions {
            self.offer_to(id, number, source);
        }
    }

    fn offer_to(&mut self, id: u64, number: u16, source: &SourceDescriptor) {
        let Some(session) = self.sessions.get(&id) else { return };
        if !matches!(session.state, State::Configured | State::Started) {
            return;
        }
        let wanted = session.config.sources.len();
        for at in 0..wanted {
            if self.wants(id, at, number, &source.name) {
                self.set_up(id, at, number, source);
            }
        }
    }

    /// Sets up what producers that are there have, in a new session, or in one that wants more of it.
    pub(super) fn set_up_all(&mut self, id: u64) {
        let Some(session) = self.sessions.get(&id) else { return };
        let wanted: BTreeSet<&str> = session.config.sources.iter().map(|of| of.name.as_str()).collect();
        let all = self.producers.iter().flat_map(|(number, producer)| {
            let sources = producer.sources.iter().filter(|source| wanted.contains(source.name.as_str()));
            sources.map(|source| (*number, source.clone()))
        });
        let all: Vec<(u16, Arc<SourceDescriptor>)> = all.collect();
        for (number, source) in all {
            self.offer_to(id, number, &source);
        }
    }

    /// Whether a session wants a data source of a producer, and has it not yet.
    fn wants(&mut self, id: u64, at: usize, number: u16, name: &str) -> bool {
        let Some(session) = self.sessions.get(&id) else { return false };
        let (Some(source), Some(producer)) = (session.config.sources.get(at), self.producers.get(&number))
        else {
            return false;
        };
        if source.name != name || self.keeps_out(producer.peer.uid) {
            return false;
        }
        let machine = self.host.machine().name.clone();
        let on_machine = |name: &String| *name == machine || name == "host";
        if !source.machines.is_empty() && !source.machines.iter().any(on_machine) {
            return false;
        }
        let is_for_all = source.producers.is_empty() && source.producer_patterns.is_empty();
        is_for_all
            || source.producers.iter().any(|name| name == producer.name())
            || source
                .producer_patterns
                .iter()
                // One that is none was refused before.
                .any(|pattern| self.host.matches(pattern, producer.name()).unwrap_or(false))
    }

    fn set_up(&mut self, id: u64, wanted: usize, number: u16, source: &SourceDescriptor) {
        let Some(session) = self.sessions.get(&id).filter(|one| one.instances.len() < MOST_INSTANCES) else {
            return;
        };
        // It has one for each time that the producer offers it, and no more when filters change.
        let is_it = |instance: &&Instance| {
            (instance.producer, instance.wanted) == (number, wanted)
                && instance.state != InstanceState::Stopped
        };
        let there = session.instances.iter().filter(is_it).count();
        let offers = self.producers.get(&number).map_or(0, |producer| {
            producer.sources.iter().filter(|offered| offered.name == source.name).count()
        });
        if there >= offers {
            return;
        }
        let is_started = session.state == State::Started;
        let Some((config, buffer)) = self.config_of(id, wanted) else { return };
        if !self.give_memory(id, number) {
            return;
        }
        // What it is told may be too much for it: then it is gone, and all of its data sources with it.
        let Some(producer) = self.producers.get_mut(&number) else { return };
        if let Some(allowed) = producer.allowed() {
            allowed.allow(buffer);
        }
        self.last.instance += 1;
        let next = self.last.instance;
        if let Some(program) = RingProgram::of(&source.name, &source.whole, &config)
            && !self.buffers.vms(buffer).is_some_and(|vms| vms.join(program, number))
        {
            self.log(format!(
                "no room for the program of data source \"{}\", which nothing runs",
                source.name
            ));
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.producers.insert(number);
            session.instances.push(Instance {
                id: next,
                producer: number,
                wanted,
                state: InstanceState::Configured,
                source: source.name.clone(),
                notifies_start: source.notifies_start,
                notifies_stop: source.notifies_stop,
                clears_state: source.clears_state,
                is_flushed: source.is_flushed,
            });
        }
        let [setup, _] = commands::setup_and_start(next, &ProtoBuilder::new().fields(&config));
        self.command(number, setup, None);
        self.observe_instance(id, next);
        if is_started {
            self.start_instance(id, next);
        }
    }

    /// What a data source in this place of a session's is told, and the buffer that it goes to.
    fn config_of(&self, id: u64, wanted: usize) -> Option<(Vec<u8>, u16)> {
        let session = self.sessions.get(&id)?;
        let source = session.config.sources.get(wanted)?;
        let buffer = *session.buffers.get(source.buffer)?;
        Some((told(source, &session.config, id, buffer), buffer))
    }

    /// Gives a producer shared memory, unless it has some; false if there is none.
    fn give_memory(&mut self, id: u64, number: u16) -> bool {
        let (Some(session), Some(producer)) = (self.sessions.get(&id), self.producers.get_mut(&number))
        else {
            return false;
        };
        if producer.has_memory() {
            return true;
        }
        let (size, page) = producer.sizes(&session.config.producers);
        let shared = usize::try_from(size).ok().and_then(|size| self.host.share(size));
        let Some((shared, file)) = shared else {
            let line = format!("no memory to share with {}, which records nothing", producer.name());
            self.log(line);
            return false;
        };
        // At most 32 KiB.
        if !producer.set_memory(shared, page as u32) {
            self.actions.push(Action::Discard(file));
            return false;
        }
        self.command(number, commands::setup_tracing((page >> 10) as u32), Some(file));
        true
    }

    /// Starts one that is set up.
    pub(super) fn start_instance(&mut self, id: u64, instance: u64) {
        let Some(one) = self.instance(id, instance).filter(|one| one.state == InstanceState::Configured)
        else {
            return;
        };
        one.state = if one.notifies_start { InstanceState::Starting } else { InstanceState::Started };
        let (number, wanted, has_started) = (one.producer, one.wanted, !one.notifies_start);
        let Some((config, _)) = self.config_of(id, wanted) else { return };
        let [_, start] = commands::setup_and_start(instance, &ProtoBuilder::new().fields(&config));
        self.command(number, start, None);
        if has_started {
            self.observe_instance(id, instance);
        }
    }

    /// Stops one that runs, or is set up. It is told so at most once.
    pub(super) fn stop_instance(&mut self, id: u64, instance: u64, waits: bool) {
        use InstanceState::{Stopped, Stopping};
        let Some(one) = self.instance(id, instance).filter(|one| !matches!(one.state, Stopping | Stopped))
        else {
            return;
        };
        let is_over = !one.notifies_stop || !waits;
        one.state = if is_over { Stopped } else { Stopping };
        let number = one.producer;
        self.command(number, commands::stop(instance), None);
        if is_over {
            self.observe_instance(id, instance);
        }
    }

    pub(super) fn instance(&mut self, id: u64, instance: u64) -> Option<&mut Instance> {
        self.sessions.get_mut(&id)?.instance(instance)
    }

    /// The session and the data source of a producer with this number, if it is in that state.
    fn find_instance(
        &mut self,
        number: u16,
        instance: u64,
        state: InstanceState,
    ) -> Option<(u64, &mut Instance)> {
        self.sessions.iter_mut().find_map(|(id, session)| {
            let is_it = |one: &&mut Instance| (one.producer, one.state) == (number, state);
            Some((*id, session.instance(instance).filter(is_it)?))
        })
    }

    pub(super) fn instance_has_started(&mut self, number: u16, instance: u64) {
        let found = self.find_instance(number, instance, InstanceState::Starting);
        let Some((id, one)) = found else { return };
        one.state = InstanceState::Started;
        self.observe_instance(id, instance);
        self.look_whether_all_started(id);
    }

    pub(super) fn instance_has_stopped(&mut self, number: u16, instance: u64) {
        let found = self.find_instance(number, instance, InstanceState::Stopping);
        let Some((id, one)) = found else { return };
        one.state = InstanceState::Stopped;
        self.observe_instance(id, instance);
        self.look_whether_all_stopped(id);
    }

    /// A producer no longer has some data sources, which are told to stop if it is still there. Nothing waits for them.
    pub(super) fn withdraw(&mut self, number: u16, is_it: impl Fn(&String) -> bool, is_there: bool) {
        let is_gone = |one: &&Instance| one.producer == number && is_it(&one.source);
        let sessions: Vec<u64> = self.sessions.keys().copied().collect();
        for id in sessions {
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            if !is_there {
                session.producers.remove(&number);
            }
            let gone: Vec<u64> = session.instances.iter().filter(is_gone).map(|one| one.id).collect();
            for instance in &gone {
                if is_there {
                    self.stop_instance(id, *instance, false);
                }
                let running = self.instance(id, *instance).filter(|one| one.state != InstanceState::Stopped);
                if let Some(one) = running {
                    one.state = InstanceState::Stopped;
                    self.observe_instance(id, *instance);
                }
            }
            if !gone.is_empty() {
                self.sessions
                    .get_mut(&id)
                    .into_iter()
                    .for_each(|one| one.instances.retain(|of| !is_gone(&of)));
                self.look_whether_all_started(id);
                self.look_whether_all_stopped(id);
            }
        }
    }

    /// Lets producers repeat names and clocks.
    pub(super) fn clear_states(&mut self, id: u64) {
        let Some(session) = self.sessions.get(&id) else { return };
        let mut all: Vec<(u16, u64)> = session
            .instances
            .iter()
            .filter(|one| one.clears_state && one.state == InstanceState::Started)
            .map(|one| (one.producer, one.id))
            .collect();
        all.sort_unstable();
        for of_one in all.chunk_by(|one, other| one.0 == other.0) {
            if let Some((number, _)) = of_one.first() {
                let command = commands::clear_state(of_one.iter().map(|(_, instance)| *instance));
                self.command(*number, command, None);
            }
        }
    }

    /// Takes a session's buffers from those that producers may write to, and frees them.
    pub(super) fn free_buffers(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let numbers = core::mem::take(&mut session.buffers);
        for producer in self.producers.values_mut() {
            if let Some(allowed) = producer.allowed() {
                numbers.iter().for_each(|number| allowed.forbid(*number));
            }
        }
        numbers.into_iter().for_each(|number| _ = self.buffers.remove(number));
    }

    /// How long data sources of a session have to stop, in nanoseconds.
    pub(super) fn stop_timeout(&self, id: u64) -> u64 {
        self.sessions.get(&id).map_or(0, |session| session.config.stop_timeout_ms.saturating_mul(MS))
    }
}
