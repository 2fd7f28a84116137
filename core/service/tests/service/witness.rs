//! A session that is watched: whatever others do, it has what its program wrote, and nobody else hears of that.

use std::collections::BTreeSet;

use tracebuf::producer::{Exhaustion, Layout, Producer, ProducerStorage, SharedMemory, TraceWriter};
use tracebuf::proto::fields::trace_packet;
use tracebuf_service::wire::commands::ServiceCommand;

use super::clients::{Consumer, Program, Said, config_of, data};
use super::world::World;

/// Nobody else is of this user.
const USER: u32 = 7000;
/// Is in each packet.
const SECRET: &[u8] = b"for nobody else";
/// Packets for which the buffer has room.
const MOST: u64 = 200;

pub struct Witness<'p> {
    program: Program,
    said: &'p Said,
    writer: TraceWriter<'p>,
    written: u64,
}

impl Witness<'_> {
    /// Its program writes a packet, and does what it is asked to.
    pub fn write(&mut self, world: &mut World) {
        if self.written < MOST {
            self.written += 1;
            let mut packet = self.writer.packet();
            packet.varint(trace_packet::TIMESTAMP, self.written);
            packet.bytes(900, SECRET);
            drop(packet);
            self.writer.flush();
            self.program.pass_on(world, self.said);
        }
        for command in self.program.commands(world) {
            if let ServiceCommand::Flush { request, .. } = command {
                self.program.answer(world, request);
            }
        }
    }
}

/// Others act, and the watched session is checked afterwards.
pub fn watched(world: &mut World, act: impl FnOnce(&mut World, &mut Witness<'_>)) {
    let mut program = Program::offering(world, USER, &[("watched", 0)]);
    let mut consumer = Consumer::of(world, USER);
    let enabled = consumer.enable(world, &config_of(&[256], &[("watched", 0)]));
    let [(_, buffer)] = program.starts(world)[..] else { panic!("it starts") };
    world.secret = Some((SECRET, BTreeSet::from([consumer.connection])));
    let memory = world.memory_of(world.files_for(program.connection)[0]);
    let storage = ProducerStorage::<256, 4>::on_heap().expect("room");
    let said = Said::default();
    let producer =
        Producer::new(SharedMemory::new(&memory, 4096).expect("pages"), Layout::One, &storage, &said)
            .expect("memory");
    let writer = producer.writer(buffer, Exhaustion::Drop).expect("one of four");
    let mut witness = Witness { program, said: &said, writer, written: 0 };
    act(world, &mut witness);
    assert_eq!(consumer.ended(world, enabled), None, "nobody else ends it");
    assert!(consumer.simple(world, "DisableTracing"));
    let expected: Vec<_> = (1..=witness.written).map(|time| (time, 2, 0)).collect();
    assert_eq!(data(&consumer.read(world)), expected);
    assert!(!world.closed.contains(&consumer.connection));
    world.hang_up(consumer.connection);
    world.hang_up(witness.program.connection);
}
