//! Attaching: regions found again after a crash, after a reset, or in a dump of memory.

mod cursor;
mod judge;
mod marks;
mod rebuild;
mod salvage;
#[cfg(test)]
mod tests;
mod walk;

#[cfg(test)]
pub(super) use tests::crash_here;

pub use salvage::Salvage;

use super::config::Config;
use super::error::{AttachError, RegionError};
use super::overwrite::Unobserved;
use super::read_only::ReadOnlyTraceBuffer;
use super::region::{RegionLayout, RingEnd, State};
use super::ring::fence;
use super::sequence_state::SequenceState;
use super::trace_buffer::TraceBuffer;

/// Whether patches, and the rest of scraped chunks, may still come to what is found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Program {
    GoesOn,
    Ended,
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> TraceBuffer<M> {
    /// Takes over a region with everything in it, however the program that filled it ended. The result is a buffer like
    /// any other: to be read, or to go on recording.
    ///
    /// Packets come out as they would have, with the losses before them. What had to be dropped is in the [`Salvage`],
    /// and the next packet of its sequence reports the loss. Nothing in the memory is trusted: the header's sizes and
    /// policy count if their checksum is right, what was being changed is taken back to what was published, and all
    /// else is rebuilt from the chunks.
    ///
    /// Without [`Config::crc`], bits of a payload that flipped in memory are only noticed where they change a
    /// fragment's size.
    ///
    /// Cost: a look at each fragment's size in the ring, and a pass over the payload if chunks have checksums; up to
    /// nine passes over the headers of chunks, and a few over the table. A chunk out of order walks back by at most
    /// [`WALK_LIMIT`](super::WALK_LIMIT) chunks. Where the chain of chunks is broken, 256 times at most, one more walk
    /// over the table and the headers before; to find where it goes on, no more than 32 times the ring's bytes are
    /// looked at in all.
    ///
    /// # Errors
    /// [`AttachError`]; the memory is then as it was.
    ///
    /// ```
    /// use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
    ///
    /// // On a microcontroller: a static that the start-up code does not clear.
    /// let mut memory = vec![0u8; 4096];
    /// let mut buffer = TraceBuffer::new(&mut memory[..], Config::new(FillPolicy::RingBuffer))?;
    /// let header = ChunkHeader { producer_id: 1, fragments: 1, ..Default::default() };
    /// buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x05hello" });
    /// // A reset.
    /// let (mut buffer, salvage) = TraceBuffer::attach(&mut memory[..])?;
    /// assert!(salvage.is_clean());
    /// assert_eq!(buffer.read().next_packet().unwrap().slices().next(), Some(&b"hello"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attach(mut memory: M) -> Result<(Self, Salvage), AttachError> {
        let layout = RegionLayout::find(memory.as_ref(), RingEnd::Required)?;
        let salvage = salvage(&layout, memory.as_mut(), Program::GoesOn)?;
        Ok((Self { memory, layout, observer: Unobserved }, salvage))
    }

    /// Attaches to a region that `config` could have made, or lays out a new one: for firmware at its start. The
    /// [`Salvage`] is `None` if the region is new.
    ///
    /// The region must agree with `config` in all except the policy, which is that of `config` from here on: a stopped
    /// buffer goes on as a ring, and a ring that has lapped takes nothing more if it is now to stop. What waits for a
    /// patch or for the rest of a chunk is given up, as by [`ReadOnlyTraceBuffer::attach_ended`].
    ///
    /// The sequences that are found keep their producers' numbers. Give new producers greater numbers than those in
    /// [`sequences`](TraceBuffer::sequences), or call [`forget_producer`](TraceBuffer::forget_producer) first.
    ///
    /// # Errors
    /// [`RegionError`] if there is no room for a new region.
    pub fn attach_or_new(mut memory: M, config: Config) -> Result<(Self, Option<Salvage>), RegionError> {
        let found = RegionLayout::find(memory.as_ref(), RingEnd::Required).ok().filter(|found| {
            RegionLayout::fit(memory.as_ref(), &config).is_ok_and(|wanted| wanted == *found)
                && found.has_checksums(memory.as_ref()) == config.crc
        });
        if let Some(layout) = found
            && let Ok(salvage) = salvage(&layout, memory.as_mut(), Program::Ended)
        {
            if let Some(state) = layout.state(memory.as_mut()) {
                state.header.set_policy(config.policy);
            }
            return Ok((Self { memory, layout, observer: Unobserved }, Some(salvage)));
        }
        Ok((Self::new(memory, config)?, None))
    }
}

impl<M: AsRef<[u8]> + AsMut<[u8]>> ReadOnlyTraceBuffer<M> {
    /// Like [`TraceBuffer::attach`], but the memory may end before the ring does, as that of a clone or of a cut-off
    /// dump.
    ///
    /// # Errors
    /// [`AttachError`]; the memory is then as it was.
    pub fn attach(memory: M) -> Result<(Self, Salvage), AttachError> {
        Self::attach_to(memory, Program::GoesOn)
    }

    /// Like [`attach`](Self::attach), for a program that has ended: a packet that waits for a patch or for the rest of
    /// a chunk is given up, so that those after it come out.
    ///
    /// # Errors
    /// [`AttachError`]; the memory is then as it was.
    pub fn attach_ended(memory: M) -> Result<(Self, Salvage), AttachError> {
        Self::attach_to(memory, Program::Ended)
    }

    fn attach_to(mut memory: M, program: Program) -> Result<(Self, Salvage), AttachError> {
        let layout = RegionLayout::find(memory.as_ref(), RingEnd::MayBeMissing)?;
        let salvage = salvage(&layout, memory.as_mut(), program)?;
        Ok((Self { memory, layout }, salvage))
    }
}

fn salvage(layout: &RegionLayout, memory: &mut [u8], program: Program) -> Result<Salvage, AttachError> {
    let mut state = layout.state(memory).ok_or(AttachError::NoRegion)?;
    Ok(state.salvage(layout.ring_size, program))
}

impl State<'_> {
    /// Makes a buffer out of what is found.
    fn salvage(&mut self, ring_size: u32, program: Program) -> Salvage {
        // Memory that ends between two chunks of the ring looks whole.
        let missing = self.header.used.get().min(self.header.ring_size()).saturating_sub(ring_size);
        let mut salvage = Salvage { bytes_unreadable: missing.into(), ..Salvage::default() };
        if self.header.is_old() {
            self.table.iter_mut().for_each(SequenceState::upgrade);
            fence();
            self.header.set_upgraded();
            fence();
        }
        self.forget_marks();
        let used = self.find_used(ring_size);
        self.header.used.set(used);
        self.salvage_ring(used, &mut salvage);
        self.rebuild_table(&mut salvage);
        self.place_cursor();
        self.rebuild_lists(&mut salvage);
        if program == Program::Ended {
            self.close_chunks(&mut salvage);
        }
        self.balance_counters();
        salvage
    }
}
