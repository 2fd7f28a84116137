//! Patches that are sent, or carried out, when their writer has written thousands of further chunks: more than a buffer
//! searches for the right one.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use tracebuf::buffer::{Config, FillPolicy, TraceBuffer, WALK_LIMIT};
use tracebuf::producer::*;
use tracebuf::service::{ProducerEndpoint, ProducerIdentity};

use crate::model::memory;

/// Keeps requests. One of them can be kept from ending, as by a full socket.
struct Queue {
    requests: Mutex<Vec<Request>>,
    hold: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl CommitSink for Queue {
    fn commit(&self, request: &CommitRequest<'_>) {
        if let Some((begun, end)) = self.hold.lock().unwrap().take() {
            begun.send(()).unwrap();
            end.recv().unwrap();
        }
        self.requests.lock().unwrap().extend(request.each());
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        self.requests.lock().unwrap().push(Request::Register { writer_id, target });
    }
}

struct World {
    queue: &'static Queue,
    producer: &'static Producer<'static>,
    writer: TraceWriter<'static>,
    endpoint: ProducerEndpoint<'static, 4>,
    buffers: [TraceBuffer<Vec<u8>>; 1],
}

const CHUNKS: u64 = WALK_LIMIT as u64 + 500;

impl World {
    fn new() -> Self {
        // Fourteen chunks a page, and half as many again as are written.
        let memory = memory(4096 * (CHUNKS as usize * 3 / 2 / 14), 4096);
        let queue = Box::leak(Box::new(Queue { requests: Mutex::default(), hold: Mutex::default() }));
        let storage = Box::leak(Box::new(ProducerStorage::<{ CHUNKS as usize * 3 / 2 }, 4>::new()));
        let producer = Box::leak(Box::new(Producer::new(memory, Layout::Fourteen, storage, queue).unwrap()));
        let identity = ProducerIdentity { producer_id: 1, uid: 0, pid: 2 };
        let mut endpoint = ProducerEndpoint::new(Consumer::new(memory), identity);
        endpoint.allow(0);
        let config = Config::new(FillPolicy::RingBuffer);
        let buffer = TraceBuffer::new(vec![0; config.region_size(8 << 20) as usize], config).unwrap();
        let writer = producer.writer(0, Exhaustion::Drop).unwrap();
        World { queue, producer, writer, endpoint, buffers: [buffer] }
    }

    /// A packet over several chunks, whose size comes in patches.
    fn write_long(&mut self) {
        self.writer.packet().message(900).bytes(1, &[7; 1000]);
    }

    fn write_chunk(&mut self) {
        let chunks = self.writer.stats().chunks;
        while self.writer.stats().chunks == chunks {
            self.writer.packet().bytes(900, &[10; 100]);
        }
    }

    fn carry_out(&mut self, requests: &[Request]) {
        for request in requests {
            let _ = self.endpoint.carry_out_one(request, &mut self.buffers);
        }
    }

    fn requests(&self) -> Vec<Request> {
        self.producer.commit();
        std::mem::take(&mut *self.queue.requests.lock().unwrap())
    }

    /// All that was written and not dropped comes out, whole, and no patch was in vain.
    fn check(mut self) {
        let stats = self.writer.stats();
        drop(self.writer);
        let left = std::mem::take(&mut *self.queue.requests.lock().unwrap());
        for request in &left {
            let _ = self.endpoint.carry_out_one(request, &mut self.buffers);
        }
        let (mut packets, mut gaps) = (0, 0);
        let mut reader = self.buffers[0].read();
        while let Some(packet) = reader.next_packet() {
            packets += 1;
            gaps += u64::from(!packet.loss().is_empty());
        }
        assert_eq!(
            (packets, gaps),
            (stats.packets - stats.dropped, 0),
            "what was dropped the writer tells itself"
        );
        assert_eq!(self.buffers[0].stats().patches_failed, 0);
    }
}

/// A patch that is in the queue when a scrape comes.
#[cfg_attr(miri, ignore = "many chunks, and nothing unsafe")]
#[test]
fn a_scrape_leaves_chunks_near_enough_for_patches_that_are_on_their_way() {
    for committed in [0, 1, 2] {
        let mut world = World::new();
        world.write_long();
        (0..CHUNKS).for_each(|_| world.write_chunk());
        let requests = world.requests();
        assert!(requests.len() > 5);
        // The registration, and that many chunks; patches follow the first two.
        let (done, left) = requests.split_at(1 + committed);
        world.carry_out(done);
        if committed > 0 {
            // Some of the first one's patches have come: there are more.
            let first = left.iter().find_map(|request| match *request {
                Request::Patch { writer_id, target, patch, .. } => {
                    Some(Request::Patch { writer_id, target, patch, has_more: true })
                }
                _ => None,
            });
            world.carry_out(first.as_slice());
        }
        let scraped = [(); 2].map(|()| world.endpoint.scrape(&mut world.buffers));
        assert!((900..1024).contains(&scraped[0]) && scraped[1] <= 5, "{scraped:?}");
        world.carry_out(left);
        assert!(world.endpoint.stats().chunks_scraped_before > 900);
        // Nothing is waited for any more.
        (0..CHUNKS / 2).for_each(|_| world.write_chunk());
        assert!(world.endpoint.scrape(&mut world.buffers) >= CHUNKS / 2);
        world.check();
    }
}

/// What a producer that is gone left behind is scraped, however much it is.
#[cfg_attr(miri, ignore = "many chunks, and nothing unsafe")]
#[test]
fn of_a_producer_that_is_gone_all_is_scraped() {
    let mut world = World::new();
    world.write_long();
    (0..CHUNKS).for_each(|_| world.write_chunk());
    let requests = world.requests();
    world.carry_out(&requests[..1]);
    assert!(world.endpoint.disconnect(&mut world.buffers) >= CHUNKS);
}

/// A patch that cannot be sent, because another thread's sending does not end.
#[cfg_attr(miri, ignore = "many chunks, and nothing unsafe")]
#[test]
fn a_writer_does_not_go_on_beyond_the_reach_of_patches_that_nobody_has_sent() {
    let mut world = World::new();
    world.write_chunk();
    let ((begun, has_begun), (end, ends)) = (channel(), channel());
    *world.queue.hold.lock().unwrap() = Some((begun, ends));
    let chunks = std::thread::scope(|scope| {
        scope.spawn(|| world.producer.commit());
        has_begun.recv().unwrap();
        world.write_long();
        let long = world.writer.stats().chunks;
        while world.writer.stats().dropped == 0 && world.writer.stats().chunks < CHUNKS {
            world.writer.packet().bytes(900, &[10; 100]);
        }
        end.send(()).unwrap();
        world.writer.stats().chunks - long
    });
    assert!((3_000..=u64::from(TraceWriter::MAX_PATCHED)).contains(&chunks), "{chunks}");
    assert_eq!((world.writer.stats().dropped, world.writer.stats().over_limit), (1, 0));
    world.write_chunk();
    world.check();
}
