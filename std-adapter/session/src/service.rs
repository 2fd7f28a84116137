//! The service: the central buffers of a session, and the producers that fill them.

mod asked;
mod producer_ids;

use std::collections::{BTreeSet, HashSet};

use tracebuf::buffer::OverwriteObserver;
use tracebuf::service::EndpointStats;

use asked::AskedProducer;
use producer_ids::ProducerIds;

use crate::clock_pairs::ClockPairs;
use crate::files::OwnFiles;
use crate::limits::{BUFFERS_MAX, OWN_PRODUCER_ID};
use crate::region_file::OwnMark;
use crate::side_packets::SideData;
use crate::totals::{Dropped, Flushes, ProducerSummary, Totals, sum};
use crate::transport::{CentralBuffer, Transport};

/// When the writers of a buffer are to repeat their state.
#[derive(Clone, Copy, Debug, Default)]
struct StateRenewal {
    /// After how many bytes; with 0 each chunk begins with a state.
    every: u32,
    /// How many bytes the buffer had taken the last time, and how many chunks it had overwritten.
    bytes: u64,
    overwritten: u64,
}

/// Of a ring that overwrites what was not read, states are this part of its size apart: what follows the gap cannot be
/// read before the next one.
const PARTS_IN_GAP: u64 = 32;

/// The central buffers of a session, with everything that comes into them. Used by one thread at a time.
#[derive(Default)]
pub(crate) struct Service {
    pub(crate) buffers: Vec<CentralBuffer>,
    pub(crate) files: OwnFiles,
    pub(crate) side: SideData,
    pub(crate) clocks: ClockPairs,
    producers: Vec<AskedProducer>,
    /// For each buffer: when writers are to repeat their state.
    states: Vec<StateRenewal>,
    /// Whether what rings overwrite is missing in a file, in which what follows is to be readable.
    is_read_out: bool,
    /// For each buffer: how many bytes it had been given when rests of packets were last looked for.
    scraped_at: Vec<u64>,
    producer_ids: ProducerIds,
    /// Counts of producers that are gone.
    past: EndpointStats,
    past_dropped: Dropped,
    past_claimed: u64,
    seen: u64,
    flushes: Flushes,
    flush: u64,
    pub(crate) invalid_packets: u64,
    /// For the shared memory of this process's threads, if that lies in a file.
    own_memory: Option<OwnMark>,
}

impl Service {
    pub(crate) fn new(buffers: Vec<CentralBuffer>, files: OwnFiles, own_memory: Option<OwnMark>) -> Self {
        Self { buffers, files, own_memory, ..Self::default() }
    }

    pub(crate) fn state_every(self, bytes: &[u32]) -> Self {
        let renewal = |every: &u32| StateRenewal { every: *every, ..StateRenewal::default() };
        Self { states: bytes.iter().map(renewal).collect(), ..self }
    }

    /// What the buffers take goes into a file, from which nothing that is overwritten before that is to be missing.
    pub(crate) fn read_out(self, is_read_out: bool) -> Self {
        Self { is_read_out, ..self }
    }

    pub(crate) fn attach(&mut self, transport: Box<dyn Transport>) {
        if let Some(identity) = transport.identity() {
            let observers = self.buffers.iter_mut().map(CentralBuffer::observer_mut);
            observers.for_each(|observer| observer.leave_vms(identity.producer_id));
        }
        self.producers.push(AskedProducer::new(transport, self.flush));
        self.seen += 1;
    }

    pub(crate) fn new_producer_id(&mut self) -> Option<u16> {
        let in_buffers = self.buffers.iter().flat_map(CentralBuffer::sequences);
        let mut taken: HashSet<u16> = in_buffers.map(|sequence| sequence.producer_id).collect();
        let identities = self.transports().filter_map(|transport| transport.identity());
        taken.extend(identities.map(|identity| identity.producer_id));
        self.producer_ids.next(&taken)
    }

    /// Carries out what producers have asked for so far.
    pub(crate) fn drain(&mut self) {
        let (buffers, past, past_dropped) = (&mut self.buffers[..], &mut self.past, &mut self.past_dropped);
        let past_claimed = &mut self.past_claimed;
        self.producers.retain_mut(|producer| {
            let AskedProducer { transport, flushes, .. } = producer;
            transport.drain(buffers, flushes);
            let connected = transport.is_connected();
            if !connected {
                // Its last packets are not lost.
                transport.disconnect(buffers);
                *past = sum(*past, transport.stats());
                add_dropped(past_dropped, transport.as_ref());
                *past_claimed = past_claimed.saturating_add(claimed(transport.as_ref()));
            }
            connected
        });
        self.clear_states();
        self.scrape_in_time();
    }

    /// Gets the rest of packets whose beginnings a ring would soon overwrite: a thread may rest within a chunk for long,
    /// and what such a packet means for others could not be carried over.
    fn scrape_in_time(&mut self) {
        self.scraped_at.resize(self.buffers.len(), 0);
        let mut is_due = false;
        for (buffer, scraped_at) in self.buffers.iter().zip(&mut self.scraped_at) {
            let stats = buffer.stats();
            if buffer.observer().looks()
                && stats.bytes_written.saturating_sub(*scraped_at) >= stats.buffer_size / 4
            {
                *scraped_at = stats.bytes_written;
                is_due = true;
            }
        }
        if is_due {
            for AskedProducer { transport, .. } in &mut self.producers {
                transport.scrape_rests(&mut self.buffers);
            }
        }
    }

    /// Has writers repeat their state when a buffer has taken enough (each producer counts only what it records itself),
    /// and sooner while it loses what was not read.
    fn clear_states(&mut self) {
        let (mut is_due, several) = (false, self.producers.len() > 1);
        for (buffer, renewal) in self.buffers.iter_mut().zip(&mut self.states) {
            let stats = buffer.stats();
            let since = stats.bytes_written.saturating_sub(renewal.bytes);
            let is_time = several && since >= u64::from(renewal.every);
            let has_gap = self.is_read_out
                && stats.chunks_overwritten != renewal.overwritten
                && since >= stats.buffer_size / PARTS_IN_GAP;
            let is_lacking = buffer.observer().lacks_states() && since >= stats.buffer_size / 4;
            if renewal.every > 0 && (is_time || has_gap || is_lacking) {
                buffer.observer_mut().wait_for_states();
                (renewal.bytes, renewal.overwritten) = (stats.bytes_written, stats.chunks_overwritten);
                is_due = true;
            }
        }
        if is_due {
            self.transports_mut().for_each(|transport| transport.clear_incremental_state());
        }
    }

    /// Asks producers to send what they have. Returns the number of this flush, for [`end_flush`](Self::end_flush).
    pub(crate) fn begin_flush(&mut self) -> u64 {
        self.flush += 1;
        self.producers.iter_mut().for_each(|producer| producer.ask(self.flush));
        self.drain();
        self.flush
    }

    /// Asks producers that have answered everything, for a flush that nothing waits for.
    pub(crate) fn ask_flush_of_idle(&mut self) {
        self.flush += 1;
        let idle = self.producers.iter_mut().filter(|producer| producer.flushes.is_idle());
        idle.for_each(|producer| producer.ask(self.flush));
        self.drain();
    }

    pub(crate) fn is_flushed(&self, flush: u64) -> bool {
        self.producers.iter().all(|producer| producer.has_answered(flush))
    }

    /// Gets what has not come; false if a producer did not answer in time.
    pub(crate) fn end_flush(&mut self, flush: u64) -> bool {
        let all = self.is_flushed(flush);
        self.producers.iter_mut().for_each(|producer| producer.end_flush(flush));
        self.scrape();
        self.flushes.count(all);
        all
    }

    pub(crate) fn scrape(&mut self) {
        for AskedProducer { transport, .. } in &mut self.producers {
            transport.scrape(&mut self.buffers);
        }
    }

    /// After the last flush. What packets still wait for will not come, so these are given up.
    pub(crate) fn end(&mut self) {
        if let Some(mark) = &self.own_memory {
            // Before the buffers end their sequences: recovery could bring nothing into ended ones.
            mark.end();
        }
        for buffer in &mut self.buffers {
            let producers: BTreeSet<u16> = buffer.sequences().map(|sequence| sequence.producer_id).collect();
            producers.into_iter().for_each(|producer| buffer.end_producer(producer));
        }
        self.transports_mut().for_each(|transport| transport.end());
    }

    fn transports(&self) -> impl Iterator<Item = &dyn Transport> {
        self.producers.iter().map(|producer| producer.transport.as_ref())
    }

    fn transports_mut(&mut self) -> impl Iterator<Item = &mut Box<dyn Transport>> {
        self.producers.iter_mut().map(|producer| &mut producer.transport)
    }

    pub(crate) fn producers(&self) -> impl Iterator<Item = ProducerSummary> {
        self.producers.iter().map(|producer| {
            let transport = &producer.transport;
            ProducerSummary {
                identity: transport.identity(),
                has_answered: !producer.is_late(),
                packets_dropped: all_dropped(transport.as_ref()),
                endpoint: transport.stats(),
            }
        })
    }

    pub(crate) fn totals(&self) -> Totals {
        let endpoints = self.transports().fold(self.past, |all, transport| sum(all, transport.stats()));
        let mut dropped = self.past_dropped;
        self.transports().for_each(|transport| add_dropped(&mut dropped, transport));
        let claimed = self.transports().map(claimed).fold(self.past_claimed, u64::saturating_add);
        Totals {
            dropped,
            claimed,
            producers_connected: u32::try_from(self.producers.len()).unwrap_or(u32::MAX),
            producers_seen: self.seen,
            endpoints,
            invalid_packets: self.invalid_packets,
            flushes: self.flushes,
        }
    }
}

/// Packets that a producer has given up, in all buffers.
fn all_dropped(transport: &dyn Transport) -> u64 {
    // A producer elsewhere may say anything.
    (0..BUFFERS_MAX).map(|buffer| transport.packets_dropped(buffer)).fold(0, u64::saturating_add)
}

/// The same, if nobody else can know: those of this process's threads are counted here.
fn claimed(transport: &dyn Transport) -> u64 {
    let is_own = transport.identity().is_some_and(|identity| identity.producer_id == OWN_PRODUCER_ID);
    if is_own { 0 } else { all_dropped(transport) }
}

fn add_dropped(dropped: &mut Dropped, transport: &dyn Transport) {
    for (buffer, count) in dropped.0.iter_mut().enumerate() {
        // A producer elsewhere may say anything.
        *count = count.saturating_add(transport.packets_dropped(buffer));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
    use tracebuf::service::FlushTracker;

    use super::*;
    use crate::carry_over::CarryOver;
    use tracebuf_std::memory::PagedMemory;

    /// A producer that counts how often it was asked to repeat its state.
    struct Counts(Arc<AtomicU32>);

    impl Transport for Counts {
        fn drain(&mut self, _: &mut [CentralBuffer], flushes: &mut FlushTracker) {
            flushes.answer_all();
        }

        fn ask_flush(&mut self, _: u64) {}

        fn scrape(&mut self, _: &mut [CentralBuffer]) {}

        fn stats(&self) -> EndpointStats {
            EndpointStats::default()
        }

        fn clear_incremental_state(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn several_producers_are_asked_for_their_states_once_for_so_many_bytes_in_a_buffer() {
        let config = Config::new(FillPolicy::RingBuffer).sequences(4);
        let size = config.region_size(1 << 16) as usize;
        let buffer = || {
            let memory = PagedMemory::new(size).expect("memory");
            TraceBuffer::new(memory.into(), config).expect("room").observed_by(CarryOver::of_ring())
        };
        let every = 4096;
        // In the first one, each chunk begins with a state.
        let mut service =
            Service::new(vec![buffer(), buffer()], OwnFiles::default(), None).state_every(&[0, every]);
        let asked = [(); 2].map(|()| Arc::<AtomicU32>::default());
        let mut chunk_id = 0;
        let mut fill = |service: &mut Service, buffer: usize, bytes: u64| {
            let end = service.buffers[buffer].stats().bytes_written + bytes;
            while service.buffers[buffer].stats().bytes_written < end {
                assert!(chunk_id < 10_000, "chunks are written");
                let header = ChunkHeader {
                    producer_id: 2,
                    chunk_id,
                    fragments: 1,
                    complete: true,
                    ..Default::default()
                };
                service.buffers[buffer].copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x05" });
                chunk_id += 1;
            }
            service.drain();
            service.drain();
        };
        service.attach(Box::new(Counts(asked[0].clone())));
        fill(&mut service, 0, u64::from(every));
        fill(&mut service, 1, u64::from(every));
        let counts = || asked.each_ref().map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts(), [0, 0], "one alone knows how much it records");
        service.attach(Box::new(Counts(asked[1].clone())));
        service.drain();
        service.drain();
        assert_eq!(counts(), [1, 1]);
        fill(&mut service, 0, u64::from(every));
        fill(&mut service, 1, u64::from(every) / 2);
        assert_eq!(counts(), [1, 1]);
        fill(&mut service, 1, u64::from(every) / 2);
        assert_eq!(counts(), [2, 2]);
    }
}
