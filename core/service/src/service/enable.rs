//! How a session comes about.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tracebuf::buffer::{Config, TraceBuffer};
use tracebuf::vm::RingVms;

use super::timers::{MS, Timer};
use super::{Service, make_room};
use crate::buffers::Buffer;
use crate::config::{BufferConfig, LONGEST, LONGEST_NAME, TraceConfig, cut};
use crate::filter::{Filtering, TraceFilter};
use crate::host::{Action, ConnectionId, FileToken, Host};
use crate::sessions::{OutputFile, Session, State};

/// Most sessions, and of those of one user.
const MOST_SESSIONS: usize = 15;
const MOST_OF_A_USER: usize = 5;
/// Nanoseconds between the beginnings of sessions with guardrails and the same name.
const BETWEEN: u64 = 300_000 * MS;
/// Most names of these that are known.
const MOST_GUARDED: usize = 1024;
/// Sequences of a buffer of some size, unless it has 2 KiB for each of more. What a table takes comes on top of what was
/// asked for: 48 bytes each.
const SEQUENCES: u32 = 4096;
const BYTES_OF_A_SEQUENCE: u32 = 2048;
/// Bytes that a chunk has more in a buffer than in shared memory, where 8 of a page are taken too.
const OF_A_CHUNK: u32 = 24;

impl<H: Host> Service<H> {
    /// Makes a session of a config, or says why there can be none.
    pub(super) fn enable(
        &mut self,
        connection: ConnectionId,
        request: Option<u64>,
        config: &[u8],
        file: Option<FileToken>,
    ) {
        let mut file = file;
        let made = self.new_session(connection, request, config, &mut file);
        self.actions.extend(file.map(Action::Discard));
        let id = match made {
            Ok(id) => id,
            Err(mut error) => {
                // It may repeat what is longer than an answer.
                cut(&mut error, LONGEST_NAME);
                self.log(format!("a session is refused: {error}"));
                return self.answer_enable(connection, request, Some(&error));
            }
        };
        self.set_up_all(id);
        let Some(session) = self.sessions.get(&id) else { return };
        let starter = session.config.triggers.as_ref().filter(|triggers| triggers.starts);
        match starter.map(|triggers| triggers.timeout_ms) {
            Some(timeout) => self.set_timer(timeout.saturating_mul(MS), Timer::Trigger(id)),
            // No session lasts longer, and this one has not even begun.
            None if session.config.is_deferred => {
                self.set_timer(LONGEST.saturating_mul(MS), Timer::Trigger(id))
            }
            None => self.start(id),
        }
    }

    fn new_session(
        &mut self,
        connection: ConnectionId,
        request: Option<u64>,
        config: &[u8],
        file: &mut Option<FileToken>,
    ) -> Result<u64, String> {
        let Some(one) = self.connections.get(&connection) else { return Err("nobody wants it".to_string()) };
        let has_session = one.consumer.session.is_some() || self.clones.contains_key(&connection);
        let uid = one.peer.uid;
        if has_session {
            return Err("A consumer can have only one session at a time".to_string());
        }
        if self.is_ending {
            return Err("The service is ending".to_string());
        }
        let mut config = TraceConfig::of(config)?;
        let of_sources = config.sources.iter().flat_map(|source| &source.producer_patterns);
        let of_triggers = config.triggers.iter().flat_map(|all| &all.triggers).map(|one| &one.producers);
        for pattern in of_sources.chain(of_triggers) {
            self.host.matches(pattern, "").map_err(|error| format!("Invalid pattern {pattern}: {error}"))?;
        }
        let filter = self.make_filter(&config)?;
        self.check_guardrails(&config)?;
        self.check_count(uid)?;
        let has_name = |session: &Session| {
            session.config.name == config.name && session.state != State::Cloned && !session.is_freed
        };
        if !config.name.is_empty() && self.sessions.values().any(has_name) {
            return Err(format!("A trace with this unique session name ({}) already exists", config.name));
        }
        self.check_exclusive(&config, uid)?;
        if config.exclusive == 0 {
            self.check_semaphores(&config)?;
        }
        if config.writes_file && file.is_some() != config.output_path.is_empty() {
            return Err("write_into_file takes a file descriptor or an output_path, and not both".to_string());
        }
        if let Some(codecs) = &config.codecs {
            config.codec = codecs.iter().copied().find(|codec| self.host.compress(*codec, &[]).is_some());
            if config.codec.is_none() {
                self.log("a trace that was to be compressed is written without".to_string());
            }
        }
        if config.uuid == [0; 2] {
            config.uuid = [self.host.random(), self.host.random()];
        }
        let buffers = self.make_buffers(&config)?;
        let output = match (config.writes_file, config.output_path.is_empty()) {
            (false, _) => None,
            (true, true) => file.take(),
            (true, false) => match self.host.create(&config.output_path, uid) {
                Ok(created) => Some(created),
                Err(error) => {
                    buffers.into_iter().for_each(|number| _ = self.buffers.remove(number));
                    return Err(format!("Cannot create {}: {error}", config.output_path));
                }
            },
        };
        if config.exclusive > 0 {
            self.end_others();
        }
        if let Some(locks) = config.locks.filter(|locks| *locks != self.is_locked) {
            self.is_locked = locks;
            let whose = if locks { "of the service's user alone" } else { "of all users" };
            self.log(format!("producers {whose} are served from now on, as user {uid} wants"));
        }
        if config.guardrails {
            make_room(&mut self.guarded, &config.name, MOST_GUARDED, |began| Some(*began));
            self.guarded.insert(config.name.clone(), self.now);
        }
        self.last.session += 1;
        let id = self.last.session;
        let mut session = Session::new(uid, connection, request, config, buffers);
        session.file = output.map(OutputFile::new);
        session.filter = filter;
        self.sessions.iter().for_each(|(other, beside)| session.note_other(*other, beside));
        self.sessions.insert(id, session);
        self.set_state(id, State::Configured);
        if let Some(one) = self.connections.get_mut(&connection) {
            one.consumer.session = Some(id);
        }
        Ok(id)
    }

    /// The filter of a config, if it has one.
    pub(super) fn make_filter(&mut self, config: &TraceConfig) -> Result<Option<Box<Filtering>>, String> {
        let mut compile = |pattern: &str, find| self.host.pattern(pattern, find);
        let filter = config.filter.as_deref().map(|filter| TraceFilter::of(filter, &mut compile));
        Ok(filter.transpose()?.map(Filtering::new).map(Box::new))
    }

    /// A user may have as many clones as there can be sessions: a bug report takes one of each at once.
    pub(super) fn check_clones(&self, uid: u32) -> Result<(), String> {
        let is_its = |session: &&Session| session.uid == uid && session.state == State::Cloned;
        let clones = self.sessions.values().filter(is_its).count() + self.being_cloned(uid);
        if clones >= MOST_SESSIONS {
            return Err(format!("Too many clones of tracing sessions ({clones}) for uid {uid}"));
        }
        Ok(())
    }

    /// What is being cloned for a user takes memory already.
    fn being_cloned(&self, uid: u32) -> usize {
        let is_its = |connection| self.connections.get(connection).is_some_and(|one| one.peer.uid == uid);
        self.clones.keys().filter(|connection| is_its(*connection)).count()
    }

    /// There may be so many sessions, and so many of a user.
    fn check_count(&self, uid: u32) -> Result<(), String> {
        let its = self.sessions.values().filter(|session| session.uid == uid).count();
        let of_user = its + self.being_cloned(uid);
        // Clones of some are not to keep others from recording, nor files that take no more.
        let counts = |session: &&Session| session.state != State::Cloned && !session.is_freed;
        let all = self.sessions.values().filter(counts).count();
        if of_user >= MOST_OF_A_USER {
            return Err(format!("Too many concurrent tracing sessions ({of_user}) for uid {uid}"));
        }
        if all >= MOST_SESSIONS {
            return Err(format!("Too many concurrent tracing sessions ({all})"));
        }
        Ok(())
    }

    /// Sessions that are to be uploaded come with some time between them, by their names.
    fn check_guardrails(&mut self, config: &TraceConfig) -> Result<(), String> {
        let now = self.now;
        self.guarded.retain(|_, began| now.saturating_sub(*began) < BETWEEN);
        if config.guardrails && self.guarded.contains_key(&config.name) {
            return Err(format!("Guardrail: a session named \"{}\" began less than 300 s ago", config.name));
        }
        Ok(())
    }

    /// A session begins beside so many others with the same semaphore as each of them allows.
    fn check_semaphores(&self, config: &TraceConfig) -> Result<(), String> {
        for (name, most) in &config.semaphores {
            let others = self.sessions.values().filter(|session| !session.state.is_over());
            let limits = others.filter_map(|session| {
                session.config.semaphores.iter().find(|(other, _)| other == name).map(|(_, most)| *most)
            });
            let (count, most) = limits.fold((0, *most), |(count, least), most| (count + 1, least.min(most)));
            if count > most {
                return Err(format!("Semaphore \"{name}\": {count} other sessions have it, {most} may"));
            }
        }
        Ok(())
    }

    /// Beside an exclusive session there is none, unless a more important one ends it.
    fn check_exclusive(&self, config: &TraceConfig, uid: u32) -> Result<(), String> {
        if config.exclusive > 0 && uid != 0 && uid != self.host.machine().uid {
            return Err("Exclusive sessions are for root and the service's own user".to_string());
        }
        let others = self.sessions.values().filter(|session| !session.state.is_over());
        match others.map(|session| session.config.exclusive).max() {
            Some(most) if most > 0 && config.exclusive <= most => {
                Err(format!("An exclusive session of priority {most} is there"))
            }
            _ => Ok(()),
        }
    }

    /// Ends all sessions: an exclusive one begins.
    fn end_others(&mut self) {
        let others: Vec<u64> = self.sessions.keys().copied().collect();
        for id in others {
            if let Some(session) = self.sessions.get_mut(&id).filter(|one| !one.state.is_over()) {
                session.error.get_or_insert_with(|| "An exclusive session has ended this one".to_string());
                self.disable(id, false);
            }
        }
    }

    fn make_buffers(&mut self, config: &TraceConfig) -> Result<Vec<u16>, String> {
        let mut numbers = Vec::new();
        for buffer in &config.buffers {
            let made = self.make_buffer(buffer, config.builtin.histograms);
            let Some(number) = made.and_then(|buffer| self.buffers.insert(buffer)) else {
                numbers.into_iter().for_each(|number| _ = self.buffers.remove(number));
                return Err(format!("No memory for a buffer of {} KiB", buffer.size_kb));
            };
            numbers.push(number);
        }
        Ok(numbers)
    }

    pub(super) fn make_buffer(
        &mut self,
        buffer: &BufferConfig,
        histograms: bool,
    ) -> Option<Buffer<H::Memory>> {
        let bytes = u32::try_from(buffer.size_kb << 10).ok()?;
        // Small ones have room for few sequences anyhow.
        let sequences = SEQUENCES.min((bytes >> 8).max(64)).max(bytes / BYTES_OF_A_SEQUENCE);
        let sequences = u16::try_from(sequences).unwrap_or(u16::MAX);
        let config = Config::new(buffer.policy).sequences(sequences).histograms(histograms);
        // A buffer as large as a page takes the only chunk of one.
        let ring = bytes.saturating_add(OF_A_CHUNK);
        let memory = self.host.memory(usize::try_from(config.region_size(ring)).ok()?)?;
        TraceBuffer::new(memory, config).ok().map(|buffer| buffer.observed_by(RingVms::default()))
    }

    /// Takes over filters of producers, and sets up what they let in now.
    pub(super) fn change_config(&mut self, id: u64, config: &[u8]) -> bool {
        let Ok(new) = TraceConfig::of(config) else { return false };
        for pattern in new.sources.iter().flat_map(|source| &source.producer_patterns) {
            if self.host.matches(pattern, "").is_err() {
                return false;
            }
        }
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        if !matches!(session.state, State::Configured | State::Started) {
            return false;
        }
        for source in &mut session.config.sources {
            if let Some(new) = new.sources.iter().find(|new| new.name == source.name) {
                source.producers.clone_from(&new.producers);
                source.producer_patterns.clone_from(&new.producer_patterns);
            }
        }
        self.set_up_all(id);
        true
    }
}
