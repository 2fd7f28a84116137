//! Memory that does not keep what is written to it, as in a device that is failing: packets may be lost or wrong,
//! but nothing panics and everything ends.

use tracebuf::buffer::{
    Chunk, Config, DataLoss, FillPolicy, Lease, LeaseExpired, OverwriteObserver, Packet, Reader, TraceBuffer,
};
use tracebuf_conformance::random::cases::{count, first_seed};
use tracebuf_conformance::random::driver::patches_of;
use tracebuf_conformance::random::hostile;
use tracebuf_conformance::random::ops::{BufferOp, KeptPackets};
use tracebuf_conformance::random::rng::Rng;
use tracebuf_conformance::random::writers;
use zerocopy::IntoBytes;

/// One in so many accesses flips a bit somewhere.
struct Failing {
    words: Vec<u64>,
    rng: Rng,
    accesses_between_flips: usize,
}

impl AsRef<[u8]> for Failing {
    fn as_ref(&self) -> &[u8] {
        self.words.as_bytes()
    }
}

impl AsMut<[u8]> for Failing {
    fn as_mut(&mut self) -> &mut [u8] {
        if self.rng.below(self.accesses_between_flips) == 0 {
            let word = self.rng.below(self.words.len());
            self.words[word] ^= 1 << self.rng.below(64);
        }
        self.words.as_mut_bytes()
    }
}

struct Observer(KeptPackets);

impl OverwriteObserver for Observer {
    fn packet(&mut self, packet: &Packet<'_>) -> bool {
        self.0.keeps(packet.slices().next().and_then(|slice| slice.first()).copied().unwrap_or(0))
    }
}

/// Reads; a session on so small a ring gives no more packets than it has bytes.
fn read(mut reader: Reader<'_>, limit: Option<usize>, ring: u32) {
    let mut packets = 0;
    while limit != Some(packets) {
        let Some(packet) = reader.next_packet() else { return };
        let bytes: usize = packet.slices().map(<[u8]>::len).sum();
        assert!(bytes <= packet.len(), "slices of {bytes} bytes in a packet of {}", packet.len());
        let mut copy = vec![0; packet.len()];
        let _ = (packet.copy_to(&mut copy), packet.uid(), packet.pid());
        if packets % 4 == 3 {
            reader.reject_packet(DataLoss::CHUNK_CORRUPTED);
        }
        packets += 1;
        assert!(packets <= ring as usize, "a session that does not end");
    }
}

/// Looks at the packet that was leased earlier, if it is still there, and leases the next.
fn lease(buffer: &mut TraceBuffer<Failing>, held: &mut Option<Lease>) {
    let next = buffer.read().lease_packet();
    if let Some(lease) = std::mem::replace(held, next) {
        match buffer.leased(&lease) {
            Ok(packet) => drop(packet.slices().map(<[u8]>::to_vec).collect::<Vec<_>>()),
            Err(LeaseExpired) => buffer.give_up(lease, DataLoss::OVERWRITE, held.as_mut()),
        }
    }
}

fn apply(buffer: &mut TraceBuffer<Failing>, op: &BufferOp, ring: u32, held: &mut Option<Lease>) {
    match op {
        BufferOp::Commit { header, payload, keep, closure } => {
            let header = header.into();
            if *closure {
                let fill = |at: usize, to: &mut [u8]| to.copy_from_slice(&payload[at..at + to.len()]);
                buffer.commit_with_observed(&header, payload.len(), fill, &mut Observer(*keep));
            } else {
                buffer.copy_chunk_untrusted_observed(&Chunk { header, payload }, &mut Observer(*keep));
            }
        }
        BufferOp::Patch { key, chunk_id, patches, more } => {
            buffer.try_patch_chunk_contents(key.0, key.1, *chunk_id, &patches_of(patches), *more);
        }
        BufferOp::Read(None) => lease(buffer, held),
        BufferOp::Read(limit) => read(buffer.read(), *limit, ring),
        BufferOp::Clone => {
            let memory = vec![0; buffer.clone_size()];
            if let Ok(mut clone) = buffer.clone_read_only(memory) {
                read(clone.read(), None, ring);
            }
        }
    }
}

/// Looks at everything that can be looked at.
fn look_around(buffer: &mut TraceBuffer<Failing>, ring: u32) {
    let items = buffer.inspect().items().take(ring as usize + 1).count();
    assert!(items <= ring as usize, "a view that does not end");
    let _ = (buffer.stats(), buffer.policy(), buffer.check());
    assert!(buffer.sequences().count() <= 64, "no more sequences than the table has");
}

#[cfg_attr(not(feature = "crc"), allow(unused_variables))]
fn run(seed: u64, (ring, discard, table): (u32, bool, u16), ops: &[BufferOp], crc: bool) {
    let policy = if discard { FillPolicy::Discard } else { FillPolicy::RingBuffer };
    let config = Config::new(policy).sequences(table);
    #[cfg(feature = "crc")]
    let config = config.crc(crc);
    let words = vec![0; (config.region_size(ring) as usize).div_ceil(8)];
    let mut rng = Rng::new(seed);
    let accesses_between_flips = rng.pick(&[2, 5, 20]);
    let memory = Failing { words, rng, accesses_between_flips };
    let mut buffer = TraceBuffer::new(memory, config).expect("a region large enough");
    let mut held = None;
    for op in ops {
        apply(&mut buffer, op, ring, &mut held);
        if let BufferOp::Patch { key, .. } = op
            && seed % 4 == 1
        {
            buffer.end_producer(key.0);
        }
        // Every other time, also looking at everything on the way.
        if seed.is_multiple_of(2) {
            lease(&mut buffer, &mut held);
            look_around(&mut buffer, ring);
        }
    }
    look_around(&mut buffer, ring);
    read(buffer.read(), None, ring);
    if let Ok((mut attached, _)) = TraceBuffer::attach(buffer.into_memory()) {
        look_around(&mut attached, ring);
        read(attached.read(), None, ring);
    }
}

fn honest(seed: u64) {
    let (setup, ops, _) = writers::case(seed);
    run(seed, (setup.ring, setup.discard, setup.table), &ops, seed.is_multiple_of(3));
}

#[test]
fn work_of_honest_writers_on_failing_memory_ends_without_a_panic() {
    (first_seed()..first_seed() + count(2500)).for_each(honest);
}

#[test]
fn a_list_that_leads_back_to_an_erased_chunk_has_an_end() {
    // A link is flipped so that the eviction of a sequence would go in circles.
    honest(227);
}

#[test]
fn a_scraped_chunk_that_seems_to_begin_a_longer_packet_is_read_once() {
    // The flag for scraped chunks is flipped: the chunk stays after the packet that begins in it was read.
    honest(1163);
}

#[test]
fn hostile_work_on_failing_memory_ends_without_a_panic() {
    for seed in first_seed()..first_seed() + count(2500) {
        let (setup, ops) = hostile::case(seed, seed.is_multiple_of(2));
        run(seed, (setup.ring, setup.discard, setup.table), &ops, seed.is_multiple_of(3));
    }
}
