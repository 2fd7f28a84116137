//! Conversions of nodes: to messages, to lists and to maps.

use super::arena::Arena;
use super::cell::{Kind, NONE};
use super::wire::BYTES;

impl Arena<'_> {
    /// The child with that key; makes an empty one if there is none.
    pub(super) fn child(&mut self, owner: u32, key: u64) -> Option<u32> {
        match self.find(owner, key) {
            NONE => {
                let node = self.node(key)?;
                self.add(owner, node)?;
                Some(node)
            }
            found => Some(found),
        }
    }

    /// Links a new node, and counts it if its owner is indexed.
    fn add(&mut self, owner: u32, node: u32) -> Option<()> {
        self.link(owner, node)?;
        self.count(owner, u32::checked_add)
    }

    /// Unlinks a child. It goes when the patch is done.
    pub(super) fn remove(&mut self, owner: u32, node: u32) -> Option<()> {
        let key = self.cell(node).key.get();
        self.unlink(owner, key)?;
        self.drop_node(node)?;
        self.count(owner, u32::checked_sub)
    }

    fn count(&mut self, owner: u32, change: fn(u32, u32) -> Option<u32>) -> Option<()> {
        if self.cell(owner).kind() == Kind::Indexed {
            let high = &mut self.edit(owner)?.content.high;
            high.set(change(high.get(), 1)?);
        }
        Some(())
    }

    /// Makes it a message. Bytes of patches are decoded whole or not at all.
    pub(super) fn make_message(&mut self, at: u32) -> Option<()> {
        match self.cell(at).kind() {
            Kind::Message => {}
            Kind::Empty => self.edit(at)?.become_empty(Kind::Message),
            Kind::Bytes => {
                let holder = self.displace(at)?;
                self.edit(at)?.become_empty(Kind::Message);
                let bytes = self.cell(holder);
                let (mut rest, is_loaded) = (bytes.bytes(holder), bytes.is_loaded());
                while let Some(field) = self.source(&[]).field(&mut rest) {
                    let node = match self.find(at, field.id.into()) {
                        NONE => self.child(at, field.id.into())?,
                        again => {
                            self.make_indexed(again)?;
                            self.next_element(again)?
                        }
                    };
                    self.store(node, &field, &[])?;
                    if is_loaded {
                        self.set_loaded(node)?;
                    }
                }
                if rest.len > 0 && !is_loaded {
                    return None;
                }
            }
            Kind::Scalar | Kind::Indexed | Kind::Mapped => return None,
        }
        Some(())
    }

    /// Makes it a list; what it was is the first element.
    pub(super) fn make_indexed(&mut self, at: u32) -> Option<()> {
        match self.cell(at).kind() {
            Kind::Indexed => {}
            Kind::Empty => self.edit(at)?.become_empty(Kind::Indexed),
            Kind::Mapped => return None,
            Kind::Bytes | Kind::Scalar | Kind::Message => {
                let element = self.node(0)?;
                self.move_content(at, element)?;
                self.edit(at)?.become_empty(Kind::Indexed);
                self.add(at, element)?;
            }
        }
        Some(())
    }

    /// Makes it a map by a field of its elements. Of several elements with a key, the first stays.
    pub(super) fn make_mapped(&mut self, at: u32, key_field: u32) -> Option<()> {
        match self.cell(at).kind() {
            Kind::Mapped => {}
            Kind::Empty => self.edit(at)?.become_empty(Kind::Mapped),
            Kind::Scalar => return None,
            Kind::Bytes | Kind::Message => {
                let key = self.key(at, key_field)?;
                let element = self.node(key)?;
                self.move_content(at, element)?;
                self.edit(at)?.become_empty(Kind::Mapped);
                self.add(at, element)?;
            }
            Kind::Indexed => {
                let list = self.displace(at)?;
                self.edit(at)?.become_empty(Kind::Mapped);
                let mut from = 0;
                loop {
                    let element = self.first_from(list, from);
                    if element == NONE {
                        break;
                    }
                    from = self.cell(element).key.get().checked_add(1)?;
                    let key = self.key(element, key_field)?;
                    if self.find(at, key) == NONE {
                        let node = self.child(at, key)?;
                        self.move_content(element, node)?;
                    }
                }
            }
        }
        Some(())
    }

    /// The key of an element: a scalar in one of its fields.
    fn key(&self, at: u32, field: u32) -> Option<u64> {
        let cell = self.cell(at);
        match cell.kind() {
            Kind::Bytes => {
                let field = self.source(&[]).first(cell.bytes(at), field)?;
                (field.wire != BYTES).then_some(field.value)
            }
            Kind::Message => {
                let child = self.find(at, field.into());
                let cell = self.cell(child);
                (child != NONE && cell.kind() == Kind::Scalar).then(|| cell.scalar())
            }
            Kind::Empty | Kind::Scalar | Kind::Indexed | Kind::Mapped => None,
        }
    }

    /// Appends an empty element to a list without gaps.
    pub(super) fn next_element(&mut self, list: u32) -> Option<u32> {
        let index = self.cell(list).content.high.get();
        self.child(list, index.into())
    }

    /// Notes that bytes are of a loaded state.
    pub(super) fn set_loaded(&mut self, at: u32) -> Option<()> {
        let cell = self.edit(at)?;
        if cell.kind() == Kind::Bytes {
            cell.wire = 1;
        }
        Some(())
    }
}
