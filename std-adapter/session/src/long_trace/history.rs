//! What a long trace has read and its buffers could still hold, for snapshots.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::carry_over::CarryOver;
use crate::export::{Before, PIECE};
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
    pub(super) fn keep(&mut self, buffer: usize, packets: &[u8]) {
        let Some(kept) = self.0.get_mut(buffer).filter(|_| !packets.is_empty()) else { return };
        let most = SEGMENT.min(kept.limit / 4);
        match kept.segments.back_mut().map(Arc::make_mut) {
            Some(last) if last.len() + packets.len() <= most => last.extend_from_slice(packets),
            _ => kept.segments.push_back(Arc::new(packets.to_vec())),
        }
        kept.bytes += packets.len();
        while kept.bytes > kept.limit {
            let Some(oldest) = kept.segments.pop_front() else { break };
            kept.bytes -= oldest.len();
            kept.carried.fold(&oldest);
        }
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
