//! Reading, leases and clones, and which of their results must agree.

use super::World;
use crate::cost::{bounded, capacity};
use crate::memory::Memory;
use tracebuf::buffer::{DataLoss, Lease, Packet, Reader, TraceBuffer};

const MOST_LEASES: usize = 8;

/// A packet that was read: producer, writer, bytes, losses.
pub(super) type Read = (u16, u16, Vec<u8>, DataLoss);

pub(super) fn read(packet: &Packet<'_>) -> Read {
    let bytes = packet.slices().collect::<Vec<_>>().concat();
    assert_eq!(bytes.len(), packet.len());
    assert!(!bytes.is_empty() && packet.slices().all(|slice| !slice.is_empty()));
    assert!(packet.loss().is_empty() || packet.loss().contains(DataLoss::ANY));
    (packet.producer_id(), packet.writer_id(), bytes, packet.loss())
}

fn drain(mut reader: Reader<'_>) -> Vec<Read> {
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet() {
        packets.push(read(&packet));
    }
    assert!(reader.next_packet().is_none());
    packets
}

impl World {
    pub(super) fn read(&mut self, limit: u8, reject: u8) {
        let mut expected = self.read_clone(0);
        let limit = if limit == 255 { usize::MAX } else { usize::from(limit) };
        let session = |buffer: &mut TraceBuffer<Memory>| {
            let (mut packets, mut reader) = (Vec::new(), buffer.read());
            while packets.len() < limit {
                let Some(packet) = reader.next_packet().map(|packet| read(&packet)) else { break };
                packets.push(packet);
                if packets.len() == usize::from(reject) {
                    reader.reject_packet(DataLoss::CHUNK_CORRUPTED);
                }
            }
            packets
        };
        let packets = bounded(2 * capacity(&self.buffer), 0, || session(&mut self.buffer));
        if let Some(twin) = &mut self.twin {
            assert_eq!(session(twin), packets, "watching changes what is read");
        }
        expected.truncate(limit);
        let mark_of = packets.get(usize::from(reject).wrapping_sub(1)).map(|(p, w, _, _)| (*p, *w));
        if mark_of.is_none() {
            assert_eq!(packets, expected, "a clone reads differently");
        }
        for (i, (producer, id, bytes, loss)) in packets.into_iter().enumerate() {
            self.came_out(producer, id, &bytes, loss);
            if i + 1 == usize::from(reject) {
                self.unused(producer, id);
            }
        }
        if limit == usize::MAX {
            assert!(self.buffer.read().next_packet().is_none(), "a second session finds more");
            if let Some(twin) = &mut self.twin {
                assert!(twin.read().next_packet().is_none());
            }
        }
    }

    pub(super) fn came_out(&mut self, producer: u16, id: u16, bytes: &[u8], loss: DataLoss) {
        crate::trace(|| format!("    packet of writer {producer}/{id}, {} bytes, {loss}", bytes.len()));
        let evicted = self.kept || self.buffer.stats().chunks_overwritten > 0;
        if let Some(writer) = self.writers.get_mut(usize::from(id)).filter(|_| producer == 1) {
            writer.came_out(bytes, loss, evicted);
        }
    }

    pub(super) fn unused(&mut self, producer: u16, id: u16) {
        if let Some(writer) = self.writers.get_mut(usize::from(id)).filter(|_| producer == 1) {
            writer.unused();
        }
    }

    pub(super) fn lease(&mut self, limit: u8) {
        for _ in 0..limit % 8 {
            let mut expected = self.read_clone(0).into_iter();
            let lease = self.buffer.read().lease_packet();
            if let Some(twin) = &mut self.twin {
                assert_eq!(
                    twin.read().lease_packet().map(|lease| lease.len()),
                    lease.as_ref().map(Lease::len)
                );
            }
            let Some(lease) = lease else {
                assert!(expected.next().is_none());
                break;
            };
            let packet = self.buffer.leased(&lease).map(|packet| read(&packet)).expect("nothing came since");
            assert_eq!(Some(&packet), expected.next().as_ref());
            assert_eq!((lease.len(), lease.loss()), (packet.2.len(), packet.3));
            let (producer, id, bytes, loss) = packet.clone();
            self.came_out(producer, id, &bytes, loss);
            if self.leases.len() < MOST_LEASES {
                self.leases.push((lease, packet));
            }
        }
    }

    pub(super) fn give_up(&mut self, index: u8) {
        if self.leases.is_empty() {
            return;
        }
        let index = usize::from(index) % self.leases.len();
        let (lease, (producer, id, ..)) = self.leases.remove(index);
        let mut later: Vec<Lease> = self.leases[index..].iter().map(|(lease, _)| lease.clone()).collect();
        if let Some(twin) = &mut self.twin {
            twin.give_up(lease.clone(), DataLoss::OVERWRITE, &mut later.clone());
        }
        self.buffer.give_up(lease, DataLoss::OVERWRITE, &mut later);
        let mut told = 0;
        for ((held, packet), lease) in self.leases[index..].iter_mut().zip(later) {
            told += u32::from(packet.3 != lease.loss());
            assert!(
                packet.3 == lease.loss() || (packet.0, packet.1) == (producer, id),
                "another sequence's loss"
            );
            packet.3 = lease.loss();
            *held = lease;
        }
        assert!(told <= 1, "a loss told twice");
        if !self.leases[index..].iter().any(|(_, packet)| (packet.0, packet.1) == (producer, id)) {
            self.unused(producer, id);
        }
    }

    pub(super) fn check_leases(&self) {
        for (lease, packet) in &self.leases {
            if let Ok(now) = self.buffer.leased(lease) {
                assert_eq!(read(&now), *packet, "a lease gives another packet");
            }
        }
    }

    /// What a clone reads, while the original stays as it is.
    pub(super) fn read_clone(&mut self, offset: usize) -> Vec<Read> {
        let before = self.buffer.stats();
        // The size that a clone asks for includes 7 bytes for the worst alignment.
        let size = self.buffer.clone_size() - 7 + (8 - offset) % 8;
        assert!(self.buffer.clone_read_only(Memory::new(size - 1, offset)).is_err());
        let mut clone = self.buffer.clone_read_only(Memory::new(size, offset)).expect("room for the clone");
        assert!(clone.sequences().eq(self.buffer.sequences()));
        let mut stats = before;
        for counter in [
            &mut stats.bytes_read,
            &mut stats.chunks_read,
            &mut stats.readaheads_succeeded,
            &mut stats.readaheads_failed,
        ] {
            *counter = 0;
        }
        // A clone's size is that of its content.
        stats.buffer_size = clone.stats().buffer_size;
        assert_eq!(clone.stats(), stats);
        let packets = bounded(2 * capacity(&self.buffer), 0, || drain(clone.read()));
        assert!(clone.read().next_packet().is_none());
        let read = clone.stats();
        bounded(2 * capacity(&self.buffer), 0, || clone.stop_waiting());
        assert_eq!(clone.stats(), read);
        bounded(2 * capacity(&self.buffer), 0, || drain(clone.read()));
        assert!(clone.read().next_packet().is_none());
        assert_eq!(self.buffer.stats(), before);
        packets
    }
}
