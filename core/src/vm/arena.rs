//! The arena: cells in the caller's memory, given out and taken back.

use super::cell::{Cell, Kind, NONE, PAYLOAD, Side};
use super::error::VmError;
use super::wire::{BYTES, Field, Source, copy};
use crate::buffer::words::Le32;
use core::mem::size_of;
use core::sync::atomic::{Ordering, compiler_fence};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// "tbvm" in memory.
const MAGIC: u32 = u32::from_le_bytes(*b"tbvm");
const VERSION: u32 = 1;

/// Cells of the smallest arena: the root, and enough for a patch that sets a number.
const LEAST_CELLS: usize = 8;

/// Indexes take 27 bits: the others of a link are for marks.
const MOST_CELLS: usize = 1 << 27;

/// The start of the memory; as large as a cell.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Header {
    magic: Le32,
    version: Le32,
    cells: Le32,
    program: Le32,
    /// Of the words before it.
    check: Le32,
    /// The newest record of the patch in progress, or [`NONE`].
    pub(super) journal: Le32,
    reserved: [u8; 8],
}

impl Header {
    fn checksum(&self) -> u32 {
        fnv(self.as_bytes().get(..16).unwrap_or_default())
    }
}

/// FNV-1a: tells headers and programs from others, by accident and not by intent.
pub(super) fn fnv(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811C_9DC5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The memory and who has which cells of it.
pub(super) struct Arena<'m> {
    pub(super) header: &'m mut Header,
    pub(super) cells: &'m mut [Cell],
    /// What indexes beyond the end stand for. None is, in a state that was checked; so looking needs no way to fail.
    spare: Cell,
    /// The first free cell, and the first that was never used.
    free: u32,
    fresh: u32,
    used: u32,
    high_water: u32,
    /// The greatest stamp so far, and the patch's own. A node with a lower stamp is not in the journal yet.
    pub(super) stamp: u32,
    pub(super) patch: u32,
    /// What the patch took (even words) and dropped (odd ones): the newest cell of the list, and its words in use.
    pub(super) log: u32,
    pub(super) logged: usize,
    /// Cells that may still be taken, and fields looked at, during the patch.
    pub(super) budget: u32,
}

impl<'m> Arena<'m> {
    /// Lays out an empty state.
    pub(super) fn new(memory: &'m mut [u8], program: u32) -> Result<Self, VmError> {
        let arena = Self::over(memory)?;
        // What was there is none from the first store on, and what is new is there from the last.
        arena.header.magic.set(0);
        fence();
        *arena.cells.first_mut().ok_or(VmError::Damaged)? = Cell::default();
        let mut header = Header {
            magic: Le32::new(MAGIC),
            version: Le32::new(VERSION),
            cells: Le32::new(arena.cells.len() as u32),
            program: Le32::new(program),
            ..Header::default()
        };
        header.check.set(header.checksum());
        *arena.header = Header { magic: Le32::default(), ..header };
        fence();
        arena.header.magic = header.magic;
        Ok(arena)
    }

    /// Takes over a state that may be in the middle of a patch, and takes it back to before that patch. The nodes are
    /// still to be checked.
    pub(super) fn found(memory: &'m mut [u8], program: u32) -> Result<Self, VmError> {
        let mut arena = Self::over(memory).map_err(|_| VmError::NoState)?;
        let header = &arena.header;
        if header.magic.get() != MAGIC
            || header.version.get() != VERSION
            || header.check.get() != header.checksum()
        {
            return Err(VmError::NoState);
        }
        if header.cells.get() as usize > arena.cells.len() {
            return Err(VmError::Damaged);
        }
        if header.program.get() != program {
            return Err(VmError::OtherProgram);
        }
        let cells = header.cells.get() as usize;
        arena.cells = core::mem::take(&mut arena.cells).get_mut(..cells).ok_or(VmError::Damaged)?;
        arena.roll_back().ok_or(VmError::Damaged)?;
        Ok(arena)
    }

    fn over(memory: &'m mut [u8]) -> Result<Self, VmError> {
        const SIZE: usize = size_of::<Cell>();
        let too_small = VmError::TooSmall { needed: size_of::<Header>() + LEAST_CELLS * SIZE };
        let unaligned = memory.as_ptr().align_offset(align_of::<Cell>());
        let memory = memory.get_mut(unaligned..).ok_or(too_small)?;
        let (header, rest) = Header::mut_from_prefix(memory).map_err(|_| too_small)?;
        let count = (rest.len() / SIZE).min(MOST_CELLS);
        let (cells, _) = <[Cell]>::mut_from_prefix_with_elems(rest, count).map_err(|_| too_small)?;
        if count < LEAST_CELLS {
            return Err(too_small);
        }
        Ok(Self {
            header,
            cells,
            spare: Cell::default(),
            free: NONE,
            fresh: 1,
            used: 1,
            high_water: 1,
            stamp: 0,
            patch: 0,
            log: NONE,
            logged: 0,
            budget: 0,
        })
    }

    /// The memory as it is.
    #[cfg(test)]
    pub(super) fn image(&self) -> std::vec::Vec<u8> {
        [self.header.as_bytes(), self.cells.as_bytes()].concat()
    }

    pub(super) fn len(&self) -> u32 {
        self.cells.len() as u32
    }

    pub(super) fn used(&self) -> u32 {
        self.used
    }

    pub(super) fn high_water(&self) -> u32 {
        self.high_water
    }

    pub(super) fn source<'a>(&'a self, flat: &'a [u8]) -> Source<'a> {
        Source { cells: self.cells, flat }
    }

    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn cell(&self, at: u32) -> &Cell {
        self.cells.get(at as usize).unwrap_or(&self.spare)
    }

    /// A cell to be changed that is no node of the state before the patch.
    #[cfg_attr(not(target_os = "none"), inline)]
    #[cfg_attr(target_os = "none", inline(never))]
    pub(super) fn cell_mut(&mut self, at: u32) -> &mut Cell {
        #[cfg(test)]
        super::tests::crash_here(|| self.image());
        match self.cells.get_mut(at as usize) {
            Some(cell) => cell,
            None => {
                self.spare = Cell::default();
                &mut self.spare
            }
        }
    }

    pub(super) fn has(&self, at: u32) -> bool {
        at < self.len()
    }

    /// Counts a look at a field; `None` if the budget is used up.
    pub(super) fn charge(&mut self) -> Option<()> {
        self.budget = self.budget.checked_sub(1)?;
        Some(())
    }

    /// A new node with nothing in it.
    pub(super) fn node(&mut self, key: u64) -> Option<u32> {
        let at = self.take()?;
        let link = Le32::new(self.patch);
        let cell = self.cell_mut(at);
        *cell = Cell { height: 1, link, ..Cell::default() };
        cell.key.set(key);
        Some(at)
    }

    /// Moves a node's content into a node of its own that goes when the patch is done. Returns that one.
    pub(super) fn displace(&mut self, at: u32) -> Option<u32> {
        let holder = self.node(0)?;
        self.move_content(at, holder)?;
        self.drop_node(holder)?;
        Some(holder)
    }

    pub(super) fn move_content(&mut self, from: u32, to: u32) -> Option<()> {
        let content = self.edit(from)?;
        let before = *content;
        content.become_empty(Kind::Empty);
        self.edit(to)?.take_content(&before);
        Some(())
    }

    /// Lets an unlinked node and all below it go when the patch is done.
    pub(super) fn drop_node(&mut self, at: u32) -> Option<()> {
        self.note(at << 1 | 1)
    }

    /// Puts a field's value into an empty node; its bytes come from `flat` or from a chain.
    pub(super) fn store(&mut self, at: u32, field: &Field, flat: &[u8]) -> Option<()> {
        if field.wire != BYTES {
            self.edit(at)?.become_scalar(field.wire, field.value);
            return Some(());
        }
        let mut rest = field.bytes;
        let mut piece = [0; PAYLOAD];
        self.source(flat).read(&mut rest, &mut piece)?;
        if let Some(short) = self.edit(at)?.become_short(field.bytes.len) {
            copy(short, &piece);
            return Some(());
        }
        let first = self.take()?;
        let mut last = first;
        loop {
            let cell = self.cell_mut(last);
            copy(cell.payload_mut(), &piece);
            cell.link.set(NONE);
            if rest.len == 0 {
                break;
            }
            self.source(flat).read(&mut rest, &mut piece)?;
            let next = self.take()?;
            self.cell_mut(last).link.set(next);
            last = next;
        }
        self.edit(at)?.become_long(first, field.bytes.len);
        Some(())
    }

    pub(super) fn take_unnoted(&mut self) -> Option<u32> {
        let at = match self.free {
            NONE => {
                let at = self.fresh;
                self.has(at).then_some(())?;
                self.fresh = self.fresh.checked_add(1)?;
                at
            }
            at => {
                self.free = self.cell(at).link.get();
                at
            }
        };
        self.used = self.used.checked_add(1)?;
        self.high_water = self.high_water.max(self.used);
        Some(at)
    }

    pub(super) fn give(&mut self, at: u32) {
        let free = self.free;
        self.cell_mut(at).link.set(free);
        self.free = at;
        self.used = self.used.saturating_sub(1);
    }

    /// Frees a node and all below it. Nodes still to be freed form a list of their links.
    pub(super) fn give_tree(&mut self, at: u32) {
        let mut work = NONE;
        self.push(at, &mut work);
        while work != NONE {
            let at = work;
            let cell = *self.cell(at);
            work = cell.link.get();
            for next in [cell.left.get(), cell.right.get(), cell.children()] {
                self.push(next, &mut work);
            }
            let mut chain = cell.chain().unwrap_or(NONE);
            while chain != NONE {
                let next = self.cell(chain).link.get();
                self.give(chain);
                chain = next;
            }
            self.give(at);
        }
    }

    fn push(&mut self, at: u32, list: &mut u32) {
        if at != NONE {
            self.cell_mut(at).link.set(*list);
            *list = at;
        }
    }

    /// Counts only marked cells as used, and unmarks them: all others are free from now on.
    pub(super) fn keep_marked(&mut self, mark: u32) {
        (self.free, self.fresh, self.used) = (NONE, self.len(), 0);
        let mut free = NONE;
        for (at, cell) in self.cells.iter_mut().enumerate().rev() {
            let link = cell.link.get();
            if link & mark != 0 {
                cell.link.set(link & !mark);
                self.used = self.used.saturating_add(1);
            } else {
                cell.link.set(free);
                free = at as u32;
            }
        }
        self.free = free;
        self.high_water = self.used;
    }

    /// Takes a mark off all cells.
    pub(super) fn unmark(&mut self, mark: u32) {
        for cell in self.cells.iter_mut() {
            cell.link.set(cell.link.get() & !mark);
        }
    }

    /// Replaces a node's link to a child.
    pub(super) fn set_side(&mut self, at: u32, side: Side, child: u32) -> Option<()> {
        self.edit(at)?.side_mut(side).set(child);
        Some(())
    }

    /// A scratch word of a message, which no patch relies on: its length while it is written.
    pub(super) fn scratch(&mut self, at: u32) -> &mut Le32 {
        &mut self.cell_mut(at).content.high
    }
}

/// Stores before it are made before those after it.
pub(super) fn fence() {
    compiler_fence(Ordering::SeqCst);
}
