//! `select`: a cursor's way along a path, and the rounds of its loops.

use super::cell::{NONE, Span};
use super::error::{OrAbort, Step, Stop};
use super::program::{Component, Cursor, Instruction};
use super::run::{Dst, Run, Src, Waiting};
use super::wire::Field;

impl Run<'_, '_> {
    /// Moves the cursor of a `select` along its path from component `at` on, up to a loop or to the nested
    /// instructions, which then lie on the stack.
    pub(super) fn path(&mut self, select: u32, mut at: u32) -> Step<()> {
        let instruction = *self.program.instruction(select).or_abort()?;
        if instruction.cursor == Cursor::Source && instruction.create {
            return Err(Stop::Abort);
        }
        let (_, end) = instruction.path();
        while at < end {
            self.charge()?;
            let step = *self.program.component(at).or_abort()?;
            if step.field == 0 {
                return Err(Stop::Abort);
            }
            at = at.checked_add(1).or_abort()?;
            if step.is_repeated {
                return self.begin_loop(&instruction, select, at, &step);
            }
            let element = if at < end { self.program.component(at).copied() } else { None };
            let element = element.filter(|next| next.field == 0 && next.is_element());
            if element.is_some() {
                at = at.checked_add(1).or_abort()?;
            }
            if instruction.cursor == Cursor::Source {
                self.step_src(&step, element)?;
            } else {
                self.step_dst(&instruction, &step, element)?;
            }
        }
        self.nested(&instruction)
    }

    fn step_src(&mut self, step: &Component, element: Option<Component>) -> Step<()> {
        let mut rest = self.src.bytes()?;
        let index = match element {
            Some(element) => element.array_index().or_abort()?,
            None => 0,
        };
        let mut seen = 0;
        loop {
            let field = self.next_of(&mut rest, step.field)?.ok_or(Stop::Error)?;
            if seen == index {
                self.src = Src::of(&field);
                return Ok(());
            }
            seen = seen.saturating_add(1);
        }
    }

    /// The next field with that number in a part of the patch.
    fn next_of(&mut self, rest: &mut Span, id: u32) -> Step<Option<Field>> {
        loop {
            match self.next_field(rest)? {
                Some(field) if field.id != id => {}
                found => return Ok(found),
            }
        }
    }

    fn step_dst(&mut self, select: &Instruction, step: &Component, element: Option<Component>) -> Step<()> {
        let key = match element {
            Some(element) if element.array_index().is_none() => {
                Some(self.register(element.register().or_abort()?)?)
            }
            _ => None,
        };
        let node = self.dst.node()?;
        self.arena.make_message(node).or_abort()?;
        let mut child = self.arena.find(node, step.field.into());
        if child == NONE {
            let index = element.and_then(|element| element.array_index());
            if !select.create && index.is_none() {
                return Err(Stop::Error);
            }
            child = self.arena.child(node, step.field.into()).or_abort()?;
        }
        let Some(element) = element else {
            if self.arena.cell(child).kind().is_list() {
                return Err(Stop::Abort);
            }
            self.dst = Dst::child(child, node);
            return Ok(());
        };
        let within = if let Some(index) = element.array_index() {
            self.arena.make_indexed(child).or_abort()?;
            let found = self.arena.find(child, index.into());
            if found == NONE && index > self.arena.cell(child).content.high.get() {
                return Err(Stop::Abort);
            }
            self.arena.child(child, index.into())
        } else {
            self.arena.make_mapped(child, element.map_key_field().or_abort()?).or_abort()?;
            self.arena.child(child, key.or_abort()?)
        };
        self.dst = Dst::child(within.or_abort()?, child);
        Ok(())
    }

    /// Puts a loop on the stack; its first round is still to come.
    fn begin_loop(
        &mut self,
        select: &Instruction,
        instruction: u32,
        after: u32,
        step: &Component,
    ) -> Step<()> {
        match select.cursor {
            Cursor::Source => {
                let Span { at, len, .. } = self.src.bytes()?;
                self.push(Waiting::SrcLoop { instruction, after, at, len })
            }
            Cursor::State => {
                let node = self.dst.node()?;
                self.arena.make_message(node).or_abort()?;
                match self.arena.find(node, step.field.into()) {
                    NONE => Ok(()),
                    list => {
                        self.arena.make_indexed(list).or_abort()?;
                        self.push(Waiting::DstLoop { instruction, after, list, from: 0 })
                    }
                }
            }
            Cursor::Other => Err(Stop::Abort),
        }
    }

    /// The next round of a loop over fields of the patch, or its end.
    pub(super) fn src_round(&mut self, instruction: u32, after: u32, mut rest: Span) -> Step<()> {
        self.charge()?;
        let field = after.checked_sub(1).and_then(|at| self.program.component(at)).or_abort()?.field;
        let Some(found) = self.next_of(&mut rest, field)? else { return self.pop(Ok(())) };
        self.src = Src::of(&found);
        self.replace(Waiting::SrcLoop { instruction, after, at: rest.at, len: rest.len })?;
        self.path(instruction, after)
    }

    /// The next round of a loop over elements of the state, or its end.
    pub(super) fn dst_round(&mut self, instruction: u32, after: u32, list: u32, from: u64) -> Step<()> {
        self.charge()?;
        let element = self.arena.first_from(list, from);
        if element == NONE {
            return self.pop(Ok(()));
        }
        self.dst = Dst::fixed(element);
        let from = self.arena.cell(element).key.get().checked_add(1).or_abort()?;
        self.replace(Waiting::DstLoop { instruction, after, list, from })?;
        self.path(instruction, after)
    }
}
