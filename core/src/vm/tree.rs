//! Balanced trees: the children of a node by key.
//!
//! AVL trees without links upwards: a change notes the way down and balances on the way back. The height of a tree of
//! 2^27 nodes is at most 38.

use super::arena::Arena;
use super::cell::{NONE, Side};
use core::cmp::Ordering;

/// The way from a tree's top down to a node.
struct Path {
    nodes: [u32; 40],
    len: usize,
}

impl Path {
    const fn new() -> Self {
        Self { nodes: [NONE; 40], len: 0 }
    }

    fn push(&mut self, at: u32) -> Option<()> {
        *self.nodes.get_mut(self.len)? = at;
        self.len = self.len.checked_add(1)?;
        Some(())
    }

    fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        self.nodes.get(self.len).copied()
    }

    fn last(&self) -> Option<u32> {
        self.nodes.get(self.len.checked_sub(1)?).copied()
    }
}

impl Arena<'_> {
    /// The child with that key, or [`NONE`].
    #[inline]
    pub(super) fn find(&self, owner: u32, key: u64) -> u32 {
        let mut at = self.cell(owner).children();
        while at != NONE {
            let cell = self.cell(at);
            at = match key.cmp(&cell.key.get()) {
                Ordering::Less => cell.left.get(),
                Ordering::Equal => break,
                Ordering::Greater => cell.right.get(),
            };
        }
        at
    }

    /// The child with the lowest key that is not below `key`, or [`NONE`].
    pub(super) fn first_from(&self, owner: u32, key: u64) -> u32 {
        let (mut at, mut found) = (self.cell(owner).children(), NONE);
        while at != NONE {
            let cell = self.cell(at);
            at = if cell.key.get() < key {
                cell.right.get()
            } else {
                found = at;
                cell.left.get()
            };
        }
        found
    }

    /// Links a new node, whose key no child has yet.
    pub(super) fn link(&mut self, owner: u32, node: u32) -> Option<()> {
        let key = self.cell(node).key.get();
        let mut path = Path::new();
        let (mut above, mut side) = (owner, Side::Content);
        let mut at = self.cell(owner).children();
        while at != NONE {
            path.push(at);
            let cell = self.cell(at);
            (above, side, at) = match key < cell.key.get() {
                true => (at, Side::Left, cell.left.get()),
                false => (at, Side::Right, cell.right.get()),
            };
        }
        self.set_side(above, side, node)?;
        self.balance(owner, &mut path)
    }

    /// Unlinks the child with that key; what it holds stays with it.
    pub(super) fn unlink(&mut self, owner: u32, key: u64) -> Option<()> {
        let mut path = Path::new();
        let mut node = self.cell(owner).children();
        loop {
            let cell = self.cell((node != NONE).then_some(node)?);
            match key.cmp(&cell.key.get()) {
                Ordering::Equal => break,
                order => {
                    path.push(node);
                    node = if order == Ordering::Less { cell.left.get() } else { cell.right.get() };
                }
            }
        }
        let (left, right) = (self.cell(node).left.get(), self.cell(node).right.get());
        let above = path.last().unwrap_or(owner);
        if left == NONE || right == NONE {
            self.replace(owner, above, node, left.max(right))?;
        } else {
            // The next one takes its place.
            let place = path.len;
            path.push(node);
            let mut next = right;
            while self.cell(next).left.get() != NONE {
                path.push(next);
                next = self.cell(next).left.get();
            }
            let below = self.cell(next).right.get();
            self.replace(owner, path.last()?, next, below)?;
            self.replace(owner, above, node, next)?;
            let taken = *self.cell(node);
            let cell = self.edit(next)?;
            (cell.left, cell.right, cell.height) = (taken.left, taken.right, taken.height);
            *path.nodes.get_mut(place)? = next;
        }
        let cell = self.edit(node)?;
        cell.left.set(NONE);
        cell.right.set(NONE);
        cell.height = 1;
        self.balance(owner, &mut path)
    }

    /// Puts `by` where `above` has `node`; above the top of the tree is its owner.
    fn replace(&mut self, owner: u32, above: u32, node: u32, by: u32) -> Option<()> {
        let side = if above == owner {
            Side::Content
        } else if self.cell(above).left.get() == node {
            Side::Left
        } else {
            Side::Right
        };
        self.set_side(above, side, by)
    }

    /// Balances the nodes of a path from below, as far as heights have changed.
    fn balance(&mut self, owner: u32, path: &mut Path) -> Option<()> {
        while let Some(node) = path.pop() {
            let cell = self.cell(node);
            let before = cell.height;
            let (left, right) = (cell.left.get(), cell.right.get());
            let (left_height, right_height) = (self.height(left), self.height(right));
            let top = if left_height > right_height.saturating_add(1) {
                self.lift(node, left, Side::Left)?
            } else if right_height > left_height.saturating_add(1) {
                self.lift(node, right, Side::Right)?
            } else {
                let height = left_height.max(right_height).saturating_add(1);
                if height == before {
                    break;
                }
                self.edit(node)?.height = height;
                continue;
            };
            self.replace(owner, path.last().unwrap_or(owner), node, top)?;
            if self.height(top) == before {
                break;
            }
        }
        Some(())
    }

    /// Lifts the child on that side, which is too high, above its upper node. Returns what is on top then.
    fn lift(&mut self, node: u32, child: u32, side: Side) -> Option<u32> {
        let (outer, inner) = self.sides(child, side);
        if self.height(inner) > self.height(outer) {
            let top = self.rotate(child, side.other())?;
            self.set_side(node, side, top)?;
        }
        self.rotate(node, side)
    }

    /// Lifts the child on that side above its upper node. Returns the child; to link it is left to the caller.
    fn rotate(&mut self, node: u32, side: Side) -> Option<u32> {
        let (child, rest) = self.sides(node, side);
        let (outer, inner) = self.sides(child, side);
        self.set_side(node, side, inner)?;
        self.set_side(child, side.other(), node)?;
        let height = self.height(inner).max(self.height(rest)).saturating_add(1);
        self.edit(node)?.height = height;
        let height = self.height(outer).max(height).saturating_add(1);
        self.edit(child)?.height = height;
        Some(child)
    }

    fn sides(&self, node: u32, side: Side) -> (u32, u32) {
        let cell = self.cell(node);
        let (left, right) = (cell.left.get(), cell.right.get());
        if side == Side::Left { (left, right) } else { (right, left) }
    }

    pub(super) fn height(&self, node: u32) -> u8 {
        if node == NONE { 0 } else { self.cell(node).height }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell::Kind;
    use super::*;
    use std::collections::BTreeSet;
    use std::vec;

    /// The heights of all nodes are right, and no two siblings' differ by more than one.
    fn check(arena: &Arena<'_>, at: u32) -> u8 {
        if at == NONE {
            return 0;
        }
        let cell = *arena.cell(at);
        let (left, right) = (check(arena, cell.left.get()), check(arena, cell.right.get()));
        assert!(left.abs_diff(right) <= 1);
        assert_eq!(cell.height, 1 + left.max(right));
        cell.height
    }

    #[test]
    fn trees_stay_balanced_and_in_order_whatever_is_linked_and_unlinked() {
        let mut memory = vec![0; 64 * 1024];
        let mut arena = Arena::new(&mut memory, 0).unwrap();
        let mut model = BTreeSet::new();
        let mut random = 1_u64;
        for round in 0..4000_u64 {
            assert!(arena.begin(1000));
            arena.edit(0).unwrap().kind = Kind::Message as u8;
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // First mostly in order, then anywhere.
            let key = if round < 1000 { round % 600 } else { (random >> 40) % 600 };
            let found = arena.find(0, key);
            assert_eq!(found != NONE, model.contains(&key));
            if found == NONE {
                let node = arena.node(key).unwrap();
                arena.link(0, node).unwrap();
                model.insert(key);
            } else {
                arena.unlink(0, key).unwrap();
                arena.drop_node(found).unwrap();
                model.remove(&key);
            }
            arena.commit();
            check(&arena, arena.cell(0).children());
            assert_eq!(arena.used() as usize, 1 + model.len());
            let next = arena.first_from(0, key + 1);
            let next = (next != NONE).then(|| arena.cell(next).key.get());
            assert_eq!(next, model.range(key + 1..).next().copied());
        }
        let mut at = 0;
        for key in &model {
            let node = arena.first_from(0, at);
            assert_eq!(arena.cell(node).key.get(), *key);
            at = key + 1;
        }
    }
}
