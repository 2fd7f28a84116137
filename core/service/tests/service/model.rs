//! Clients that do anything in any order, and what must be so whatever they do: everybody is answered, numbers are not
//! given twice, memory adds up, and nothing is left.

use tracebuf::proto::fields::config::{
    buffer_config, builtin_data_source, trace_config, trace_filter, trigger, trigger_config,
};
use tracebuf::proto::fields::consumer::{clone_session_response, observe_events_request};
use tracebuf::proto::fields::ipc::initialize_connection_request::PRODUCER_PROVIDED_SHMEM;
use tracebuf::proto::fields::ipc::{activate_triggers_request, method};
use tracebuf::proto::reader::number;
use tracebuf_service::wire::commands::ServiceCommand;
use tracebuf_service::wire::{ProtoBuilder, program};
use tracebuf_service::{ConnectionId, Event, FileToken};

use super::clients::{Consumer, Program, config_of, replies, source_with};
use super::known::KnownSessions;
use super::wild;
use super::world::World;

const SOURCES: [&str; 3] = ["a", "b", "c"];

/// What clients do next: numbers that look random, or an input's.
pub trait Choices {
    fn below(&mut self, most: u64) -> u64;

    fn bytes(&mut self, most: usize) -> Vec<u8>;

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

#[derive(Default)]
pub struct Clients {
    /// Users that consumers have; two more follow.
    first_user: u32,
    pub consumers: Vec<(Consumer, Vec<u64>)>,
    pub programs: Vec<(Program, Vec<u64>, Vec<u64>)>,
    /// Calls that may say anything.
    wild: Vec<(ConnectionId, u64)>,
    /// Consumers that have detached a session, or tried to.
    leavers: Vec<ConnectionId>,
    /// Connections to which anything is sent.
    rubbish: Vec<ConnectionId>,
    known: KnownSessions,
    /// Descriptors that clients have sent.
    files: Vec<FileToken>,
    starts: Vec<u64>,
    /// Calls that ask for a clone.
    clones: Vec<(ConnectionId, u64)>,
}

/// A filter that leaves the times and sequences of packets.
const TIMES_ALONE: [u8; 11] = [11, 1, 0, 65, 81, 0, 191, 209, 155, 196, 3];

impl Clients {
    /// Whose consumers are of this user and of the two that follow.
    pub fn of(first_user: u32) -> Self {
        Self { first_user, ..Self::default() }
    }

    fn config(random: &mut impl Choices) -> (ProtoBuilder, bool) {
        let buffers = &[64, 16][..random.below(3) as usize];
        let mut config = config_of(buffers, &[]);
        for _ in 0..random.below(4) {
            let source = source_with(random.of(&SOURCES), random.below(2) as u32, Some(4));
            config = config.message(trace_config::DATA_SOURCES, &source);
        }
        if random.below(2) == 0 {
            let buffer = ProtoBuilder::new()
                .number(buffer_config::SIZE_KB, 32_u32)
                .number(buffer_config::TRANSFER_ON_CLONE, random.below(2))
                .number(buffer_config::CLEAR_BEFORE_CLONE, random.below(2));
            config = config.message(trace_config::BUFFERS, &buffer);
        }
        let writes = random.below(3) == 0;
        config = config.number(trace_config::WRITE_INTO_FILE, writes);
        for (field, most) in [
            (trace_config::DURATION_MS, 3000),
            (trace_config::DEFERRED_START, 1),
            (trace_config::FLUSH_PERIOD_MS, 1000),
            (trace_config::FLUSH_TIMEOUT_MS, 900),
            (trace_config::DATA_SOURCE_STOP_TIMEOUT_MS, 900),
            (trace_config::MAX_FILE_SIZE_BYTES, 4000),
            (trace_config::WRITE_FLUSH_MODE, 3),
            (trace_config::EXCLUSIVE_PRIO, 1),
            (trace_config::COMPRESSION_TYPE, 1),
        ] {
            if random.below(3) == 0 {
                config = config.number(field, random.below(most + 1));
            }
        }
        if random.below(4) == 0 {
            let bytecode = if random.below(4) == 0 { random.bytes(12) } else { TIMES_ALONE.to_vec() };
            let filter = ProtoBuilder::new().bytes(trace_filter::BYTECODE_V2, &bytecode);
            config = config.message(trace_config::TRACE_FILTER, &filter);
        }
        if random.below(4) == 0 {
            let one = |name: &str, delay: u64, most: u64| {
                ProtoBuilder::new()
                    .bytes(trigger::NAME, name.as_bytes())
                    .number(trigger::STOP_DELAY_MS, delay)
                    .number(trigger::MAX_PER_24_H, most)
            };
            let triggers = ProtoBuilder::new()
                .number(trigger_config::TRIGGER_MODE, random.of(&[1_u32, 2, 4]))
                .number(trigger_config::TRIGGER_TIMEOUT_MS, random.below(3000) + 1)
                .message(trigger_config::TRIGGERS, &one("a", random.below(900), 0))
                .message(trigger_config::TRIGGERS, &one("b", random.below(900), random.below(3)));
            config = config.message(trace_config::TRIGGER_CONFIG, &triggers);
        }
        if random.below(3) == 0 {
            let others = builtin_data_source::ENABLE_CONCURRENT_SESSION_EVENTS;
            let builtin = ProtoBuilder::new().number(others, true);
            config = config.message(trace_config::BUILTIN_DATA_SOURCES, &builtin);
        }
        (config, writes)
    }

    pub fn step(&mut self, world: &mut World, random: &mut impl Choices) {
        match random.below(27) {
            0 if self.consumers.len() < 8 => {
                self.consumers.push((Consumer::of(world, self.first_user + random.below(3) as u32), vec![]))
            }
            1 if self.programs.len() < 5 => {
                let mut program = if random.below(4) > 0 {
                    Program::of(world, 1000, random.of(&["p", "q"]))
                } else {
                    let file = world.memory(4096 << random.below(6));
                    let hello = program::hello("r", 0, 0).number(PRODUCER_PROVIDED_SHMEM, true);
                    Program::with_hello(world, 1000, &hello, Some(file))
                };
                if random.below(4) > 0 {
                    program.listen(world);
                }
                self.programs.push((program, vec![], vec![]));
            }
            2 if random.below(3) == 0 => {
                if let Some(at) = place(self.consumers.len(), random) {
                    let (consumer, _) = self.consumers.swap_remove(at);
                    world.hang_up(consumer.connection);
                }
            }
            3 if random.below(3) == 0 => {
                if let Some(at) = place(self.programs.len(), random) {
                    let (program, ..) = self.programs.swap_remove(at);
                    world.hang_up(program.connection);
                }
            }
            4 | 5 => world.pass(random.below(1500)),
            6..=9 => {
                if let Some(at) = place(self.programs.len(), random) {
                    let (program, instances, flushes) = &mut self.programs[at];
                    for command in program.commands(world) {
                        match command {
                            ServiceCommand::Start { instance, .. } => {
                                assert!(!self.starts.contains(&instance), "no number is given twice");
                                self.starts.push(instance);
                                instances.push(instance);
                            }
                            ServiceCommand::Flush { request, .. } => flushes.push(request),
                            _ => {}
                        }
                    }
                    match random.below(8) {
                        5 => fire(program, world, random),
                        6 => {
                            let name = ProtoBuilder::new().bytes(1, random.of(&SOURCES).as_bytes());
                            program.call(world, method::UNREGISTER_DATA_SOURCE, &name);
                        }
                        7 => program.listen(world),
                        0 => program.offer(world, random.of(&SOURCES), random.below(16) as u32),
                        1 if !instances.is_empty() => program.has_started(world, random.of(instances)),
                        2 if !instances.is_empty() => program.has_stopped(world, random.of(instances)),
                        3 if !flushes.is_empty() => program.answer(world, random.of(flushes)),
                        _ => {}
                    }
                }
            }
            10 => world.files_are_stuck = random.below(2) == 0,
            11 => world.unstick_files(),
            20..=22 => {
                if let Some(at) = place(self.programs.len(), random) {
                    wild::record(&mut self.programs[at].0, world, random);
                }
            }
            23 => {
                let (consumers, programs) = (self.consumers.iter(), self.programs.iter());
                let connections = consumers.map(|(one, _)| one.connection);
                let connections: Vec<_> =
                    connections.chain(programs.map(|(one, ..)| one.connection)).collect();
                if let Some(at) = place(connections.len(), random) {
                    let call = wild::call(connections[at], world, random);
                    self.wild.extend(call.map(|call| (connections[at], call)));
                }
            }
            24 => {
                if let Some(at) = place(self.consumers.len(), random) {
                    world.stick(self.consumers[at].0.connection, random.below(2) == 0);
                }
            }
            26 => {
                let one = self.rubbish.get(random.below(3) as usize).copied();
                let (connection, file) = wild::rubbish(one, world, random);
                if one.is_none() {
                    self.rubbish.push(connection);
                }
                self.files.extend(file);
            }
            25 => {
                if let Some(at) = place(self.files.len(), random).filter(|_| random.below(4) == 0) {
                    world.fail(self.files[at]);
                }
            }
            _ => {
                if let Some(at) = place(self.consumers.len(), random) {
                    let (consumer, calls) = &mut self.consumers[at];
                    let call = match random.below(17) {
                        0..=2 => {
                            let (config, writes) = Self::config(random);
                            let file = (writes || random.below(8) == 0).then(|| world.file());
                            self.files.extend(file);
                            Some(consumer.enable_with(world, &config, file))
                        }
                        3 => Some(consumer.call(world, "DisableTracing", &ProtoBuilder::new())),
                        4 => Some(consumer.call(world, "StartTracing", &ProtoBuilder::new())),
                        5 => Some(consumer.call(world, "Flush", &ProtoBuilder::new())),
                        6 => Some(consumer.call(world, "FreeBuffers", &ProtoBuilder::new())),
                        7 | 8 => Some(consumer.call(world, "ReadBuffers", &ProtoBuilder::new())),
                        9 => {
                            let key = ProtoBuilder::new().bytes(1, random.of(&["x", "y", ""]).as_bytes());
                            let name = random.of(&["Attach", "Detach"]);
                            if name == "Detach" {
                                self.leavers.push(consumer.connection);
                            }
                            Some(consumer.call(world, name, &key))
                        }
                        10 => {
                            let kind = observe_events_request::EVENTS_TO_OBSERVE;
                            let kinds = ProtoBuilder::new().number(kind, random.below(4));
                            // Its answers go on.
                            consumer.call(world, "ObserveEvents", &kinds);
                            None
                        }
                        11 | 12 => {
                            // Sessions have small numbers, and some of these are clones.
                            let id = ProtoBuilder::new().number(1, random.below(10));
                            let file = (random.below(2) == 0).then(|| world.file());
                            self.files.extend(file);
                            let request = consumer.call_with(world, "CloneSession", &id, file);
                            self.clones.push((consumer.connection, request));
                            Some(request)
                        }
                        13 => {
                            let id = random.below(40).to_string();
                            let id = ProtoBuilder::new().bytes(1, id.as_bytes());
                            Some(consumer.call(world, "StopTracebufSession", &id))
                        }
                        14 => Some(consumer.call(world, "QueryServiceState", &ProtoBuilder::new())),
                        15 => {
                            let (config, _) = Self::config(random);
                            let config = ProtoBuilder::new().message(1, &config);
                            Some(consumer.call(world, "ChangeTraceConfig", &config))
                        }
                        _ => Some(consumer.call(world, "GetTraceStats", &ProtoBuilder::new())),
                    };
                    calls.extend(call);
                }
            }
        }
    }

    /// Looks at what consumers are shown, by root and by a user.
    pub fn audit(&mut self, world: &mut World) {
        // Some buffers may have been copied for a clone that is not there yet.
        let is_there = |of: &ConnectionId| self.consumers.iter().any(|(one, _)| one.connection == *of);
        let waits = |(connection, request): &(ConnectionId, u64)| {
            is_there(connection) && replies(world, *connection, *request).is_empty()
        };
        let may_clone = !self.wild.is_empty() || self.clones.iter().any(waits);
        self.known.check(world, may_clone);
    }

    /// All end; returns how many sessions were cloned.
    pub fn finish(mut self, world: &mut World) -> usize {
        world.unstick_files();
        // Sessions without a duration end here; producers answer nothing any more.
        for (consumer, _) in &mut self.consumers {
            world.stick(consumer.connection, false);
            consumer.call(world, "DisableTracing", &ProtoBuilder::new());
        }
        world.pass(10_000);
        let waits = |world: &World, connection, call| {
            !world.closed.contains(&connection)
                && replies(world, connection, call).last().is_none_or(|(_, more, _)| *more)
        };
        let all_are_answered = |world: &World, but: &[ConnectionId]| {
            for (consumer, calls) in self.consumers.iter().filter(|(of, _)| !but.contains(&of.connection)) {
                let mut calls = calls.iter();
                assert_eq!(calls.find(|call| waits(world, consumer.connection, **call)), None);
            }
        };
        // Who says anything may have sessions that take as long as they like, and who leaves one may have one without end.
        let wild: Vec<_> = self.wild.iter().map(|(connection, _)| *connection).collect();
        all_are_answered(world, &[&wild[..], &self.leavers].concat());
        let is_cloned = |(connection, request): &&(ConnectionId, u64)| {
            let answers = replies(world, *connection, *request);
            let said = answers.first().map(|(_, _, said)| number(said, clone_session_response::SUCCESS));
            said == Some(Some(1))
        };
        let cloned = self.clones.iter().filter(is_cloned).count();
        // Detached sessions may have no end of their own.
        world.handle(Event::End);
        world.pass(10_000);
        if !self.wild.is_empty() {
            // Longer than any time that a config can name.
            world.pass(60 * 24 * 3_600_000);
        }
        all_are_answered(world, &wild);
        let is_here = |connection: &ConnectionId| {
            self.consumers.iter().any(|(one, _)| one.connection == *connection)
                || self.programs.iter().any(|(one, ..)| one.connection == *connection)
        };
        for (connection, call) in self.wild.iter().filter(|(connection, _)| is_here(connection)) {
            assert!(!waits(world, *connection, *call), "{connection} has an answer to {call}");
        }
        for (consumer, _) in self.consumers.drain(..) {
            world.hang_up(consumer.connection);
        }
        self.rubbish.drain(..).for_each(|connection| world.hang_up(connection));
        for (program, ..) in self.programs.drain(..) {
            world.hang_up(program.connection);
        }
        assert!(world.service.has_ended());
        for file in &self.files {
            let is_closed = world.discarded.iter().filter(|closed| *closed == file).count();
            let is_complete = world.files.get(&file.0).is_some_and(|file| file.is_complete);
            assert_eq!(is_closed + usize::from(is_complete), 1, "{file:?} is closed once");
        }
        cloned
    }
}

/// A program fires triggers, of which nothing lists the last.
fn fire(program: &mut Program, world: &mut World, random: &mut impl Choices) {
    let names = ProtoBuilder::new()
        .each(0..random.below(4), |all, _| all.bytes(activate_triggers_request::TRIGGER_NAMES, b"a"));
    let name = random.of(&["a", "b", "c"]);
    let names = names.bytes(activate_triggers_request::TRIGGER_NAMES, name.as_bytes());
    program.call(world, method::ACTIVATE_TRIGGERS, &names);
}

fn place(len: usize, random: &mut impl Choices) -> Option<usize> {
    (len > 0).then(|| random.below(len.max(1) as u64) as usize)
}
