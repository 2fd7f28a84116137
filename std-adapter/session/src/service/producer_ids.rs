//! The numbers of producers, given out in turn.

use std::collections::HashSet;

use crate::limits::OWN_PRODUCER_ID;

/// Gives out numbers in turn, so that each one rests as long as possible before it is given out again.
#[derive(Default)]
pub(crate) struct ProducerIds {
    /// The number that was given out last.
    last: u16,
}

impl ProducerIds {
    /// The next one that is not taken; `None` if all are.
    pub(crate) fn next(&mut self, taken: &HashSet<u16>) -> Option<u16> {
        let last = self.last.max(OWN_PRODUCER_ID);
        let behind = (last..=u16::MAX).skip(1);
        let again = OWN_PRODUCER_ID + 1..=last;
        self.last = behind.chain(again).find(|id| !taken.contains(id))?;
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
    use tracebuf::service::{EndpointStats, FlushTracker, ProducerIdentity};

    use super::*;
    use crate::carry_over::CarryOver;
    use crate::files::OwnFiles;
    use crate::service::Service;
    use crate::transport::{CentralBuffer, Transport};
    use tracebuf_std::memory::PagedMemory;

    #[test]
    fn numbers_come_round_and_those_that_are_taken_are_left_out() {
        let mut ids = ProducerIds::default();
        let none = HashSet::new();
        assert_eq!([(); 2].map(|()| ids.next(&none)), [Some(2), Some(3)]);
        assert_eq!(ids.next(&HashSet::from([2, 4, 5])), Some(6));
        ids.last = u16::MAX - 2;
        let taken = HashSet::from([u16::MAX - 1, 2]);
        assert_eq!([(); 3].map(|()| ids.next(&taken)), [Some(u16::MAX), Some(3), Some(4)]);
        // All but one, which is the last one again; and all.
        assert_eq!(ids.next(&(0..=u16::MAX).filter(|id| *id != 4).collect()), Some(4));
        assert_eq!(ids.next(&(2..=u16::MAX).collect()), None);
        assert_eq!(ids.next(&none), Some(5));
    }

    /// A producer of this number that has sent a packet, and that goes or stays.
    struct One(u16, Arc<AtomicBool>, bool);

    impl Transport for One {
        fn drain(&mut self, buffers: &mut [CentralBuffer], flushes: &mut FlushTracker) {
            flushes.answer_all();
            if !std::mem::replace(&mut self.2, true) {
                let header = ChunkHeader { producer_id: self.0, fragments: 1, ..Default::default() };
                buffers[1].copy_chunk_untrusted(&Chunk { header, payload: b"\x02\x40\x05" });
            }
        }

        fn ask_flush(&mut self, _: u64) {}

        fn scrape(&mut self, _: &mut [CentralBuffer]) {}

        fn stats(&self) -> EndpointStats {
            EndpointStats::default()
        }

        fn identity(&self) -> Option<ProducerIdentity> {
            Some(ProducerIdentity { producer_id: self.0, uid: 0, pid: 0 })
        }

        fn is_connected(&self) -> bool {
            self.1.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn a_number_is_given_again_when_its_producer_has_gone_and_no_buffer_knows_it_any_more() {
        let config = Config::new(FillPolicy::RingBuffer).sequences(4);
        let size = config.region_size(4096) as usize;
        let buffer = || {
            let memory = PagedMemory::new(size).expect("memory");
            TraceBuffer::new(memory.into(), config).expect("room").observed_by(CarryOver::of_ring())
        };
        let mut service = Service::new(vec![buffer(), buffer()], OwnFiles::default(), None);
        let connected = Arc::new(AtomicBool::new(true));
        let come = |service: &mut Service, silent| {
            let id = service.new_producer_id().expect("a number");
            service.attach(Box::new(One(id, connected.clone(), silent)));
            service.drain();
            id
        };
        assert_eq!([false, true].map(|silent| come(&mut service, silent)), [2, 3]);
        let come_round = |service: &mut Service| {
            service.producer_ids.last = u16::MAX;
            service.new_producer_id()
        };
        assert_eq!(come_round(&mut service), Some(4), "both are there");
        connected.store(false, Ordering::Relaxed);
        service.drain();
        let read = |service: &mut Service| {
            let (mut reader, mut packets) = (service.buffers[1].read(), Vec::new());
            while let Some(packet) = reader.next_packet() {
                packets.push((packet.producer_id(), packet.loss().bits()));
            }
            packets
        };
        assert_eq!(come_round(&mut service), Some(3), "the other one's packet was not read");
        assert_eq!(read(&mut service), [(2, 0)]);
        assert_eq!(
            come_round(&mut service),
            Some(3),
            "what was read of it would be read as that of the next one"
        );
        // Others take its place in the table.
        for id in 10..14 {
            service.attach(Box::new(One(id, connected.clone(), false)));
        }
        service.drain();
        assert_eq!(read(&mut service), [10, 11, 12, 13].map(|id| (id, 0)));
        assert_eq!(come_round(&mut service), Some(2));
        // Its first chunk has the id of the one that was read.
        service.attach(Box::new(One(2, connected.clone(), false)));
        service.drain();
        assert!(matches!(read(&mut service)[..], [(2, _)]));
    }
}
