//! Which start of the device a packet is of, and which losses it has to tell of. What shows it, [`Receiver`] tells.
//!
//! [`Receiver`]: super::Receiver

use std::collections::HashMap;

use tracebuf::proto::SequenceId;

use crate::packet::Parsed;

/// A start of the device.
#[derive(Clone, Copy, Debug)]
struct Start {
    /// 1 is the first that was heard of.
    number: u64,
    /// Losses on the line before it began. They are not its own.
    losses: u64,
}

/// A sequence, as far as it was heard.
#[derive(Debug)]
struct Sequence {
    start: u64,
    /// How many of the line's losses it has told of.
    told: u64,
    clock: Option<(u64, u64)>,
}

/// The starts of a device.
#[derive(Debug)]
pub(super) struct Starts {
    newest: Start,
    /// Restarts that no new start was seen of, and the losses before the first of them: a start that recorded and sent
    /// nothing of it leaves that to the next one.
    restarts: u64,
    losses_before: u64,
    /// Since the newest one began there was what may have been a restart or a loss, with so many losses before it.
    suspected: Option<u64>,
    /// Starts that nothing but this led to.
    unnoticed: u64,
    /// By the upper half of their sequences' ids.
    producers: HashMap<u64, Start>,
    sequences: HashMap<u64, Sequence>,
}

impl Default for Starts {
    fn default() -> Self {
        Self {
            newest: Start { number: 1, losses: 0 },
            restarts: 0,
            losses_before: 0,
            suspected: None,
            unnoticed: 0,
            producers: HashMap::new(),
            sequences: HashMap::new(),
        }
    }
}

impl Starts {
    /// The device restarted; after so many losses, all of them from before that.
    pub(super) fn restarted(&mut self, losses: u64) {
        if self.producers.is_empty() {
            // The one before is not heard of.
            self.newest.losses = losses;
            return;
        }
        if self.restarts == 0 {
            self.losses_before = losses;
        }
        self.restarts += 1;
    }

    /// The device may have restarted, after so many losses, or only lost something.
    pub(super) fn suspected(&mut self, losses: u64) {
        self.suspected = self.suspected.or(Some(losses)).filter(|_| !self.producers.is_empty());
    }

    /// Restarts that were only suspected and have turned out to be some since this was asked.
    pub(super) fn take_unnoticed(&mut self) -> u64 {
        std::mem::take(&mut self.unnoticed)
    }

    /// The number of the start that the next packet is of, and whether there are losses, of all those on the line, that
    /// its sequence did not tell of.
    pub(super) fn take(&mut self, packet: &Parsed<'_>, losses: u64) -> (u64, bool) {
        let id = packet.sequence_id;
        let clock = packet.clock();
        // The sender's own sequence has the same number in all starts; nor has a packet of none anything to tell it by.
        let is_service = id <= SequenceId::SERVICE.get().into();
        let start = if is_service { self.newest } else { self.start_of(packet, clock) };
        let new = || Sequence { start: start.number, told: start.losses, clock: None };
        let sequence = self.sequences.entry(id).or_insert_with(new);
        if sequence.start != start.number {
            *sequence = new();
        }
        sequence.clock = clock.or(sequence.clock);
        let lost = std::mem::replace(&mut sequence.told, losses) != losses;
        (start.number, lost)
    }

    /// The start of a writer's packet.
    fn start_of(&mut self, packet: &Parsed<'_>, clock: Option<(u64, u64)>) -> Start {
        let id = packet.sequence_id;
        let producer = id >> 16;
        let may_begin = self.restarts > 0 || self.suspected.is_some();
        if may_begin && let Some(heard) = self.sequences.get(&id) {
            // In one start too a writer may come to the number of one that is gone, but no clock goes back.
            if goes_back(heard.clock, clock) || packet.is_first && self.restarts > 0 {
                // Numbers come again where memory was lost, and what was recorded before with it.
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

/// Whether a clock was read earlier than the time before. Different clocks are not compared.
fn goes_back(before: Option<(u64, u64)>, now: Option<(u64, u64)>) -> bool {
    before.zip(now).is_some_and(|(before, now)| before.0 == now.0 && now.1 < before.1)
}
