//! The check of a state that was found in memory.

use super::arena::Arena;
use super::cell::{Kind, NONE, PAYLOAD};
use super::walk::{MARK, ROOT, Visit, Walk};
use super::wire::MAX_FIELD;

/// Whether all nodes are those of a balanced tree of what can be in a state, no cell twice. If so, all other cells are
/// free.
pub(super) fn check(arena: &mut Arena<'_>) -> Option<()> {
    arena.unmark(MARK);
    let root = arena.cell(ROOT);
    let alone = root.left.get() == NONE && root.right.get() == NONE;
    if !alone || !root.is_sound() || root.kind().is_list() || root.kind() == Kind::Scalar {
        return None;
    }
    let mut walk = Walk::new(arena, MARK);
    // The key of the sibling before.
    let mut before = None;
    loop {
        match walk.next(arena)? {
            Visit::Enter(ROOT) => mark_chain(arena, ROOT)?,
            Visit::Enter(at) => {
                node(arena, &walk, at, before)?;
                mark_chain(arena, at)?;
                before = None;
            }
            Visit::Leave(at) => {
                let cell = arena.cell(at);
                before = Some(cell.key.get());
                if cell.kind() == Kind::Indexed && cell.content.high.get() != count(arena, at)? {
                    return None;
                }
            }
            Visit::End => break,
        }
    }
    arena.keep_marked(MARK);
    Some(())
}

/// A node other than the root, by itself and in its place.
fn node(arena: &Arena<'_>, walk: &Walk, at: u32, before: Option<u64>) -> Option<()> {
    let cell = arena.cell(at);
    let key = cell.key.get();
    let ordered = before.is_none_or(|before| before < key);
    let (left, right) = (arena.height(cell.left.get()), arena.height(cell.right.get()));
    let balanced = left.abs_diff(right) <= 1 && Some(cell.height) == left.max(right).checked_add(1);
    let fits = match walk.list {
        NONE => (1..=MAX_FIELD.into()).contains(&key),
        list if arena.cell(list).kind() == Kind::Indexed => key <= u32::MAX.into() && !cell.kind().is_list(),
        _ => !cell.kind().is_list(),
    };
    (ordered && balanced && fits && cell.is_sound()).then_some(())
}

/// Marks the cells of a node's bytes, which must be as many as it says.
fn mark_chain(arena: &mut Arena<'_>, at: u32) -> Option<()> {
    let cell = arena.cell(at);
    let Some(mut next) = cell.chain() else { return Some(()) };
    for _ in 0..(cell.content.high.get() as usize).div_ceil(PAYLOAD) {
        if next == NONE || !arena.has(next) {
            return None;
        }
        let link = &mut arena.cell_mut(next).link;
        if link.get() & MARK != 0 {
            return None;
        }
        next = link.get();
        link.set(next | MARK);
    }
    (next == NONE).then_some(())
}

fn count(arena: &Arena<'_>, list: u32) -> Option<u32> {
    let (mut count, mut from) = (0_u32, 0);
    loop {
        let element = arena.first_from(list, from);
        if element == NONE {
            return Some(count);
        }
        count = count.checked_add(1)?;
        from = arena.cell(element).key.get().checked_add(1)?;
    }
}
