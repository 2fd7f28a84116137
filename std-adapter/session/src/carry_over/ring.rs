//! A carry-over as the observer of a ring, which shows it each packet before that is overwritten.

use tracebuf::buffer::{DataLoss, OverwriteObserver, Packet, PacketRun};
use tracebuf::proto::fields::{data_loss_reason, track_event_type};
use tracebuf::proto::{PacketValidator, PacketView};
use tracebuf::service::sequence_id;

use super::event::{Event, Kind, plain, quick};
use super::kept::Kept;
use super::seen::{Begun, end, settle_begun, slice_event};
use super::{CarryOver, Id, Way, Writer, limits};
use crate::ring_vms::{RingProgram, RingVms};

impl OverwriteObserver for CarryOver {
    const FOLDS: bool = true;

    fn looks(&self) -> bool {
        self.is_on
    }

    fn packet(&mut self, packet: &Packet<'_>) -> bool {
        let mut whole = std::mem::take(&mut self.whole);
        whole.clear();
        packet.slices().for_each(|slice| whole.extend_from_slice(slice));
        let id = sequence_id(packet.producer_id(), packet.writer_id()).get();
        let pid = (packet.pid() != -1).then_some(packet.pid());
        self.overwritten(Writer { id, uid: packet.uid(), pid }, packet.loss());
        self.patch(packet.producer_id(), id, &whole, &whole);
        self.settle(&whole);
        // One long packet's memory is not kept for all to come.
        whole.shrink_to(limits::STATE);
        self.whole = whole;
        true
    }

    fn packets(&mut self, run: &mut PacketRun<'_>) {
        let id = sequence_id(run.producer_id(), run.writer_id()).get();
        let pid = (run.pid() != -1).then_some(run.pid());
        self.overwritten(Writer { id, uid: run.uid(), pid }, run.loss());
        let base = run.chunk();
        if self.vms.has(run.producer_id()) {
            let producer = run.producer_id();
            for content in run.by_ref() {
                self.patch(producer, id, content, base);
            }
        }
        while let Some(content) = self.overwritten_events(id, run, base) {
            self.overwritten_packet(id, content, base);
        }
        self.settle(base);
    }
}

impl CarryOver {
    /// From now on, folds what is overwritten of a producer's packets by a program, as Perfetto's service does: of
    /// several, the first that knows a packet takes it. Traces have the programs and their states, with which
    /// `trace_processor` goes on. Returns false if there are 64 programs already, this one is too long, or its memory has
    /// no room for a state.
    pub fn join_vm(&mut self, program: RingProgram<'_>, producer_id: u16) -> bool {
        self.vms.join(program, producer_id)
    }

    /// Shows a packet to the machines of its producer, and takes it in. One that a machine knows is kept there only: as
    /// a packet that is kept here, readers would take it for a patch that comes after those of now.
    fn patch(&mut self, producer: u16, id: Id, content: &[u8], base: &[u8]) {
        if self.vms.apply(producer, content) {
            let kept = self.kept.take();
            self.overwritten_packet(id, content, base);
            self.kept = kept;
        } else {
            self.overwritten_packet(id, content, base);
        }
    }

    /// Another producer has this number now.
    pub(crate) fn leave_vms(&mut self, producer_id: u16) {
        self.vms.leave(producer_id);
    }

    pub(crate) fn vms(&self) -> &RingVms {
        &self.vms
    }

    pub(super) fn overwritten(&mut self, writer: Writer, loss: DataLoss) {
        let sequence = self.sequence(writer);
        sequence.is_due = true;
        (sequence.is_overwritten, sequence.has_told) = (true, false);
        if !loss.is_empty() {
            sequence.loss |= u64::from(loss.bits());
            sequence.is_readable = false;
        }
    }

    /// Takes in events of a run as long as they are of the usual form; returns the first that is not.
    fn overwritten_events<'b>(&mut self, id: Id, run: &mut PacketRun<'b>, base: &[u8]) -> Option<&'b [u8]> {
        const BEGIN: u8 = track_event_type::SLICE_BEGIN as u8;
        const END: u8 = track_event_type::SLICE_END as u8;
        let Self { sequences, tracks, has_counters, kept, begun, .. } = self;
        let sequence = sequences.get_mut(&id)?;
        if !(sequence.is_readable && sequence.clock.counts()) {
            return run.next();
        }
        let place_in = |event: &[u8]| (event.as_ptr() as usize).wrapping_sub(base.as_ptr() as usize) as u32;
        let (mut unusual, writer, own) = (None, sequence.writer(id), sequence.track);
        let mut clock = sequence.clock.clone_of_time();
        run.while_taken(|content| {
            if let Some((kind, units, event)) = plain(content) {
                let time = clock.advance(units);
                match kind {
                    BEGIN => begun.push(Begun { time, at: place_in(event), len: event.len() as u32 }),
                    END if begun.pop().is_none() => {
                        end(tracks, sequence.place, clock.moment(), None, id, Way::Leaves);
                    }
                    _ => {}
                }
                return true;
            }
            let usual = quick(content).and_then(|(units, event)| Some((units, Event::of(event)?)));
            let is_full = kept.as_ref().is_some_and(Kept::is_due);
            let usual = usual.filter(|(_, event)| event.kind != Kind::Counter || !(*has_counters || is_full));
            let Some((units, event)) = usual else {
                unusual = Some(content);
                return false;
            };
            let time = clock.advance(units);
            match (event.kind, event.track) {
                (Kind::Begin, None) => {
                    let len = event.bytes.len() as u32;
                    begun.push(Begun { time, at: place_in(event.bytes), len });
                }
                (Kind::End, None) => {
                    if begun.pop().is_none() {
                        end(tracks, sequence.place, clock.moment(), None, id, Way::Leaves);
                    }
                }
                (Kind::Begin | Kind::End, Some(_)) => {
                    let place = sequence.place_of(&event, tracks);
                    if place == sequence.place {
                        settle_begun(tracks, begun, place, id, &clock);
                    }
                    slice_event(tracks, &event, place, id, clock.moment(), base, Way::Leaves);
                }
                (Kind::Counter, track) => {
                    if let Some(kept) = kept.as_mut()
                        && let (Some(uuid), Some(value)) = (track.or(own), event.counter_value())
                    {
                        kept.count(writer, uuid, clock.moment(), value);
                    }
                }
                (Kind::Other, _) => {}
            }
            true
        });
        settle_begun(tracks, begun, sequence.place, id, &clock);
        sequence.clock.set_time(&clock);
        unusual
    }

    /// Takes in any other packet, in which nothing is trusted.
    pub(super) fn overwritten_packet(&mut self, id: Id, content: &[u8], base: &[u8]) {
        match PacketValidator::check([content]) {
            Ok(valid) => {
                let loss = u64::from(valid.previous_packet_dropped);
                if loss != 0 {
                    self.lose(id, base);
                    self.due(id, loss);
                }
                self.see(id, &PacketView::of(content), base, Way::Leaves);
            }
            Err(_) => {
                // No trace accepts it.
                self.lose(id, base);
                self.due(id, (data_loss_reason::PRESENT | data_loss_reason::CHUNK_CORRUPTED).into());
            }
        }
    }
}
