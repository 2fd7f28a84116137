//! Frames that came before it was known of what memory they are.

use std::collections::VecDeque;

use tracebuf::inplace::Message;

use super::WAITING;
use crate::receive::report::ReceiveReport;

/// Chunks from before the first hello, and all that came after a restart whose hello is lost; the kind of each frame.
#[derive(Debug, Default)]
pub(super) struct Early(VecDeque<(u8, Vec<u8>)>);

impl Early {
    pub(super) fn keep(&mut self, kind: u8, piece: &[u8], report: &mut ReceiveReport) {
        self.0.push_back((kind, piece.to_vec()));
        if self.0.len() > WAITING
            && let Some((kind, piece)) = self.0.pop_front()
        {
            report.chunks_early += chunks(kind, &piece);
        }
    }

    pub(super) fn take(&mut self) -> VecDeque<(u8, Vec<u8>)> {
        std::mem::take(&mut self.0)
    }

    pub(super) fn forget(&mut self, report: &mut ReceiveReport) {
        report.chunks_early += self.take().iter().map(|(kind, piece)| chunks(*kind, piece)).sum::<u64>();
    }
}

/// How many chunks a frame is: one or none.
fn chunks(kind: u8, piece: &[u8]) -> u64 {
    u64::from(matches!(Message::of(kind, piece), Some(Message::Chunk(_))))
}
