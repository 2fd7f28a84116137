//! States that are laid out, or found in memory and checked; and cells that become free.

use super::arena::{Arena, LOG, Live, NO_LOG, fence};
use super::cell::{
    BYTES, CELL, Cell, DETAIL_SHIFT, HIGH, INDEXED, KEY, LEFT, LINK, LONG, LOW, MAPPED, MARK, MESSAGE, META,
    MOST_CELLS, NONE, PAYLOAD, RIGHT, ROOT, SCALAR, WHAT,
};
use super::error::VmError;
use super::wire::MAX_FIELD;
use zerocopy::FromBytes;

/// "tbv2": this layout.
const MAGIC: u32 = u32::from_le_bytes(*b"tbv2");

/// Words of the header, besides [`LOG`]; the others are 0, so that what is no cell has no content.
const MAGIC_AT: u32 = 0;
const CELLS: u32 = 1;
const PROGRAM: u32 = 3;
/// A checksum of the two before.
const CHECK: u32 = 4;

/// Cells of the smallest arena: the header, the registers, the root, and enough for a patch that sets a number.
const LEAST_CELLS: usize = (ROOT / CELL + 8) as usize;

/// A step of FNV-1a, also of words: tells headers and programs from others, by accident and not by intent.
pub(super) const fn mixed(hash: u32, word: u32) -> u32 {
    (hash ^ word).wrapping_mul(0x0100_0193)
}

/// The cells of a memory.
pub(super) fn cells_of(memory: &mut [u8]) -> Result<&mut [Cell], VmError> {
    let too_small = VmError::TooSmall { needed: LEAST_CELLS * size_of::<Cell>() };
    let unaligned = memory.as_ptr().align_offset(align_of::<Cell>());
    let memory = memory.get_mut(unaligned..).ok_or(too_small)?;
    let count = (memory.len() / size_of::<Cell>()).min(MOST_CELLS);
    if count < LEAST_CELLS {
        return Err(too_small);
    }
    let (cells, _) = <[Cell]>::mut_from_prefix_with_elems(memory, count).map_err(|_| too_small)?;
    Ok(cells)
}

/// Lays out an empty state, or takes over one that may be in the middle of a patch, as it was before that patch.
pub(super) fn open(memory: &mut [u8], program: u32, is_new: bool) -> Result<(&mut [Cell], Live), VmError> {
    let cells = cells_of(memory).map_err(|error| if is_new { error } else { VmError::NoState })?;
    let mut arena = Arena::new(cells, Live::default(), &[], u32::MAX);
    if is_new {
        // What was there is none from the first store on, and what is new is there from the last.
        for at in MAGIC_AT..ROOT + CELL {
            arena.set(at, 0);
            fence();
        }
        let count = arena.cells.len() as u32;
        arena.set(LOG, NO_LOG);
        arena.set(CELLS, count);
        arena.set(PROGRAM, program);
        arena.set(CHECK, mixed(count, program));
        fence();
        arena.set(MAGIC_AT, MAGIC);
    }
    let (count, of) = (arena.get(CELLS), arena.get(PROGRAM));
    if arena.get(MAGIC_AT) != MAGIC || arena.get(CHECK) != mixed(count, of) {
        return Err(VmError::NoState);
    }
    if of != program {
        return Err(VmError::OtherProgram);
    }
    arena.cells = core::mem::take(&mut arena.cells).get_mut(..count as usize).unwrap_or_default();
    if arena.roll_back() && arena.recover(is_new) {
        Ok((arena.cells, arena.live))
    } else {
        Err(VmError::Damaged)
    }
}

impl Arena<'_> {
    /// Whether all nodes are those of trees of what can be in a state, no cell twice. All other cells are free then.
    fn recover(&mut self, is_new: bool) -> bool {
        let end = (self.cells.len() as u32).wrapping_mul(CELL);
        let mut cell = ROOT;
        while cell < end {
            self.set(cell | LINK, self.word(cell, LINK) & !MARK);
            cell += CELL;
        }
        if is_new {
            self.set(ROOT | LINK, MARK);
        } else if !self.sweep(ROOT, MARK) {
            return false;
        }
        (self.live.free, self.live.used) = (NONE, (end - ROOT) / CELL);
        while cell > ROOT {
            cell -= CELL;
            let link = self.word(cell, LINK);
            if link & MARK != 0 {
                self.set(cell | LINK, link & !MARK);
            } else {
                self.give(cell);
            }
        }
        self.live.high_water = self.live.used;
        true
    }

    /// Goes over a node and all below it, and frees their cells, or checks and marks them; whether they are sound. What is
    /// still to be gone over forms a list of links.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn sweep(&mut self, top: u32, mark: u32) -> bool {
        let mut work = NONE;
        // Elements of indexed nodes, that these count more than there are.
        let mut elements = u32::from(!self.queue(top, NONE, mark, &mut work));
        while work != NONE {
            let at = work;
            work = self.word(at, LINK) & !MARK;
            let (kind, owner) = (self.kind(at), self.owner(at));
            if mark != 0 {
                if !self.is_sound(at) {
                    return false;
                }
                if kind == INDEXED {
                    elements = elements.wrapping_add(self.word(at, HIGH));
                }
                if self.kind(owner) == INDEXED {
                    elements = elements.wrapping_sub(1);
                }
            }
            let mut top = self.word(at, LOW);
            if kind < MESSAGE {
                let is_long = kind == BYTES && (self.word(at, META) & WHAT) >> DETAIL_SHIFT == LONG;
                let mut len = if is_long { self.word(at, HIGH) } else { 0 };
                while len > 0 {
                    let next = self.word(top, LINK);
                    if mark == 0 {
                        self.give(top);
                    } else if !self.mark(top) {
                        return false;
                    }
                    (top, len) = (next, len.saturating_sub(PAYLOAD));
                }
                top = NONE;
            }
            let (left, right) = (self.word(at, LEFT), self.word(at, RIGHT));
            let queued = self.queue(top, at, mark, &mut work)
                && self.queue(left, owner, mark, &mut work)
                && self.queue(right, owner, mark, &mut work);
            if !queued {
                return false;
            }
            if mark == 0 {
                self.give(at);
            }
        }
        elements == 0
    }

    /// Appends a node, if there is one, to those to be gone over; whether it can be one of that owner's children.
    #[cfg_attr(tracebuf_size, inline(never))]
    fn queue(&mut self, at: u32, owner: u32, mark: u32, work: &mut u32) -> bool {
        if at != NONE {
            if mark != 0 && (self.owner(at) != owner || !self.mark(at)) {
                return false;
            }
            self.set(at | LINK, *work | mark);
            *work = at;
        }
        true
    }

    /// Marks a cell; whether it is one, and was not marked.
    #[cfg_attr(tracebuf_size, inline(never))]
    fn mark(&mut self, cell: u32) -> bool {
        let is_one = cell >= ROOT && cell.is_multiple_of(CELL);
        let Some(cell) = self.cells.get_mut((cell / CELL) as usize) else { return false };
        let link = cell.word(LINK);
        cell.set(LINK, link | MARK);
        is_one && link & MARK == 0
    }

    /// Whether a node can be one, and its siblings' tree leads to it.
    fn is_sound(&self, at: u32) -> bool {
        let (kind, owner) = (self.kind(at), self.owner(at));
        let detail = (self.word(at, META) & WHAT) >> DETAIL_SHIFT;
        let is_itself = match kind {
            SCALAR => detail <= 5 && 0b10_0011 >> detail & 1 != 0,
            BYTES => detail <= LONG,
            _ => kind <= MAPPED,
        };
        if at == ROOT {
            let is_alone = self.word(at, LEFT) | self.word(at, RIGHT) == NONE;
            return is_itself && is_alone && kind < INDEXED && kind != SCALAR;
        }
        let low = self.word(at, KEY);
        let fits = match self.kind(owner) {
            MESSAGE => low != 0 && low <= MAX_FIELD,
            _ => kind < INDEXED,
        };
        let is_short = self.kind(owner) == MAPPED || self.word(at, KEY | 1) == 0;
        is_itself && fits && is_short && self.find(owner, self.key(at)) == at
    }
}
