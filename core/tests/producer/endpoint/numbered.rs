//! Buffers that come and go, with numbers of their own.

use super::{IDENTITY, World};
use std::collections::BTreeMap;
use tracebuf::buffer::{Config, FillPolicy, TraceBuffer, Unobserved};
use tracebuf::producer::{ChunkToMove, CommitRequest, Consumer};
use tracebuf::service::{AllowedBuffers, Buffers, EndpointState, ProducerEndpoint};

/// Those of all sessions, of which only some may be handed over.
struct Slab {
    all: BTreeMap<u16, TraceBuffer<Vec<u8>>>,
    only: Option<u16>,
}

impl Buffers for Slab {
    type Memory = Vec<u8>;
    type Observer = Unobserved;

    fn buffer(&mut self, number: u16) -> Option<&mut TraceBuffer<Vec<u8>>> {
        self.all.get_mut(&number).filter(|_| self.only.is_none_or(|only| only == number))
    }
}

#[derive(Default)]
struct Set(Vec<u16>);

impl AllowedBuffers for Set {
    fn allow(&mut self, number: u16) -> bool {
        self.0.push(number);
        true
    }

    fn has(&self, number: u16) -> bool {
        self.0.contains(&number)
    }

    fn for_each(&self, act: impl FnMut(u16)) {
        self.0.iter().copied().for_each(act);
    }
}

const NUMBERS: [u16; 3] = [7, 300, u16::MAX];

fn slab() -> Slab {
    let buffer = || TraceBuffer::new(vec![0; 8192], Config::new(FillPolicy::RingBuffer)).unwrap();
    Slab { all: NUMBERS.map(|number| (number, buffer())).into(), only: None }
}

fn written(slab: &Slab) -> [u64; 3] {
    NUMBERS.map(|number| slab.all.get(&number).map_or(0, |buffer| buffer.stats().chunks_written))
}

#[test]
fn a_producer_writes_to_the_numbers_that_it_may_and_to_no_other() {
    let (mut world, mut slab) = (World::new(), slab());
    let memory = world.memory;
    let known = EndpointState::<2, Set>::new(IDENTITY, Set(vec![300]));
    let mut endpoint = ProducerEndpoint::of(known, Consumer::new(memory));
    let mut move_to = |endpoint: &mut ProducerEndpoint<'_, 2, Set>, slab: &mut Slab, target| {
        let chunks_to_move = &[ChunkToMove { target, ..world.write() }];
        endpoint.carry_out(&CommitRequest { chunks_to_move, ..CommitRequest::default() }, slab);
    };
    for target in [7, 300, u16::MAX, 0, 299] {
        move_to(&mut endpoint, &mut slab, target);
    }
    assert_eq!((written(&slab), endpoint.stats().chunks_discarded), ([0, 1, 0], 4));
    // One that is no longer there, though it was allowed.
    slab.all.remove(&300);
    move_to(&mut endpoint, &mut slab, 300);
    assert_eq!(endpoint.stats().chunks_discarded, 5);
    // What is known stays while there is no endpoint, and can be changed.
    let mut known = endpoint.into_state();
    known.allowed_mut().0 = vec![7, u16::MAX];
    let mut endpoint = ProducerEndpoint::of(known, Consumer::new(memory));
    for target in NUMBERS {
        move_to(&mut endpoint, &mut slab, target);
    }
    assert_eq!((written(&slab), endpoint.stats().chunks_discarded), ([1, 0, 1], 6));
}

#[test]
fn a_scrape_leaves_alone_what_belongs_to_buffers_that_are_not_handed_over() {
    let (mut world, mut slab) = (World::new(), slab());
    let known = EndpointState::<2, Set>::new(IDENTITY, Set(NUMBERS.into()));
    let mut endpoint = ProducerEndpoint::of(known, Consumer::new(world.memory));
    assert!(endpoint.register_writer(world.writer.id(), 300));
    world.writer.packet().varint(8, 1);
    world.writer.packet().varint(8, 2);
    slab.only = Some(7);
    assert_eq!((endpoint.scrape(&mut slab), written(&slab)), (0, [0; 3]));
    slab.only = Some(300);
    assert_eq!((endpoint.scrape(&mut slab), written(&slab)), (1, [0, 1, 0]));
    slab.only = None;
    std::mem::forget(world.writer);
    endpoint.disconnect(&mut slab);
    let packets = slab.all.values_mut().map(|buffer| {
        let mut reader = buffer.read();
        std::iter::from_fn(|| reader.next_packet().map(|packet| packet.len())).count()
    });
    assert_eq!(packets.collect::<Vec<_>>(), [0, 2, 0]);
}

/// As many as a service of Perfetto's takes.
#[test]
#[cfg(feature = "alloc")]
fn a_producer_may_have_32767_writers_and_takes_memory_for_those_that_it_has() {
    let world = World::new();
    let mut slab = slab();
    let known = EndpointState::<32_767, Set>::new(IDENTITY, Set(vec![7]));
    let mut endpoint = ProducerEndpoint::of(known, Consumer::new(world.memory));
    assert!(size_of_val(&endpoint) < 512);
    // In an order that keeps none at its place.
    let taken = (1..=32_767).rev().filter(|writer| endpoint.register_writer(*writer, 7)).count();
    assert_eq!((taken, endpoint.register_writer(0, 7)), (32_767, false));
    endpoint.unregister_writer(5);
    assert!(endpoint.register_writer(0, 7), "in the place of the one that has ended");
    assert_eq!(endpoint.scrape(&mut slab), 0);
}
