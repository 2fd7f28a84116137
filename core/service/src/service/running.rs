//! How a session starts, goes and stops.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tracebuf::proto::fields::consumer::tracing_service_event as moment;

use super::Service;
use super::flushes::{Then, flags};
use super::timers::{MS, Timer};
use crate::host::Host;
use crate::sessions::{Instance, InstanceState, State};
use crate::wire::answers;

/// Nanoseconds after which it is said which data sources have not started.
const SLOW: u64 = 20_000 * MS;
/// Nanoseconds that programs have to answer when the service ends.
const LAST: u64 = 5_000 * MS;
/// Most of them that are logged.
const LOGGED: usize = 8;

impl<H: Host> Service<H> {
    /// A session is something else from now on, of which others' traces may tell.
    pub(super) fn set_state(&mut self, id: u64, state: State) {
        let now = self.host.clocks().boottime;
        let Some(mut session) = self.sessions.remove(&id) else { return };
        (session.state, session.since) = (state, now);
        self.sessions.values_mut().for_each(|other| other.note_other(id, &session));
        self.sessions.insert(id, session);
    }

    /// Says which data sources of a session have not started after some time, if its consumer does not know that all have.
    pub(super) fn look_whether_slow(&mut self, id: u64) {
        let clocks = self.host.clocks();
        let Some(session) = self.sessions.get(&id) else { return };
        if session.state != State::Started || session.consumer.is_none() || session.has_told_all_started {
            return;
        }
        let waits = |one: &&Instance| one.state != InstanceState::Started;
        let slow: Vec<(String, String)> =
            session.instances.iter().filter(waits).map(|one| self.named(one)).collect();
        for (producer, source) in slow.iter().take(LOGGED) {
            self.log(format!("{source} of {producer} has not started after 20 s, for session {id}"));
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.note_slow(moment::SLOW_STARTING_DATA_SOURCES, clocks.boottime, slow);
        }
    }

    /// The names of an instance's producer and of its data source.
    pub(super) fn named(&self, instance: &Instance) -> (String, String) {
        let producer = self.producers.get(&instance.producer).map_or("", |producer| producer.name());
        (producer.to_string(), instance.source.clone())
    }

    /// Lets all data sources of a session that is set up record.
    pub(super) fn start(&mut self, id: u64) {
        let clocks = self.host.clocks();
        let Some(session) = self.sessions.get_mut(&id).filter(|one| one.state == State::Configured) else {
            return;
        };
        session.started = Some(clocks);
        session.told.initial_clocks = Some(clocks);
        (session.told.marker_is_due, session.told.stats_are_due) = (true, true);
        session.note(moment::TRACING_STARTED, clocks.boottime, false);
        let config = &session.config;
        let periods = [
            (if session.file.is_some() { config.write_period_ms } else { 0 }, Timer::Write(id)),
            (config.flushing().1, Timer::PeriodicFlush(id)),
            (config.clear_period_ms, Timer::Clear(id)),
        ];
        let stops = config.triggers.as_ref().is_some_and(|triggers| !triggers.starts && !triggers.clones);
        // A trigger may have come before.
        let early = session.told.triggers.first().filter(|_| stops).map(|fired| fired.stop_delay_ms);
        let duration_ms = early.or((config.duration_ms != 0).then_some(config.duration_ms));
        let interval_ms = config.builtin.interval_ms;
        self.set_state(id, State::Started);
        self.set_timer(SLOW, Timer::SlowStart(id));
        let Some(session) = self.sessions.get(&id) else { return };
        let instances: Vec<u64> = session.instances.iter().map(|one| one.id).collect();
        if let Some(duration_ms) = duration_ms {
            self.end_after(id, duration_ms);
        }
        for (period, timer) in periods.into_iter().filter(|(period, _)| *period != 0) {
            self.set_periodic(period, timer);
        }
        self.set_snapshot(id, interval_ms);
        for instance in instances {
            self.start_instance(id, instance);
        }
        self.look_whether_all_started(id);
    }

    pub(super) fn look_whether_all_started(&mut self, id: u64) {
        let clocks = self.host.clocks();
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if session.state == State::Started && !session.has_told_all_started && session.are_all_started() {
            session.has_told_all_started = true;
            session.note(moment::ALL_DATA_SOURCES_STARTED, clocks.boottime, false);
            session.note_clocks(clocks);
            self.observe_all_started(id);
        }
    }

    pub(super) fn look_whether_all_stopped(&mut self, id: u64) {
        let Some(session) = self.sessions.get(&id) else { return };
        if session.state == State::Stopping && session.are_all_stopped() {
            self.disabled(id);
        }
    }

    /// Ends a session whose time is over: what producers have comes first.
    pub(super) fn flush_and_stop(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id).filter(|one| one.state == State::Started) else {
            return self.disable(id, true);
        };
        if !core::mem::replace(&mut session.is_ending, true) {
            self.flush(id, None, flags::STOP, Then::Stop);
        }
    }

    /// Stops a session, and waits for its data sources to say that they have if they are to be waited for.
    pub(super) fn disable(&mut self, id: u64, waits: bool) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let was = session.state;
        match was {
            State::Configured | State::Started => self.set_state(id, State::Stopping),
            State::Stopping if !waits => {}
            State::Stopping | State::Disabled | State::Cloned => return,
        }
        let waits = waits && was == State::Started;
        let Some(session) = self.sessions.get(&id) else { return };
        let instances: Vec<u64> = session.instances.iter().map(|one| one.id).collect();
        for instance in instances {
            self.stop_instance(id, instance, waits);
        }
        // It may have ended by a producer that took too much of what it is told.
        let Some(session) = self.sessions.get(&id).filter(|one| one.state == State::Stopping) else { return };
        if !waits || session.are_all_stopped() {
            self.disabled(id);
        } else {
            self.set_timer(self.stop_timeout(id), Timer::Stop(id));
        }
    }

    /// A session records no more: takes what is left in shared memory, and tells whoever waits.
    pub(super) fn disabled(&mut self, id: u64) {
        let clocks = self.host.clocks();
        self.scrape(id);
        self.set_state(id, State::Disabled);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let instances = &mut session.instances;
        let late: Vec<u64> = instances
            .iter_mut()
            .filter(|one| one.state != InstanceState::Stopped)
            .map(|one| {
                one.state = InstanceState::Stopped;
                one.id
            })
            .collect();
        if session.started.is_some() {
            session.note(moment::TRACING_DISABLED, clocks.boottime, false);
            session.note_clocks(clocks);
            session.told.stats_are_due = true;
        }
        let writes = session.file.is_some();
        late.into_iter().for_each(|instance| self.observe_instance(id, instance));
        self.forget_timers(id);
        if writes {
            // Whoever waits hears of the end when the file is complete.
            self.write_now(id);
        } else {
            self.say_that_it_ended(id);
        }
    }

    /// Answers the call by which a session came about.
    pub(super) fn say_that_it_ended(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some((connection, request)) = session.enabled_by.take() {
            let error = session.error.clone();
            self.answer_enable(connection, Some(request), error.as_deref());
        }
        if self.sessions.get(&id).is_some_and(|session| session.is_freed) {
            self.forget_session(id);
        } else if self.sessions.get(&id).is_some_and(|session| session.detached.is_some()) {
            // Nobody would free one that nobody attends to.
            self.free(id);
        }
    }

    pub(super) fn answer_enable(
        &mut self,
        connection: crate::host::ConnectionId,
        request: Option<u64>,
        error: Option<&str>,
    ) {
        self.reply(connection, request, &answers::ended(error));
    }

    /// Ends a session, and forgets it as soon as its file is complete.
    pub(super) fn free(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if let Some(connection) = session.consumer
            // One that was freed before, and whose file is complete only now, may have been followed by another.
            && let Some(one) = self.connections.get_mut(&connection)
            && one.consumer.session == Some(id)
        {
            one.consumer.session = None;
            self.readers.remove(&connection);
        }
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.is_freed = true;
        if !session.state.is_over() {
            self.disable(id, false);
        }
        if self.sessions.get(&id).is_some_and(|session| session.file.is_none()) {
            self.forget_session(id);
        }
    }

    fn forget_session(&mut self, id: u64) {
        if self.sessions.get(&id).is_some_and(|session| session.state == State::Cloned) {
            // Others' traces tell of its end.
            self.set_state(id, State::Disabled);
        }
        self.free_buffers(id);
        self.forget_timers(id);
        self.fail_flushes_of_session(id);
        self.writers.remove(&id);
        self.sessions.remove(&id);
    }

    pub(super) fn consumer_is_gone(&mut self, id: u64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.consumer = None;
            self.free(id);
        }
    }

    /// Completes all sessions: the service is to end.
    pub(super) fn end(&mut self) {
        self.is_ending = true;
        self.set_timer(LAST, Timer::End);
        let sessions: Vec<u64> = self.sessions.keys().copied().collect();
        for id in sessions {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.error.get_or_insert_with(|| "the tracing service has ended".to_string());
            }
            self.flush_and_stop(id);
        }
    }

    /// Ends sessions whose programs have not answered: files are to be complete before whoever wants the service to end
    /// kills it.
    pub(super) fn end_at_once(&mut self) {
        let sessions: Vec<u64> = self.sessions.keys().copied().collect();
        sessions.into_iter().for_each(|id| self.disable(id, false));
    }

    /// Ends a session because of an error, of which its consumer hears.
    pub(super) fn fail(&mut self, id: u64, error: String) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.error.get_or_insert(error);
        }
        self.disable(id, true);
    }
}
