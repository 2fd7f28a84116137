//! Clients that do anything in any order: whatever they do, nobody waits for ever, and in the end nothing is left.

use tracebuf::proto::fields::config::{buffer_config, trace_config};
use tracebuf::proto::fields::consumer::{
    clone_session_response, observe_events_request, query_service_state_response, tracing_service_state,
};
use tracebuf::proto::reader::{message, messages, number};
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_service::wire::commands::ServiceCommand;
use tracebuf_service::{ConnectionId, Event, FileToken};

use crate::clients::{Consumer, Program, config_of, replies};
use crate::world::World;

struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

const SOURCES: [&str; 3] = ["a", "b", "c"];

#[derive(Default)]
struct Clients {
    consumers: Vec<(Consumer, Vec<u64>)>,
    programs: Vec<(Program, Vec<u64>, Vec<u64>)>,
    /// Descriptors that clients have sent.
    files: Vec<FileToken>,
    starts: Vec<u64>,
    /// Calls that ask for a clone.
    clones: Vec<(ConnectionId, u64)>,
}

impl Clients {
    fn config(random: &mut Random) -> (ProtoBuilder, bool) {
        let buffers = &[64, 16][..random.below(3) as usize];
        let sources: Vec<(&str, u32)> =
            (0..random.below(4)).map(|_| (random.of(&SOURCES), random.below(2) as u32)).collect();
        let mut config = config_of(buffers, &sources);
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
        (config, writes)
    }

    fn step(&mut self, world: &mut World, random: &mut Random) {
        let of =
            |len: usize, random: &mut Random| (len > 0).then(|| random.below(len.max(1) as u64) as usize);
        match random.below(20) {
            0 if self.consumers.len() < 8 => {
                self.consumers.push((Consumer::of(world, random.below(3) as u32), vec![]))
            }
            1 if self.programs.len() < 5 => {
                let mut program = Program::of(world, 1000, random.of(&["p", "q"]));
                if random.below(4) > 0 {
                    program.listen(world);
                }
                self.programs.push((program, vec![], vec![]));
            }
            2 if random.below(3) == 0 => {
                if let Some(at) = of(self.consumers.len(), random) {
                    let (consumer, _) = self.consumers.swap_remove(at);
                    world.hang_up(consumer.connection);
                }
            }
            3 if random.below(3) == 0 => {
                if let Some(at) = of(self.programs.len(), random) {
                    let (program, ..) = self.programs.swap_remove(at);
                    world.hang_up(program.connection);
                }
            }
            4 | 5 => world.pass(random.below(1500)),
            6..=9 => {
                if let Some(at) = of(self.programs.len(), random) {
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
                    match random.below(5) {
                        0 => program.offer(world, random.of(&SOURCES), random.below(8) as u32),
                        1 if !instances.is_empty() => program.has_started(world, random.of(instances)),
                        2 if !instances.is_empty() => program.has_stopped(world, random.of(instances)),
                        3 if !flushes.is_empty() => program.answer(world, random.of(flushes)),
                        _ => {}
                    }
                }
            }
            10 => world.files_are_stuck = random.below(2) == 0,
            11 => world.unstick_files(),
            _ => {
                if let Some(at) = of(self.consumers.len(), random) {
                    let (consumer, calls) = &mut self.consumers[at];
                    let call = match random.below(15) {
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
                        _ => Some(consumer.call(world, "GetTraceStats", &ProtoBuilder::new())),
                    };
                    calls.extend(call);
                }
            }
        }
    }
}

/// How many sessions and producers there are.
fn left(world: &mut World) -> (u64, usize) {
    let mut consumer = Consumer::of(world, 0);
    let request = consumer.call(world, "QueryServiceState", &ProtoBuilder::new());
    let answers = replies(world, consumer.connection, request);
    let state =
        message(&answers[0].2, query_service_state_response::SERVICE_STATE).expect("well-formed").to_vec();
    world.hang_up(consumer.connection);
    let sessions = number(&state, tracing_service_state::NUM_SESSIONS).expect("a number");
    (sessions, messages(&state, tracing_service_state::PRODUCERS).count())
}

#[test]
fn whatever_clients_do_everybody_is_answered_and_in_the_end_nothing_is_left() {
    let mut cloned = 0;
    for seed in 0..60 {
        let (mut world, mut random, mut clients) = (World::default(), Random(seed), Clients::default());
        if seed % 2 == 0 {
            world.can_compress(true, seed % 4 == 0);
        }
        for _ in 0..300 {
            clients.step(&mut world, &mut random);
        }
        world.unstick_files();
        // Sessions without a duration end here; producers answer nothing any more.
        for (consumer, _) in &mut clients.consumers {
            consumer.call(&mut world, "DisableTracing", &ProtoBuilder::new());
        }
        world.pass(10_000);
        for (consumer, calls) in &clients.consumers {
            let ends = |call: &&u64| {
                replies(&world, consumer.connection, **call).last().is_none_or(|(_, more, _)| *more)
            };
            let unanswered: Vec<_> = calls.iter().filter(ends).collect();
            assert!(unanswered.is_empty(), "seed {seed}: {unanswered:?}");
        }
        let is_cloned = |(connection, request): &&(ConnectionId, u64)| {
            let answers = replies(&world, *connection, *request);
            answers
                .first()
                .is_some_and(|(_, _, said)| number(said, clone_session_response::SUCCESS) == Some(1))
        };
        cloned += clients.clones.iter().filter(is_cloned).count();
        for (consumer, _) in clients.consumers.drain(..) {
            world.hang_up(consumer.connection);
        }
        for (program, ..) in clients.programs.drain(..) {
            world.hang_up(program.connection);
        }
        // Detached sessions may have no end of their own.
        world.handle(Event::End);
        world.pass(10_000);
        assert!(world.service.has_ended(), "seed {seed}");
        let detached = left(&mut world).0;
        assert_eq!((left(&mut world).1, world.service.wake_at()), (0, None), "seed {seed}");
        assert_eq!(detached, 0, "seed {seed}");
        for file in &clients.files {
            let is_closed = world.discarded.iter().filter(|closed| *closed == file).count();
            let is_complete = world.files.get(&file.0).is_some_and(|file| file.is_complete);
            assert_eq!(is_closed + usize::from(is_complete), 1, "seed {seed}: {file:?} is closed once");
        }
    }
    assert!(cloned > 20, "{cloned} sessions were cloned");
}
