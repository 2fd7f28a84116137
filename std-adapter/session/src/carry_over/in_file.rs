//! What is noted of each sequence beside a ring in a file, so that what the ring still holds can be read after a crash.
//!
//! Two packets for each sequence, in the machine that also keeps descriptions. One is its *state*: clock, defaults and
//! names, written anew when there are others. The other is its *place*: which chunk was shown last, what time it was
//! before and after that, and to which state that belongs. Each is replaced whole or not at all, the place last, before
//! the chunk leaves the ring. So a crash leaves a place for which the chunk is gone, and its time is that after it; or
//! one for which the chunk is still there, to be read from the time before it. A place whose state is another one, or
//! whose chunk is not beside the first one in the ring, says nothing: readers wait for the next state.
//!
//! After a power cut the file may have any mixture of pages, so each packet ends with a checksum.

use std::collections::HashMap;

use tracebuf::buffer::RingChunk;
use tracebuf::proto::fields::{sequence_flags, trace_packet};
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, number};
use tracebuf::proto::{PacketView, Sink};
use tracebuf::service::sequence_id;

use super::kept::Kept;
use super::noted::{Noted, PLACE, STATE, noted, place, seal};
use super::packets_out::trust;
use super::sequence::{Change, Counter, Sequence};
use super::{CarryOver, Id, Sequences, Way};

impl Sequence {
    /// A chunk is about to be shown.
    pub(super) fn begin_chunk(&mut self, (chunk_id, from): (u32, u16)) {
        let before = self.is_readable.then(|| self.clock.time());
        self.noted = Noted { chunk_id, from, before, ..self.noted };
    }

    fn state_packet(&self, id: Id) -> Vec<u8> {
        let (mut packet, mut names) = (Vec::with_capacity(256), Vec::new());
        let Ok(()) = packet.varint(STATE, self.noted.state);
        let flags = sequence_flags::INCREMENTAL_STATE_CLEARED | sequence_flags::NEEDS_INCREMENTAL_STATE;
        let Ok(()) = packet.varint(trace_packet::SEQUENCE_FLAGS, flags);
        self.names.write_last(&mut names);
        for (field, bytes) in [
            (trace_packet::CLOCK_SNAPSHOT, self.clock.snapshot()),
            (trace_packet::TRACE_PACKET_DEFAULTS, &self.defaults),
            (trace_packet::INTERNED_DATA, &names),
        ] {
            if !bytes.is_empty() {
                let Ok(()) = packet.bytes(field, bytes);
            }
        }
        trust(self.writer(id), &mut packet);
        seal(&mut packet);
        packet
    }

    fn place_packet(&self, id: Id) -> Vec<u8> {
        let Noted { chunk_id, from, before, state } = self.noted;
        let (mut packet, mut told) = (Vec::with_capacity(64), Vec::with_capacity(40));
        let Ok(()) = told.varint(place::STATE, state);
        let Ok(()) = told.varint(place::CHUNK, chunk_id.into());
        let Ok(()) = told.varint(place::FROM, from.into());
        let Ok(()) = before.map_or(Ok(()), |before| told.varint(place::BEFORE, before));
        let Ok(()) = told.varint(place::AFTER, self.clock.time());
        for counter in &self.counters {
            let mut sum = Vec::new();
            let Ok(()) = sum.varint(place::UUID, counter.uuid);
            let Ok(()) = sum.varint(place::SUM, counter.sum as u64);
            let Ok(()) = sum.fixed64(place::FRACTION, counter.fraction.to_bits());
            let Ok(()) = told.bytes(place::COUNTERS, &sum);
        }
        let Ok(()) = packet.bytes(PLACE, &told);
        let Ok(()) = packet.varint(trace_packet::TRUSTED_PACKET_SEQUENCE_ID, id.into());
        seal(&mut packet);
        packet
    }

    /// Takes over what a place says, if the ring goes on there.
    fn go_on_from(&mut self, told: &[u8], chunks: &[RingChunk]) {
        let of = |field| number(told, field);
        let (Some(state), Some(chunk_id)) = (of(place::STATE), of(place::CHUNK)) else { return };
        let is_here = |chunk: &&RingChunk| chunk.chunk_id == chunk_id as u32;
        let from_here = |chunk: &RingChunk| chunk.chunk_id.wrapping_sub(chunk_id as u32) as i32;
        let is_behind = match chunks.iter().find(is_here) {
            Some(here) => u64::from(here.read) > of(place::FROM).unwrap_or(0),
            None => true,
        };
        // The next one may not be there, but no other may be the first.
        let first = chunks.iter().map(from_here).min().unwrap_or(1);
        let counters: Vec<_> = messages(told, place::COUNTERS).collect();
        let time = match is_behind {
            true => of(place::AFTER),
            // Of what they were before, nothing is known.
            false if counters.is_empty() => of(place::BEFORE),
            false => None,
        };
        let Some(time) = time.filter(|_| state == self.noted.state && state > 0 && (0..=1).contains(&first))
        else {
            return;
        };
        self.clock.go_to(time);
        self.is_readable = true;
        self.counters = counters
            .into_iter()
            .filter_map(|counter| {
                let fraction = Fields::of(counter).find_map(|field| match field.value {
                    FieldValue::Fixed(bits) if field.number == place::FRACTION => Some(f64::from_bits(bits)),
                    _ => None,
                });
                let sum = number(counter, place::SUM)? as i64;
                Some(Counter { uuid: number(counter, place::UUID)?, sum, fraction: fraction? })
            })
            .collect();
    }
}

impl Kept {
    /// Notes how far a sequence has come; before its chunk leaves the ring.
    pub(super) fn note(&mut self, id: Id, sequences: &mut Sequences) {
        let Some(sequence) = sequences.get_mut(&id) else { return };
        let mut change = std::mem::take(&mut sequence.change);
        if !sequence.is_readable {
            sequence.noted.state = 0;
        } else if change == Change::Another || sequence.noted.state == 0 {
            change = Change::Another;
            (sequence.noted.state, sequence.noted.before) = (self.new_state(), None);
        }
        let state = sequence.noted.state;
        if state > 0 && (change != Change::Nothing || !self.has_state(id, state)) {
            let packet = sequence.state_packet(id);
            self.put_state(id, state, &packet, sequences);
        }
        if let Some(sequence) = sequences.get(&id) {
            let packet = sequence.place_packet(id);
            self.put(&packet, sequences);
        }
    }
}

impl CarryOver {
    /// From what was kept beside a ring in a [file](crate::region_file), which may be in the middle of a patch: all
    /// descriptions and last values, and of each sequence the clock and names at the ring's end, if `chunks`, all that
    /// the ring holds, go on from there. What is damaged counts as missing; `None` if all is.
    pub fn recovered(kept: Vec<u8>, chunks: impl Iterator<Item = RingChunk>) -> Option<Self> {
        let (kept, state) = Kept::found(kept)?;
        let mut of_sequence = HashMap::<Id, Vec<RingChunk>>::new();
        for chunk in chunks {
            let id = sequence_id(chunk.producer_id, chunk.writer_id).get();
            of_sequence.entry(id).or_default().push(chunk);
        }
        let mut carried = Self::default();
        for packet in noted(&state, STATE) {
            let view = PacketView::of(packet);
            let id = carried.writer_of(&view);
            carried.see(id, &view, packet, Way::Leaves);
            if let (Some(sequence), Some(state)) = (carried.sequences.get_mut(&id), number(packet, STATE)) {
                (sequence.noted.state, sequence.is_readable) = (state, false);
                (sequence.is_due, sequence.is_overwritten) = (true, true);
            }
        }
        for packet in noted(&state, PLACE) {
            let id = PacketView::of(packet).sequence_id as Id;
            let chunks = of_sequence.get(&id).map_or(&[][..], Vec::as_slice);
            if let (Some(sequence), Some(told)) = (carried.sequences.get_mut(&id), message(packet, PLACE)) {
                sequence.go_on_from(told, chunks);
            }
        }
        Some(Self { kept: Some(kept), ..carried })
    }
}
