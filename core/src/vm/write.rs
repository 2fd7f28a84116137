//! The state as a message: measured in one walk, written in another.

use super::arena::Arena;
use super::cell::{Kind, NONE, Span};
use super::walk::{ROOT, Visit, Walk};
use crate::proto::{Sink, WireType, tag, varint};

/// The number of the field that the node visited is written as.
fn number(arena: &Arena<'_>, walk: &Walk, at: u32) -> Option<u32> {
    let named = if walk.list == NONE { at } else { walk.list };
    u32::try_from(arena.cell(named).key.get()).ok()
}

/// Leaves each message's length in it. Returns the whole state's; `None` if the memory is damaged.
pub(super) fn measure(arena: &mut Arena<'_>) -> Option<u32> {
    let mut walk = Walk::new(arena, 0);
    loop {
        match walk.next(arena)? {
            Visit::Enter(at) => {
                if arena.cell(at).kind() == Kind::Message {
                    arena.scratch(at).set(0);
                }
            }
            Visit::Leave(ROOT) => {}
            Visit::Leave(at) => {
                let cell = arena.cell(at);
                let value = match cell.kind() {
                    Kind::Scalar => match cell.wire {
                        0 => varint::len(cell.scalar()) as u32,
                        1 => 8,
                        _ => 4,
                    },
                    Kind::Bytes => with_length(cell.bytes(at).len),
                    Kind::Message => with_length(cell.content.high.get()),
                    Kind::Empty | Kind::Indexed | Kind::Mapped => continue,
                };
                let head = varint::len(u64::from(number(arena, &walk, at)?) << 3) as u32;
                arena.scratch(walk.message).saturating_add(head.saturating_add(value));
            }
            Visit::End => break,
        }
    }
    let root = arena.cell(ROOT);
    Some(if root.kind() == Kind::Message { root.content.high.get() } else { root.bytes(ROOT).len })
}

fn with_length(len: u32) -> u32 {
    len.saturating_add(varint::len(len.into()) as u32)
}

/// Writes what was measured. `None` if the memory is damaged.
pub(super) fn write<S: Sink>(arena: &mut Arena<'_>, out: &mut S) -> Option<Result<(), S::Error>> {
    let mut walk = Walk::new(arena, 0);
    let mut written = Ok(());
    loop {
        match walk.next(arena)? {
            // The walk goes on to its end even if the sink is full, because it cleans up behind itself.
            Visit::Enter(at) if written.is_ok() => written = node(arena, &walk, at, out)?,
            Visit::End => return Some(written),
            _ => {}
        }
    }
}

/// Writes a node's tag and its value, or its length if it is a message.
fn node<S: Sink>(arena: &Arena<'_>, walk: &Walk, at: u32, out: &mut S) -> Option<Result<(), S::Error>> {
    let cell = arena.cell(at);
    if at == ROOT {
        return bytes(arena, cell.bytes(at), out);
    }
    let number = number(arena, walk, at)?;
    Some(match cell.kind() {
        Kind::Empty | Kind::Indexed | Kind::Mapped => Ok(()),
        Kind::Message => out.length(number, cell.content.high.get() as usize),
        Kind::Bytes => {
            let span = cell.bytes(at);
            match out.length(number, span.len as usize) {
                Ok(()) => bytes(arena, span, out)?,
                full => full,
            }
        }
        Kind::Scalar => match cell.wire {
            0 => out.varint(number, cell.scalar()),
            1 => out.fixed64(number, cell.scalar()),
            _ => fixed32(number, cell.scalar() as u32, out)?,
        },
    })
}

fn fixed32<S: Sink>(number: u32, value: u32, out: &mut S) -> Option<Result<(), S::Error>> {
    let mut field = [0; varint::MAX_LEN + 4];
    let head = varint::encode(tag(number, WireType::Fixed32).into(), &mut field)?;
    let len = head.checked_add(4)?;
    *field.get_mut(head..)?.first_chunk_mut()? = value.to_le_bytes();
    Some(out.put(field.get(..len)?))
}

fn bytes<S: Sink>(arena: &Arena<'_>, mut span: Span, out: &mut S) -> Option<Result<(), S::Error>> {
    let source = arena.source(&[]);
    while span.len > 0 {
        let piece = source.piece(&span)?;
        if let full @ Err(_) = out.put(piece) {
            return Some(full);
        }
        source.skip(&mut span, piece.len() as u32)?;
    }
    Some(Ok(()))
}
