//! A carry-over as the observer of a ring, which shows it each packet before that is overwritten.

use tracebuf::buffer::{DataLoss, OverwriteObserver, Packet, PacketRun};
use tracebuf::proto::fields::data_loss_reason;
use tracebuf::proto::{PacketValidator, PacketView};
use tracebuf::service::sequence_id;
use tracebuf::vm::RingProgram;

use super::clock::Time;
use super::event::{Event, Kind, Plain, quick};
use super::kept::Kept;
use super::seen::{Begun, BegunSlices, slice_event};
use super::sequence::Sequence;
use super::{CarryOver, Id, Way, Writer, limits};
use crate::shared_vms::SharedVms;

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
        self.note(id);
        // One long packet's memory is not kept for all to come.
        whole.shrink_to(limits::STATE);
        self.whole = whole;
        true
    }

    fn packets(&mut self, run: &mut PacketRun<'_>) {
        let id = sequence_id(run.producer_id(), run.writer_id()).get();
        let pid = (run.pid() != -1).then_some(run.pid());
        self.overwritten(Writer { id, uid: run.uid(), pid }, run.loss()).begin_chunk(run.place());
        let base = run.chunk();
        if self.vms.get_mut().has(run.producer_id()) {
            let producer = run.producer_id();
            for content in run.by_ref() {
                self.patch(producer, id, content, base);
            }
        }
        while let Some(content) = self.overwritten_events(id, run, base) {
            self.overwritten_packet(id, content, base);
        }
        self.settle(base);
        self.note(id);
    }
}

impl CarryOver {
    /// From now on, folds what is overwritten of a producer's packets by a program, as Perfetto's service does: of
    /// several, the first that knows a packet takes it. Traces have the programs and their states, with which
    /// `trace_processor` goes on. Returns false if there are 64 programs already, this one is too long, or its memory has
    /// no room for a state.
    pub fn join_vm(&mut self, program: RingProgram<'_>, producer_id: u16) -> bool {
        self.vms.get_mut().join(program, producer_id)
    }

    /// Shows a packet to the machines of its producer, and takes it in. One that a machine knows is kept there only: as
    /// a packet that is kept here, readers would take it for a patch that comes after those of now.
    fn patch(&mut self, producer: u16, id: Id, content: &[u8], base: &[u8]) {
        if self.vms.get_mut().apply(producer, content) {
            let kept = self.kept.take();
            self.overwritten_packet(id, content, base);
            self.kept = kept;
        } else {
            self.overwritten_packet(id, content, base);
        }
    }

    /// Notes how far a sequence has come, for recovery.
    fn note(&mut self, id: Id) {
        let Self { kept, sequences, .. } = self;
        kept.iter_mut().filter(|kept| kept.is_in_file()).for_each(|kept| kept.note(id, sequences));
    }

    /// Another producer has this number now.
    pub(crate) fn leave_vms(&mut self, producer_id: u16) {
        self.vms.get_mut().leave(producer_id);
    }

    pub(crate) fn vms(&self) -> &SharedVms {
        &self.vms
    }

    pub(super) fn overwritten(&mut self, writer: Writer, loss: DataLoss) -> &mut Sequence {
        let sequence = self.sequence(writer);
        sequence.is_due = true;
        (sequence.is_overwritten, sequence.has_told) = (true, false);
        if !loss.is_empty() {
            sequence.loss |= u64::from(loss.bits());
            sequence.is_readable = false;
        }
        sequence
    }

    /// Takes in events of a run as long as they are of the usual form; returns the first that is not.
    fn overwritten_events<'b>(&mut self, id: Id, run: &mut PacketRun<'b>, base: &[u8]) -> Option<&'b [u8]> {
        let Self { sequences, tracks, has_counters, kept, begun, .. } = self;
        let sequence = sequences.get_mut(&id)?;
        if !(sequence.is_readable && sequence.clock.counts()) {
            return run.next();
        }
        let (mut clock, mut begun) = (sequence.clock.clone_of_time(), BegunSlices::new(begun));
        let unusual = loop {
            take_plain(run, &mut clock, &mut begun);
            let Some(content) = run.next() else { break None };
            let usual = quick(content).and_then(|(units, event)| Some((units, Event::of_usual(event)?)));
            let looks_closer = *has_counters || kept.as_ref().is_some_and(Kept::is_due);
            let usual = usual.filter(|(_, event)| event.kind != Kind::Counter || !looks_closer);
            let Some((units, event)) = usual else { break Some(content) };
            let time = clock.after(units);
            clock.set(time);
            if event.kind == Kind::Counter
                && let Some(kept) = kept
                && let (Some(uuid), Some(value)) = (event.track.or(sequence.track), event.counter_value())
            {
                kept.count(sequence.writer(id), uuid, clock.moment(), value);
            }
            if matches!(event.kind, Kind::Counter | Kind::Other) {
                continue;
            }
            let at = (event.bytes.as_ptr() as usize).wrapping_sub(base.as_ptr() as usize) as u32;
            let begin = || Begun { units: time, at, len: event.bytes.len() as u32 };
            if event.track.is_none() && begun.change(event.kind, begin) {
                continue;
            }
            let place = sequence.place_of(&event, tracks);
            if place == sequence.place {
                begun.settle(tracks, place, id, &clock);
            }
            slice_event(tracks, &event, place, id, clock.moment(), base, Way::Leaves);
        };
        begun.settle(tracks, sequence.place, id, &clock);
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

/// Takes events as long as they are plain. It is not inlined, so that all it needs is in registers.
#[inline(never)]
fn take_plain(run: &mut PacketRun<'_>, clock: &mut Time, begun: &mut BegunSlices<'_>) {
    let mut now = clock.units();
    begun.in_registers(|begun| {
        run.take_by_head(|bytes, at| {
            let Some(Plain { kind, units, at: behind, len }) = Plain::of(bytes) else { return false };
            let units = now.wrapping_add(units);
            let begin = || Begun { units, at: u32::from(at.wrapping_add(behind.into())), len: len.into() };
            let is_done = begun.change(kind, begin);
            if is_done {
                now = units;
            }
            is_done
        });
    });
    clock.set(now);
}
