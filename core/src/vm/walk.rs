//! A walk through all nodes in order, in constant memory: each node's link leads up while the walk is below it.
//!
//! Links are 0 behind the walk, which is below every patch's stamp.

use super::arena::Arena;
use super::cell::{Kind, NONE};

/// The mark of cells that an [`attach`](super::attach) has seen, in their links.
pub(super) const MARK: u32 = 1 << 31;

/// The index of the root.
pub(super) const ROOT: u32 = 0;

/// A node, before and after what is below it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Visit {
    Enter(u32),
    Leave(u32),
    End,
}

/// What comes next at a node.
#[derive(Clone, Copy)]
enum Next {
    Left,
    Enter,
    Content,
    Leave,
    Right,
    Up,
}

/// A walk.
pub(super) struct Walk {
    at: u32,
    next: Next,
    mark: u32,
    /// The message around the node visited, and the list around it if it is an element; else [`NONE`].
    pub(super) message: u32,
    pub(super) list: u32,
}

impl Walk {
    /// From the root. With a `mark`, all nodes must be without it; they get it.
    pub(super) fn new(arena: &mut Arena<'_>, mark: u32) -> Self {
        arena.cell_mut(ROOT).link.set(mark);
        Self { at: ROOT, next: Next::Left, mark, message: NONE, list: NONE }
    }

    /// The next visit. `None` if the links are not those of a tree.
    pub(super) fn next(&mut self, arena: &mut Arena<'_>) -> Option<Visit> {
        loop {
            let cell = arena.cell(self.at);
            match self.next {
                Next::Left => self.down(arena, cell.left.get(), Next::Enter)?,
                Next::Enter => {
                    self.next = Next::Content;
                    return Some(Visit::Enter(self.at));
                }
                Next::Content => {
                    match cell.kind() {
                        Kind::Message => (self.message, self.list) = (self.at, NONE),
                        Kind::Indexed | Kind::Mapped => self.list = self.at,
                        _ => {}
                    }
                    self.down(arena, cell.children(), Next::Leave)?;
                }
                Next::Leave => {
                    if cell.kind().has_children() && self.at != ROOT {
                        self.surface(arena);
                    }
                    self.next = Next::Right;
                    return Some(Visit::Leave(self.at));
                }
                Next::Right => self.down(arena, cell.right.get(), Next::Up)?,
                Next::Up => {
                    if self.at == ROOT {
                        return Some(Visit::End);
                    }
                    let below = self.at;
                    self.at = cell.link.get() & !MARK;
                    arena.cell_mut(below).link.set(self.mark);
                    let cell = arena.cell(self.at);
                    self.next = if cell.left.get() == below {
                        Next::Enter
                    } else if cell.children() == below {
                        Next::Leave
                    } else {
                        Next::Up
                    };
                }
            }
        }
    }

    fn down(&mut self, arena: &mut Arena<'_>, to: u32, or: Next) -> Option<()> {
        if to == NONE {
            self.next = or;
            return Some(());
        }
        if !arena.has(to) {
            return None;
        }
        let link = &mut arena.cell_mut(to).link;
        if link.get() & self.mark != 0 {
            return None;
        }
        link.set(self.at | self.mark);
        (self.at, self.next) = (to, Next::Left);
        Some(())
    }

    /// Finds what is around the node again, after what was below it.
    fn surface(&mut self, arena: &Arena<'_>) {
        let around = owner(arena, self.at);
        (self.message, self.list) = match arena.cell(around).kind() {
            Kind::Message => (around, NONE),
            _ => (owner(arena, around), around),
        };
    }
}

/// The node among whose children this one is.
fn owner(arena: &Arena<'_>, mut at: u32) -> u32 {
    loop {
        let up = arena.cell(at).link.get() & !MARK;
        let cell = arena.cell(up);
        if cell.left.get() != at && cell.right.get() != at {
            return up;
        }
        at = up;
    }
}
