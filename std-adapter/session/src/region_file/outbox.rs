//! The transfer of packets from a buffer in a file into a long trace's file, through slots.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};

use memmap2::MmapMut;

use super::memory::{Control, copy_used};
use super::{ABOUT, NO_OFFSET, WORD};

pub(crate) struct Outbox {
    control: Arc<Control>,
    /// The second half, which keeps what the buffer held while packets are consumed from it.
    copy: MmapMut,
    free: Receiver<Result<Slot, Unwritten>>,
    /// Bytes to read at once.
    pub(crate) limit: usize,
    count: u64,
}

/// A slot's bytes could not be written, and remain in it.
struct Unwritten;

pub(crate) struct Slot {
    index: usize,
    map: MmapMut,
    len: usize,
    control: Arc<Control>,
    back: Sender<Result<Slot, Unwritten>>,
}

impl Outbox {
    pub(super) fn new(control: Arc<Control>, copy: MmapMut, slots: Vec<MmapMut>, limit: usize) -> Self {
        let (back, free) = channel();
        for (map, index) in slots.into_iter().zip(0..) {
            Slot { index, map, len: 0, control: control.clone(), back: back.clone() }.give_back();
        }
        Self { control, copy, free, limit, count: 0 }
    }

    pub(crate) fn free_slot(&self) -> Option<Slot> {
        self.free.try_recv().ok().and_then(Result::ok)
    }

    /// Waits for a free slot; `None` if there will never be one.
    pub(crate) fn wait_for_slot(&self) -> Option<Slot> {
        self.free.recv().ok().and_then(Result::ok)
    }

    /// Begins a transfer: copies what the buffer holds into the second half, and makes that the valid one. Packets may
    /// then be consumed from the buffer; call [`publish`](Self::publish) before anything else is done to it.
    pub(crate) fn begin(&mut self, buffer: &[u8]) {
        copy_used(buffer, &mut self.copy);
        // A killed process leaves a prefix of its stores; this keeps the compiler from changing their order.
        self.control.word(WORD).fetch_or(u64::to_le(1), Ordering::SeqCst);
    }

    /// Ends the transfer: makes the buffer, and the slot with what was consumed, valid by one store.
    pub(crate) fn publish(&mut self, slot: Option<&Slot>) {
        let mut change = 1;
        if let Some(slot) = slot {
            self.count += 1;
            let about = ABOUT + 24 * slot.index;
            self.control.set(about, slot.len as u64);
            self.control.set(about + 8, NO_OFFSET);
            self.control.set(about + 16, self.count);
            change |= 2 << slot.index;
        }
        // The file's thread may free another slot at the same time. Bit 0 was set, and this slot's was not.
        self.control.word(WORD).fetch_xor(u64::to_le(change), Ordering::SeqCst);
    }
}

impl Slot {
    /// Puts in all of the bytes, or none if they are too many.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> bool {
        match self.map.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.len = bytes.len();
                true
            }
            None => false,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.map.get(..self.len).unwrap_or_default()
    }

    /// Says where in the file the bytes will be.
    pub(crate) fn goes_to(&self, at: u64) {
        self.control.word(ABOUT + 24 * self.index + 8).store(at.to_le(), Ordering::SeqCst);
    }

    /// Called when the bytes are in the file.
    pub(crate) fn written(self) {
        self.control.word(WORD).fetch_and(u64::to_le(!(2 << self.index)), Ordering::SeqCst);
        self.give_back();
    }

    /// Returns a slot that nobody used.
    pub(crate) fn give_back(self) {
        let back = self.back.clone();
        // If nobody is there to take it, it is not needed.
        let _ = back.send(Ok(self));
    }

    /// Called when the bytes will not be in the file: they stay here, to be recovered.
    pub(crate) fn give_up(self) {
        let _ = self.back.send(Err(Unwritten));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};

    use crate::region_file::{RegionSpec, create, parse};

    /// The packets of the valid half and of the slots, as a kill at this moment leaves them, and how many slots.
    fn left(path: &Path) -> (Vec<u8>, usize) {
        let file = std::fs::read(path).expect("the file");
        let contents = parse(&file).expect("no damage").expect("a buffer");
        let mut packets: Vec<u8> = contents.slots.iter().flat_map(|slot| slot.bytes.clone()).collect();
        let (mut buffer, _) = TraceBuffer::attach(contents.region).expect("a region");
        packets.extend(read(&mut buffer));
        (packets, contents.slots.len())
    }

    /// The last byte of each packet.
    fn read<M: AsRef<[u8]> + AsMut<[u8]>>(buffer: &mut TraceBuffer<M>) -> Vec<u8> {
        let (mut packets, mut reader) = (Vec::new(), buffer.read());
        while let Some(packet) = reader.next_packet() {
            packets.extend(packet.slices().last().and_then(|bytes| bytes.last().copied()));
        }
        packets
    }

    #[test]
    fn at_every_moment_of_a_transfer_each_packet_is_in_the_valid_half_or_in_a_slot() {
        let path = std::env::temp_dir().join(format!("tracebuf-outbox-{}", std::process::id()));
        let config = Config::new(FillPolicy::RingBuffer).sequences(4);
        let region = config.region_size(1 << 16);
        let spec = RegionSpec { region, beside_long_trace: true, clocks: &[], own: None, kept: 0 };
        let (parts, undo) = match create(&path, &spec) {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return,
            made => made.expect("a file"),
        };
        undo.forget();
        let mut buffer = TraceBuffer::new(parts.memory, config).expect("a region");
        let mut outbox = parts.outbox.expect("a long trace beside it");
        let put = |buffer: &mut TraceBuffer<_>, id: u8| {
            let header =
                ChunkHeader { producer_id: 2, chunk_id: id.into(), fragments: 1, ..Default::default() };
            buffer.copy_chunk_untrusted(&Chunk { header, payload: &[2, 0x40, id] });
        };
        let place = buffer.memory().as_ptr();
        for round in 0..3 {
            let [first, second] = [2 * round, 2 * round + 1];
            put(&mut buffer, first);
            assert_eq!(left(&path), (vec![first], 0));
            let mut slot = outbox.free_slot().expect("it is free");
            outbox.begin(buffer.memory());
            assert_eq!(left(&path), (vec![first], 0));
            let packets = read(&mut buffer);
            assert_eq!(left(&path), (vec![first], 0), "of the copy");
            assert!(slot.fill(&packets));
            assert_eq!(left(&path), (vec![first], 0));
            outbox.publish(Some(&slot));
            assert_eq!(left(&path), (vec![first], 1), "of the slot");
            put(&mut buffer, second);
            assert_eq!(left(&path), (vec![first, second], 1));
            slot.written();
            assert_eq!(left(&path), (vec![second], 0));
            // What goes another way.
            outbox.begin(buffer.memory());
            assert_eq!(read(&mut buffer), [second]);
            outbox.publish(None);
            assert_eq!(left(&path), (vec![], 0));
        }
        assert_eq!(buffer.memory().as_ptr(), place, "the memory is always the same");
        std::fs::remove_file(path).expect("it is there");
    }
}
