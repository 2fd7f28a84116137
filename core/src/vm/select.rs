//! `select`: a cursor's way along a path, and the rounds of its loops.

use super::cell::{HIGH, INDEXED, KEY, MAPPED, NONE};
use super::program::{INDEX, MAP_KEY, SOURCE, STATE, Step};
use super::run::{Run, STAYS, Waiting};
use super::wire::{LENGTH, Span};

impl Run<'_, '_> {
    /// Moves the cursor of a `select` along its path from component `at` on, up to a loop or to the nested
    /// instructions, which then lie on the stack.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn path(&mut self, select: u32, mut at: u32) -> bool {
        let instruction = self.step(select);
        let Step { cursor, detail: create, end, .. } = *instruction;
        if cursor == SOURCE && create != 0 {
            return self.abort();
        }
        while at < end {
            self.charge();
            let step = self.step(at);
            at = at.wrapping_add(1);
            let leads_on = if cursor == SOURCE { self.src.wire == LENGTH } else { self.dst != NONE };
            if step.first == 0 || !leads_on {
                return self.abort();
            }
            if step.level != 0 {
                return self.begin_loop(cursor, select, at, step.first);
            }
            let is_ok = if cursor == SOURCE { self.step_src(step) } else { self.step_dst(create != 0, step) };
            if !is_ok || self.arena.failed {
                return false;
            }
        }
        self.nested(instruction)
    }

    fn step_src(&mut self, step: &Step) -> bool {
        let mut rest = self.src.bytes();
        let mut before = match step.op {
            0 => 0,
            INDEX => step.end,
            _ => return self.abort(),
        };
        while self.arena.field_of(&mut rest, step.first, &mut self.src) {
            if before == 0 {
                return true;
            }
            before = before.wrapping_sub(1);
        }
        false
    }

    fn step_dst(&mut self, create: bool, step: &Step) -> bool {
        let (node, id) = (self.node(), step.first);
        let mut key = u64::from(step.end);
        if step.op == MAP_KEY {
            key = self.register(step.detail);
        }
        self.arena.make_message(node);
        if !create && step.op != INDEX && self.arena.find(node, id.into()) == NONE {
            return false;
        }
        let mut child = self.arena.child(node, id.into());
        if step.op != 0 {
            let kind = if step.op == INDEX { INDEXED } else { MAPPED };
            let list = self.arena.make_list(child, kind, step.end);
            let count = self.arena.word(list, HIGH);
            child = self.arena.child(list, key);
            // It may be appended, but not beyond that.
            if kind == INDEXED && step.end > count && self.arena.word(list, HIGH) != count {
                return self.abort();
            }
        } else if self.arena.kind(child) >= INDEXED {
            return self.abort();
        }
        self.dst = child;
        true
    }

    /// Puts a loop on the stack; its first round is still to come.
    fn begin_loop(&mut self, cursor: u8, select: u32, after: u32, id: u32) -> bool {
        let mut of = self.src.value;
        if cursor == STATE {
            let node = self.node();
            self.arena.make_message(node);
            let child = self.arena.find(node, id.into());
            if child == NONE {
                return true;
            }
            of = [self.arena.make_list(child, INDEXED, 0), 0];
        } else if cursor != SOURCE {
            return self.abort();
        }
        self.push(Waiting::Loop { select, after, of });
        true
    }

    /// The next round of a loop, or its end.
    pub(super) fn round(&mut self, select: u32, after: u32, of: [u32; 2]) -> bool {
        self.charge();
        let [at, rest] = of;
        let mut fields = Span { at, len: rest };
        if self.step(select).cursor == SOURCE {
            let id = self.step(after.wrapping_sub(1)).first;
            if !self.arena.field_of(&mut fields, id, &mut self.src) {
                return true;
            }
        } else {
            let element = self.arena.first_from(at, rest.into());
            if element == NONE {
                return true;
            }
            self.dst = element | STAYS;
            fields.len = self.arena.word(element, KEY).wrapping_add(1);
        }
        self.push(Waiting::Loop { select, after, of: [fields.at, fields.len] });
        self.path(select, after)
    }
}
