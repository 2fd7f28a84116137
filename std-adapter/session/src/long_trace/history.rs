//! What a long trace has read and its buffers could still hold, for snapshots.

use std::collections::VecDeque;
use std::sync::Arc;

use tracebuf::proto::TracePackets;

use crate::carry_over::CarryOver;
use crate::export::{Before, PIECE, whole_within};
use crate::service::Service;

/// For each buffer the newest packets that were read, as many as it has room for, and what earlier ones mean for them.
#[derive(Default)]
pub(crate) struct History(Vec<Kept>);

#[derive(Default)]
struct Kept {
    carried: CarryOver,
    segments: VecDeque<Arc<Vec<u8>>>,
    bytes: usize,
    limit: usize,
}

/// The most bytes that go at once, of a ring of several times as many.
const SEGMENT: usize = PIECE / 4;

impl History {
    pub(super) fn of(service: &Service, keeps: Option<usize>) -> Self {
        let limit = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
        let buffers = service.buffers.iter().map(|buffer| limit(buffer.stats().buffer_size));
        let kept = |limit| Kept { carried: CarryOver::of_ring().keeping(keeps), limit, ..Kept::default() };
        Self(buffers.map(kept).collect())
    }

    /// Takes packets that were read from a buffer.
    pub(super) fn keep(&mut self, buffer: usize, mut packets: &[u8]) {
        let Some(kept) = self.0.get_mut(buffer) else { return };
        let most = SEGMENT.min(kept.limit / 4);
        // What is read at once may be more than is kept: as one segment it would go as it comes.
        while packets.len() > most {
            let (segment, rest) = packets.split_at(segment_of(packets, most));
            kept.push(segment, most);
            packets = rest;
        }
        kept.push(packets, most);
    }

    /// What came before the packets that are in the buffers now. It shares memory with what is kept.
    pub(crate) fn before(&self) -> Vec<Before> {
        let before = |kept: &Kept| Before {
            carried: kept.carried.clone(),
            packets: kept.segments.iter().cloned().collect(),
        };
        self.0.iter().map(before).collect()
    }
}

impl Kept {
    fn push(&mut self, packets: &[u8], most: usize) {
        if packets.is_empty() {
            return;
        }
        match self.segments.back_mut().map(Arc::make_mut) {
            Some(last) if last.len() + packets.len() <= most => last.extend_from_slice(packets),
            _ => self.segments.push_back(Arc::new(packets.to_vec())),
        }
        self.bytes += packets.len();
        while self.bytes > self.limit {
            let Some(oldest) = self.segments.pop_front() else { break };
            self.bytes -= oldest.len();
            self.carried.fold(&oldest);
        }
    }
}

/// How many bytes at the beginning of packets are whole ones and no more than `most`, or else the first one.
fn segment_of(packets: &[u8], most: usize) -> usize {
    let first = || {
        let mut all = TracePackets::new(packets);
        all.next().and_then(Result::ok).map_or(packets.len(), |_| all.offset())
    };
    match whole_within(packets, most as u64) {
        0 => first(),
        whole => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_more_than_is_kept_at_once_the_newest_packets_stay() {
        const LIMIT: usize = 4096;
        let mut history = History(vec![Kept { limit: LIMIT, ..Kept::default() }]);
        // A packet's tag, length and a field of 18 bytes; one that is longer than a segment; many more.
        let small = |byte: u8| [&[0x0a, 20, 0x7a, 18][..], &[byte; 18]].concat();
        let large = [&[0x0a, 0x84, 0x10, 0x7a, 0x81, 0x10][..], &[7; 2049]].concat();
        let piece = [small(1).repeat(400), large, small(2).repeat(60)].concat();
        history.keep(0, &piece);
        let before = history.before();
        let kept: Vec<u8> = before[0].packets.iter().flat_map(|segment| segment.iter().copied()).collect();
        assert!(kept.len() <= LIMIT && kept.len() > LIMIT / 2, "{}", kept.len());
        assert!(piece.ends_with(&kept), "the newest, in order");
        assert!(TracePackets::new(&kept).all(|packet| packet.is_ok()));
        assert_eq!(history.0[0].bytes, kept.len());
        // What does not parse goes as a whole, and nothing hangs.
        history.keep(0, &[0xff; 3 * LIMIT]);
        assert_eq!(history.0[0].bytes, 0);
    }
}
