//! Starts of a device: the one that a packet belongs to, and the losses that it has to report. [`Receiver`] tells the
//! rules.
//!
//! [`Receiver`]: super::Receiver

use std::collections::HashMap;

use tracebuf::proto::fields::clock;
use tracebuf::proto::reader::number;
use tracebuf::proto::{PacketView, SequenceId};

/// A start of the device.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    /// 0 is the first that was heard of.
    number: u64,
    /// Losses on the line before it began. They are not its own.
    losses: u64,
}

/// A sequence, as far as it was heard.
#[derive(Debug)]
struct HeardSequence {
    start: u64,
    /// The number of the line's losses that it has reported.
    told: u64,
    clock: Option<(u64, u64)>,
}

/// The starts of a device.
#[derive(Debug, Default)]
pub(super) struct Starts {
    newest: Start,
    /// Restarts whose new start was not seen, and the losses before the first of them: a start that sent nothing of
    /// what it recorded leaves that to the next one.
    restarts: u64,
    losses_before: u64,
    /// Losses before what may have been a restart or only a loss, if there was such a thing since the newest start
    /// began.
    suspected: Option<u64>,
    /// Starts that only such a suspicion led to.
    unnoticed: u64,
    /// The producers' starts, by the upper half of their sequences' ids.
    producers: HashMap<u64, Start>,
    sequences: HashMap<u64, HeardSequence>,
}

impl Starts {
    /// Notes that the device restarted after this many losses, all of them from before that.
    pub(super) fn restarted(&mut self, losses: u64) {
        if self.producers.is_empty() {
            // Nothing was heard of the one before.
            self.newest.losses = losses;
            return;
        }
        if self.restarts == 0 {
            self.losses_before = losses;
        }
        self.restarts += 1;
    }

    /// Notes that the device may have restarted after this many losses, or only lost something.
    pub(super) fn suspected(&mut self, losses: u64) {
        self.suspected = self.suspected.or(Some(losses)).filter(|_| !self.producers.is_empty());
    }

    /// How many restarts that were only suspected have turned out to be real since this was last asked.
    pub(super) fn take_unnoticed(&mut self) -> u64 {
        std::mem::take(&mut self.unnoticed)
    }

    /// Takes the next packet: returns the number of its start, from 1 on, and whether there are losses on the line that its
    /// sequence has not reported.
    pub(super) fn take(&mut self, packet: &PacketView<'_>, losses: u64) -> (u64, bool) {
        let id = packet.sequence_id;
        let clock = packet.clocks().next().and_then(reading);
        // The sender's own sequence has the same number in all starts, and a packet of no sequence has nothing to tell
        // it by.
        let is_service = id <= SequenceId::SERVICE.get().into();
        let start = if is_service { self.newest } else { self.start_of(packet, clock) };
        let new = || HeardSequence { start: start.number, told: start.losses, clock: None };
        let sequence = self.sequences.entry(id).or_insert_with(new);
        if sequence.start != start.number {
            *sequence = new();
        }
        sequence.clock = clock.or(sequence.clock);
        let lost = std::mem::replace(&mut sequence.told, losses) != losses;
        (start.number + 1, lost)
    }

    /// The start of a writer's packet.
    fn start_of(&mut self, packet: &PacketView<'_>, clock: Option<(u64, u64)>) -> Start {
        let id = packet.sequence_id;
        let producer = id >> 16;
        let may_begin = self.restarts > 0 || self.suspected.is_some();
        if may_begin && let Some(heard) = self.sequences.get(&id) {
            // Even within one start, a writer may get the number of one that is gone, but no clock goes back.
            if goes_back(heard.clock, clock) || packet.is_first && self.restarts > 0 {
                // Numbers come again if memory was lost, and with it what was recorded before.
                self.begin();
                self.restarts = 0;
                self.producers.clear();
                self.sequences.clear();
            }
        } else if may_begin && !self.producers.is_empty() && !self.producers.contains_key(&producer) {
            self.begin();
        }
        *self.producers.entry(producer).or_insert(self.newest)
    }

    fn begin(&mut self) {
        let suspected = self.suspected.take();
        let losses = match self.restarts.checked_sub(1) {
            Some(others) => {
                self.restarts = others;
                self.losses_before
            }
            None => {
                self.unnoticed += 1;
                suspected.unwrap_or_default()
            }
        };
        self.newest = Start { number: self.newest.number + 1, losses };
    }
}

/// A clock's number, and its time.
fn reading(clock: &[u8]) -> Option<(u64, u64)> {
    number(clock, clock::CLOCK_ID).zip(number(clock, clock::TIMESTAMP))
}

/// Returns true if a clock reads earlier than it did before. Different clocks are not compared.
fn goes_back(before: Option<(u64, u64)>, now: Option<(u64, u64)>) -> bool {
    before.zip(now).is_some_and(|(before, now)| before.0 == now.0 && now.1 < before.1)
}
