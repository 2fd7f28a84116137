//! What nodes hold, and what they turn into when a program walks into them: messages, lists and maps.

use super::arena::Arena;
use super::cell::{
    BYTES, DETAIL_SHIFT, EMPTY, HIGH, INDEXED, INLINE, KEY, KIND, LINK, LOADED, LONG, LOW, MAPPED, MARK,
    MESSAGE, META, NONE, OWNER_SHIFT, PAYLOAD, SCALAR, WHAT,
};
use super::program::SET_FLAG;
use super::wire::{Field, LENGTH, Span, position};

/// Flags of a `merge`, by their numbers in it.
const SKIP_SUBMESSAGES: u32 = SET_FLAG << 1;
const DEL_IF_SRC_EMPTY: u32 = SET_FLAG << 2;

impl Arena<'_> {
    /// The child with that key; makes an empty one if there is none.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn child(&mut self, owner: u32, key: u64) -> u32 {
        let (slot, found) = self.slot(owner, key);
        if found != NONE {
            return found;
        }
        // What is new needs no entry in the log.
        let node = self.fresh(owner << OWNER_SHIFT);
        self.set(node | KEY, key as u32);
        self.set(node | KEY | 1, (key >> 32) as u32);
        self.put(slot, node);
        self.count(owner, 1);
        node
    }

    /// Links a node that has no place, if there is none with that key. It goes otherwise.
    #[cfg_attr(tracebuf_size, inline(never))]
    fn link(&mut self, owner: u32, node: u32, key: u64) {
        let (slot, there) = self.slot(owner, key);
        if there != NONE {
            self.drop_later(MESSAGE, node, 0);
            return;
        }
        self.put(node | KEY, key as u32);
        self.put(node | KEY | 1, (key >> 32) as u32);
        self.put(node | META, owner << OWNER_SHIFT | self.word(node, META) & WHAT);
        self.put(slot, node);
        self.count(owner, 1);
    }

    /// Counts an indexed node's children.
    #[cfg_attr(tracebuf_size, inline(never))]
    fn count(&mut self, owner: u32, more: i32) {
        if self.kind(owner) == INDEXED {
            self.put(owner | HIGH, self.word(owner, HIGH).wrapping_add_signed(more));
        }
    }

    /// Appends an empty element to a list without gaps.
    pub(super) fn next_element(&mut self, list: u32) -> u32 {
        self.child(list, self.word(list, HIGH).into())
    }

    /// Unlinks a node. It goes when the patch is done.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn remove(&mut self, node: u32) {
        self.unlink(node);
        self.drop_later(MESSAGE, node, 0);
        self.count(self.owner(node), -1);
    }

    /// The place of its bytes; of no use unless it is bytes.
    pub(super) fn bytes(&self, at: u32) -> Span {
        match (self.word(at, META) & WHAT) >> DETAIL_SHIFT {
            LONG => Span { at: position(self.word(at, LOW)), len: self.word(at, HIGH) },
            len => Span { at: position(at | LOW), len },
        }
    }

    /// Lets what a node holds go when the patch is done, except for a scalar; something else must be put into it then.
    /// Returns what holds it until then.
    #[cfg_attr(tracebuf_size, inline(never))]
    fn release(&mut self, at: u32) -> u32 {
        let cell = self.cell(at);
        let (what, low, high) = (cell.word(META) & WHAT, cell.word(LOW), cell.word(HIGH));
        if what & KIND <= SCALAR { NONE } else { self.drop_later(what, low, high) }
    }

    /// Makes it a node of that kind with nothing in it. Returns what holds what was there until the patch is done.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn clear(&mut self, at: u32, kind: u32) -> u32 {
        let holder = self.release(at);
        self.hold(at, kind, 0, 0);
        holder
    }

    /// Replaces what a node holds by a field's value.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn store(&mut self, at: u32, field: &Field, loaded: u32) {
        self.release(at);
        let [mut low, mut high] = field.value;
        let mut what = SCALAR | field.wire << DETAIL_SHIFT;
        if field.wire == LENGTH {
            let mut rest = field.bytes();
            what = BYTES | loaded | rest.len.min(LONG) << DETAIL_SHIFT;
            if rest.len <= INLINE {
                (low, high) = (self.next_word(&mut rest), self.next_word(&mut rest));
            } else {
                // Cells that are taken one after the other are linked that way: they were free.
                (low, high) = (self.live.free, rest.len);
                while rest.len > 0 {
                    let cell = self.take();
                    if cell == NONE {
                        return;
                    }
                    #[cfg(not(tracebuf_size))]
                    if self.fill(cell, &mut rest) {
                        continue;
                    }
                    for word in 0..LINK {
                        let bytes = self.next_word(&mut rest);
                        self.set(cell | word, bytes);
                    }
                }
            }
        }
        self.hold(at, what, low, high);
    }

    /// Makes it a message. Bytes of patches are decoded whole or not at all.
    ///
    /// Those of a loaded state count up to where they are malformed, as Perfetto's do: it would else be stuck.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn make_message(&mut self, at: u32) {
        let kind = self.kind(at);
        if kind == MESSAGE {
            return;
        }
        if kind != EMPTY && kind != BYTES {
            return self.fail();
        }
        let holder = self.clear(at, MESSAGE);
        let loaded = self.word(holder, META) & LOADED;
        if !self.merge(at, self.bytes(holder), loaded) && loaded == 0 {
            self.fail();
        }
    }

    /// Merges fields into a message; whether they are well-formed to the end.
    ///
    /// `how` is flags, and [`LOADED`] if the fields are of a loaded state. Links of children that this has touched are
    /// marked, and lead to the one before.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn merge(&mut self, message: u32, mut fields: Span, how: u32) -> bool {
        let (mut touched, mut field) = (NONE, Field::default());
        while self.field(&mut fields, &mut field) {
            let mut child = self.find(message, field.id.into());
            let (kind, is_touched) = (self.kind(child), self.word(child, LINK) & MARK != 0);
            let mut place = child;
            if child == NONE {
                child = self.child(message, field.id.into());
                place = child;
            } else if how & DEL_IF_SRC_EMPTY != 0 && field.wire == LENGTH && field.value[1] == 0 {
                self.remove(child);
                continue;
            } else if how & SKIP_SUBMESSAGES != 0 && kind == MESSAGE {
                continue;
            } else if kind == MAPPED {
                self.fail();
                break;
            } else if is_touched || kind == INDEXED {
                if !is_touched {
                    self.clear(child, INDEXED);
                }
                child = self.make_list(child, INDEXED, 0);
                place = self.next_element(child);
            }
            self.store(place, &field, how & LOADED);
            if self.word(child, LINK) & MARK == 0 {
                self.put(child | LINK, touched | MARK);
                touched = child;
            }
        }
        while touched != NONE && !self.failed {
            let before = self.word(touched, LINK) & !MARK;
            self.set(touched | LINK, NONE);
            touched = before;
        }
        fields.len == 0
    }

    /// Makes a child of a message a list, whose first element is what it was, or a map by a field of its elements. Of
    /// several elements with a key, the first stays. Returns the child, which may be another node.
    #[cfg_attr(tracebuf_size, inline(never))]
    pub(super) fn make_list(&mut self, old: u32, kind: u32, key_field: u32) -> u32 {
        let was = self.kind(old);
        if was == EMPTY {
            self.clear(old, kind);
        }
        if was == kind || was == EMPTY {
            return old;
        }
        // After a failure, what was found may be no node: numbers and bytes are no links that may be followed.
        if was == MAPPED || self.failed {
            self.fail();
            return old;
        }
        // A new node takes its place.
        self.unlink(old);
        let list = self.child(self.owner(old), self.key(old));
        self.clear(list, kind);
        if was != INDEXED {
            self.adopt(list, old, key_field);
            return list;
        }
        let mut from = 0;
        loop {
            let element = self.first_from(old, from);
            if element == NONE {
                break;
            }
            from = self.key(element).saturating_add(1);
            self.unlink(element);
            self.adopt(list, element, key_field);
        }
        self.drop_later(MESSAGE, old, 0);
        list
    }

    /// Makes a node that has no place an element of a list, as the first one, or of a map, by its key.
    #[cfg_attr(tracebuf_size, inline(never))]
    fn adopt(&mut self, list: u32, node: u32, key_field: u32) {
        let mut key = [0; 2];
        if self.kind(list) == MAPPED && !self.read_key(node, key_field, &mut key) {
            return self.fail();
        }
        let [low, high] = key;
        self.link(list, node, u64::from(low) | u64::from(high) << 32);
    }

    /// The key of an element: a scalar in one of its fields. Whether there is one.
    fn read_key(&mut self, element: u32, field: u32, key: &mut [u32; 2]) -> bool {
        match self.kind(element) {
            BYTES => {
                let (mut bytes, mut found) = (self.bytes(element), Field::default());
                let is_there = self.field_of(&mut bytes, field, &mut found);
                *key = found.value;
                is_there && found.wire != LENGTH
            }
            MESSAGE => {
                let child = self.find(element, field.into());
                *key = [self.word(child, LOW), self.word(child, HIGH)];
                self.kind(child) == SCALAR
            }
            _ => false,
        }
    }
}

const _: () = assert!(LINK * 4 == PAYLOAD && LOADED < SET_FLAG);
