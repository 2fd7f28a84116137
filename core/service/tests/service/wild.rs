//! What clients do that none should: requests, memory and calls of anything.

use std::sync::atomic::Ordering;

use tracebuf::producer::{ChunkPatch, ChunkToMove, Request};
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_service::wire::frames::invoke;
use tracebuf_service::{ConnectionId, Event, FileToken, Port};

use super::clients::{Program, send};
use super::host::SharedWords;
use super::model::Choices;
use super::world::World;

/// Calls have numbers from here on.
const CALLS: u64 = 1 << 32;

/// A program changes its memory, or says something of it.
pub fn record(program: &mut Program, world: &mut World, random: &mut impl Choices) {
    let memory = world.files_for(program.connection).first().map(|file| world.memory_of(*file));
    let [writer_id, target] = [(); 2].map(|()| match random.below(17) {
        16 => u16::MAX,
        small => small as u16,
    });
    // The first buffer is the watched one's.
    let target = if random.below(2) == 0 { 1 } else { target };
    match (random.below(10), memory) {
        (0, Some(memory)) => store(&memory, random.below(1 << 16), &random.bytes(16)),
        (6..=9, Some(memory)) => chunk(program, world, random, &memory, writer_id, target),
        (1, _) => _ = program.try_to_say(world, Request::Register { writer_id, target }),
        (2 | 3, _) => _ = program.try_to_say(world, Request::Unregister { writer_id }),
        (4, _) => {
            let (page, chunk) = (random.below(65) as u32, random.below(16) as u32);
            program.try_to_say(world, Request::Move(ChunkToMove { page, chunk, target }));
        }
        (5, _) => {
            let (chunk_id, offset) = (random.below(16) as u32, random.below(64) as u16);
            let patch = ChunkPatch { chunk_id, offset, data: [random.below(256) as u8; 4] };
            let has_more = random.below(2) == 0;
            program.try_to_say(world, Request::Patch { writer_id, target, patch, has_more });
        }
        _ => {}
    }
}

fn store(memory: &SharedWords, at: u64, bytes: &[u8]) {
    for (word, at) in bytes.chunks(4).zip(at as usize..) {
        let mut value = [0; 4];
        value[..word.len()].copy_from_slice(word);
        memory[at % memory.len()].store(u32::from_le_bytes(value), Ordering::Relaxed);
    }
}

/// A page's only chunk, roughly as an honest writer leaves it, said to be for a buffer.
fn chunk(
    program: &mut Program,
    world: &mut World,
    random: &mut impl Choices,
    memory: &SharedWords,
    writer_id: u16,
    target: u16,
) {
    let (page, how) = (random.below(4), random.below(256) as u16);
    // A timestamp, or anything: what is none is not read.
    let packet = if random.below(2) == 0 { vec![0x40, 0x42] } else { random.bytes(32) };
    let header = [
        &(random.below(8) as u32).to_le_bytes()[..],
        &writer_id.to_le_bytes(),
        &(how & 3 | (how >> 2 & 7) << 10).to_le_bytes(),
        &[packet.len() as u8],
        &packet,
    ];
    store(memory, page * 1024 + 2, &header.concat());
    // One chunk, complete or being written.
    let state = if how & 0x20 == 0 { 3 } else { 1 };
    store(memory, page * 1024, &(1_u32 << 28 | state).to_le_bytes());
    if how & 0x40 == 0 {
        program.try_to_say(world, Request::Register { writer_id, target });
    }
    program.try_to_say(world, Request::Move(ChunkToMove { page: page as u32, chunk: 0, target }));
}

/// A page with one chunk, which is complete and has one packet.
pub fn whole_chunk(memory: &SharedWords, page: u64, writer_id: u16, packet: &[u8]) {
    let (len, count) = (packet.len() as u8, 1_u16);
    let header = [&[0; 4][..], &writer_id.to_le_bytes(), &count.to_le_bytes(), &[len], packet];
    store(memory, page * 1024 + 2, &header.concat());
    store(memory, page * 1024, &(1_u32 << 28 | 3).to_le_bytes());
}

/// One that sends any bytes, with a descriptor or without. It is another one, or the one that is given.
pub fn rubbish(
    connection: Option<ConnectionId>,
    world: &mut World,
    random: &mut impl Choices,
) -> (ConnectionId, Option<FileToken>) {
    let port = random.of(&[Port::Consumers, Port::Producers]);
    let connection = connection.unwrap_or_else(|| world.connect(port, 2));
    let file = (random.below(4) == 0).then(|| world.file());
    world.handle(Event::Received { connection, bytes: &random.bytes(64), file });
    (connection, file)
}

/// Any call with any arguments, whose number is returned if it must be answered.
pub fn call(connection: ConnectionId, world: &mut World, random: &mut impl Choices) -> Option<u64> {
    let (method, arguments) = (random.below(18), random.bytes(200));
    let request = CALLS + world.next_number();
    let arguments = ProtoBuilder::new().fields(&arguments);
    send(world, connection, &invoke(1, method, &arguments, Some(request)), None);
    // Their answers go on: commands of a service, and events.
    (![5, 11].contains(&method)).then_some(request)
}
