//! Packets that stay in a trace, or do not: what they need before them, and what the others leave.

use tracebuf::proto::fields::{data_loss_reason, trace_packet};
use tracebuf::proto::reader::Fields;
use tracebuf::proto::{PacketView, TracePackets};

use super::event::{Event, Kind};
use super::seen::Seen;
use super::sequence::Sequence;
use super::{CarryOver, Id, Way, clock, packets_out};

/// How a run of packets was passed.
pub(crate) struct Passed {
    /// Packets in the trace, those that were added among them.
    pub(crate) packets: u64,
    /// Packets that do not stay.
    gone: u64,
    /// If all stay as they are and nothing was added, the bytes of all of them, which were not copied.
    pub(crate) unchanged: Option<usize>,
}

impl Passed {
    fn copied(self, packets: &[u8], out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(packets.get(..self.unchanged.unwrap_or(0)).unwrap_or_default());
        self
    }
}

impl CarryOver {
    /// Appends whole packets of a trace that stay to `out`, with what they need before them. Of events from before the
    /// boot time `from`, in nanoseconds, only what they mean for others stays. Returns how many packets that is.
    pub fn pass(&mut self, packets: &[u8], from: Option<u64>, out: &mut Vec<u8>) -> u64 {
        let goes = |carried: &Self, id: Id, packet: &PacketView<'_>| {
            from.is_some_and(|from| carried.goes(id, packet, from))
        };
        self.go_through(packets, goes, |_, _| (), out).copied(packets, out).packets
    }

    /// Takes in whole packets that a trace which goes on behind them does not get. What stays of them is appended to
    /// `out`: ends of slices whose begins the trace has, and the service's packets. Returns how many do not stay.
    pub(crate) fn skip(&mut self, packets: &[u8], out: &mut Vec<u8>) -> u64 {
        let ends_none = |carried: &Self, id: Id, packet: &PacketView<'_>| {
            let sequence = carried.sequences.get(&id);
            let ends =
                |event| sequence.is_some_and(|sequence| carried.ends_one_that_is_written(sequence, event));
            !packet.event.is_some_and(ends)
        };
        self.go_through(packets, ends_none, |_, _| (), out).copied(packets, out).gone
    }

    /// Like [`pass`](Self::pass), of all. If nothing changes, nothing is appended. `stays` gets each packet that the
    /// trace has then, and the losses that it tells of.
    pub(crate) fn pass_all(
        &mut self,
        packets: &[u8],
        out: &mut Vec<u8>,
        stays: impl FnMut(&PacketView<'_>, u64),
    ) -> Passed {
        self.go_through(packets, |_, _, _| false, stays, out)
    }

    fn go_through(
        &mut self,
        packets: &[u8],
        goes: impl Fn(&Self, Id, &PacketView<'_>) -> bool,
        mut stays: impl FnMut(&PacketView<'_>, u64),
        out: &mut Vec<u8>,
    ) -> Passed {
        let (mut count, mut gone, mut known, mut has_begins) = (0, 0, 0, false);
        let mut copied = Copied { packets, from: 0, is_changed: false, out };
        let (mut all, mut end) = (TracePackets::new(packets), 0);
        while let Some(Ok(bytes)) = all.next() {
            let begin = std::mem::replace(&mut end, all.offset());
            let packet = PacketView::of(bytes);
            // Mostly the same as before.
            let id = if packet.sequence_id == u64::from(known) { known } else { self.writer_of(&packet) };
            if id <= 1 {
                stays(&packet, packet.loss);
                count += 1;
                continue;
            }
            known = id;
            let is_plain = self.is_plain(id, &packet);
            let told = if is_plain { 0 } else { self.told_loss(id, &packet, packets) };
            if goes(self, id, &packet) {
                gone += 1;
                copied.leave_out(begin, end);
                self.due(id, packet.loss);
                self.see(id, &packet, packets, Way::Leaves);
                has_begins = true;
                continue;
            }
            if std::mem::take(&mut has_begins) {
                // Before one of them ends.
                self.settle(packets);
            }
            let (mut added, mut loss) = (0, told);
            if !is_plain {
                let untold;
                (added, untold) =
                    copied.with_added(begin, &mut stays, |out| self.write_due(id, &packet, out));
                loss |= untold;
            }
            let seen = if self.is_lean { Seen::Nothing } else { self.see(id, &packet, packets, Way::Stays) };
            if matches!(seen, Seen::EndOf(..)) {
                added += copied.with_added(begin, &mut stays, |out| self.write_begin_of(&seen, out));
            }
            if loss != packet.loss {
                packets_out::copy(bytes, loss, copied.up_to(begin));
                copied.from = end;
            }
            stays(&packet, loss);
            if matches!(seen, Seen::BeginOf(..)) {
                added += copied.with_added(end, &mut stays, |out| self.write_end_of(&seen, out));
            }
            self.added += added;
            count += 1 + added;
        }
        self.settle(packets);
        let unchanged = (!copied.is_changed).then_some(end);
        if copied.is_changed {
            copied.up_to(end);
        }
        Passed { packets: count, gone, unchanged }
    }

    /// Whether nothing needs to be said before a packet that the trace was to have, nor in it.
    fn is_plain(&mut self, id: Id, packet: &PacketView<'_>) -> bool {
        self.sequences.get_mut(&id).is_some_and(|sequence| {
            sequence.is_of_trace = true;
            packet.loss == 0 && sequence.loss == 0 && !sequence.is_due && !sequence.is_overwritten
        })
    }

    /// What a packet that stays says of losses that still holds. What the ring has overwritten was seen.
    fn told_loss(&mut self, id: Id, packet: &PacketView<'_>, base: &[u8]) -> u64 {
        const SEEN: u64 = (data_loss_reason::PRESENT | data_loss_reason::OVERWRITE) as u64;
        let Some(sequence) = self.sequences.get_mut(&id) else { return packet.loss };
        let is_overwritten = std::mem::take(&mut sequence.is_overwritten);
        if packet.loss == 0 {
            return 0;
        }
        if is_overwritten && sequence.is_readable && packet.loss & !SEEN == 0 {
            if !std::mem::take(&mut sequence.has_told) {
                sequence.loss |= packet.loss;
            }
            return 0;
        }
        self.lose(id, base);
        packet.loss
    }

    /// Whether a packet is left out of a window: an event of before, or what only later ones need.
    fn goes(&self, id: Id, packet: &PacketView<'_>, from: u64) -> bool {
        let Some(sequence) = self.sequences.get(&id) else { return false };
        // Readers go on with the state of its producer's program: it would lack what this packet does to it.
        if self.vms.lock().has((id >> 16) as u16) {
            return false;
        }
        let clock = if packet.begins_state() { &clock::SequenceClock::of(packet) } else { &sequence.clock };
        // If its state is gone, and with it what its time counts from, it is older than the next.
        let is_unreadable = packet.needs_state() && !packet.begins_state() && !sequence.is_readable;
        let is_old = match (packet.time, clock.moment(packet)) {
            _ if is_unreadable => true,
            (_, Some((moment, _))) => moment.is_before(clock::Moment::of_boot_time(from)),
            // In nobody's time, as long as all of its sequence is.
            (None, None) => sequence.is_due || !sequence.has_stayed,
            (Some(_), None) => false,
        };
        match packet.event {
            Some(event) => is_old && !self.ends_one_that_is_written(sequence, event),
            None => is_old && is_of_state(packet),
        }
    }

    /// Whether an event ends a slice whose begin the trace has: then it stays whatever its time.
    fn ends_one_that_is_written(&self, sequence: &Sequence, event: &[u8]) -> bool {
        let Some(event) = Event::of(event).filter(|event| event.kind == Kind::End) else { return false };
        let place = event.track.map_or(Some(sequence.place), |uuid| self.tracks.find(uuid));
        let track = place.and_then(|place| self.tracks.get(place));
        track.and_then(|track| track.slices.last()).is_some_and(|slice| slice.is_written)
    }
}

/// Packets on their way into a trace. Those that stay as they are go there many at a time.
struct Copied<'a> {
    packets: &'a [u8],
    /// Where those begin that are not there yet.
    from: usize,
    is_changed: bool,
    out: &'a mut Vec<u8>,
}

impl Copied<'_> {
    /// The trace, with all up to here.
    fn up_to(&mut self, at: usize) -> &mut Vec<u8> {
        self.is_changed = true;
        self.out.extend_from_slice(self.packets.get(self.from..at).unwrap_or_default());
        self.from = at;
        self.out
    }

    fn leave_out(&mut self, begin: usize, end: usize) {
        self.up_to(begin);
        self.from = end;
    }

    /// Has others added here.
    fn with_added<T>(
        &mut self,
        at: usize,
        stays: &mut impl FnMut(&PacketView<'_>, u64),
        add: impl FnOnce(&mut Vec<u8>) -> T,
    ) -> T {
        let out = self.up_to(at);
        let before = out.len();
        let added = add(out);
        for packet in TracePackets::new(out.get(before..).unwrap_or_default()).flatten() {
            let packet = PacketView::of(packet);
            stays(&packet, packet.loss);
        }
        added
    }
}

/// Whether a packet without an event tells of nothing but its sequence's state and tracks.
fn is_of_state(packet: &PacketView<'_>) -> bool {
    use trace_packet as field;
    Fields::of(packet.content).all(|part| {
        matches!(
            part.number,
            field::TIMESTAMP
                | field::TIMESTAMP_CLOCK_ID
                | field::SEQUENCE_FLAGS
                | field::INCREMENTAL_STATE_CLEARED
                | field::CLOCK_SNAPSHOT
                | field::TRACE_PACKET_DEFAULTS
                | field::INTERNED_DATA
                | field::TRACK_DESCRIPTOR
                | field::PREVIOUS_PACKET_DROPPED
                | field::FIRST_PACKET_ON_SEQUENCE
                | field::TRUSTED_UID
                | field::TRUSTED_PACKET_SEQUENCE_ID
                | field::TRUSTED_PID
        )
    })
}
