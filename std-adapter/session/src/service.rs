//! The service: the central buffers of a session, and the producers that fill them.

mod asked;
mod producer_ids;

use std::collections::{BTreeSet, HashSet};

use tracebuf::service::EndpointStats;

use asked::AskedProducer;
use producer_ids::ProducerIds;

use crate::files::OwnFiles;
use crate::limits::{BUFFERS_MAX, OWN_PRODUCER_ID};
use crate::region_file::OwnMark;
use crate::side_packets::SideData;
use crate::totals::{Dropped, Flushes, ProducerSummary, Totals, sum};
use crate::transport::{CentralBuffer, Transport};

/// The central buffers of a session, with everything that comes into them. Used by one thread at a time.
#[derive(Default)]
pub(crate) struct Service {
    pub(crate) buffers: Vec<CentralBuffer>,
    pub(crate) files: OwnFiles,
    pub(crate) side: SideData,
    producers: Vec<AskedProducer>,
    /// For each buffer: after how many bytes writers are to repeat their state, and how many it had the last time.
    states: Vec<(u32, u64)>,
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
        Self { states: bytes.iter().map(|bytes| (*bytes, 0)).collect(), ..self }
    }

    pub(crate) fn attach(&mut self, transport: Box<dyn Transport>) {
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
        if self.producers.len() > 1 {
            self.clear_states();
        }
    }

    /// Has writers repeat their state when a buffer has taken enough: each producer counts only what it records itself.
    fn clear_states(&mut self) {
        let mut is_due = false;
        for (buffer, (every, cleared_at)) in self.buffers.iter().zip(&mut self.states) {
            let written = buffer.stats().bytes_written;
            // With 0 each chunk begins with a state.
            if *every > 0 && written.saturating_sub(*cleared_at) >= u64::from(*every) {
                *cleared_at = written;
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
        let buffer =
            || TraceBuffer::new(PagedMemory::new(size).expect("memory").into(), config).expect("room");
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
