//! The model's state: a tree of plain values, and the wire format.

use std::collections::BTreeMap;

/// The greatest field number.
const MAX_FIELD: u64 = (1 << 29) - 1;

/// A value on the wire.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Bytes(Vec<u8>),
    Scalar(u8, u64),
}

/// The fields of a message up to the first malformed one, and whether there is none.
pub(super) fn fields(bytes: &[u8]) -> (Vec<(u64, Value)>, bool) {
    let (mut found, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let Some((id, value, after)) = field(rest) else { return (found, false) };
        if id <= MAX_FIELD {
            found.push((id, value));
        }
        rest = after;
    }
    (found, true)
}

fn field(bytes: &[u8]) -> Option<(u64, Value, &[u8])> {
    let (tag, rest) = varint(bytes)?;
    let (value, rest) = match tag & 7 {
        0 => varint(rest).map(|(value, rest)| (Value::Scalar(0, value), rest))?,
        1 => {
            let (value, rest) = rest.split_first_chunk()?;
            (Value::Scalar(1, u64::from_le_bytes(*value)), rest)
        }
        2 => {
            let (len, rest) = varint(rest)?;
            let (value, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            (Value::Bytes(value.to_vec()), rest)
        }
        5 => {
            let (value, rest) = rest.split_first_chunk()?;
            (Value::Scalar(5, u32::from_le_bytes(*value).into()), rest)
        }
        _ => return None,
    };
    (tag >> 3 != 0).then_some((tag >> 3, value, rest))
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * index);
        if *byte < 0x80 {
            return Some((value, &bytes[index + 1..]));
        }
    }
    None
}

/// Appends a varint.
pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field.
pub(super) fn put(out: &mut Vec<u8>, id: u64, value: &Value) {
    match value {
        Value::Bytes(bytes) => {
            put_varint(out, id << 3 | 2);
            put_varint(out, bytes.len() as u64);
            out.extend(bytes);
        }
        Value::Scalar(wire, value) => {
            put_varint(out, id << 3 | u64::from(*wire));
            match wire {
                0 => put_varint(out, *value),
                1 => out.extend(value.to_le_bytes()),
                _ => out.extend((*value as u32).to_le_bytes()),
            }
        }
    }
}

/// A node of the state.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Node {
    #[default]
    Empty,
    /// Undecoded; whether it is of a loaded state.
    Bytes(Vec<u8>, bool),
    Scalar(u8, u64),
    Message(BTreeMap<u64, Node>),
    Indexed(BTreeMap<u64, Node>),
    Mapped(BTreeMap<u64, Node>),
}

impl Node {
    pub(super) fn of(value: Value, loaded: bool) -> Self {
        match value {
            Value::Bytes(bytes) => Node::Bytes(bytes, loaded),
            Value::Scalar(wire, value) => Node::Scalar(wire, value),
        }
    }

    /// The children of a message, a list or a map.
    pub(super) fn children(&mut self) -> Option<&mut BTreeMap<u64, Node>> {
        match self {
            Node::Message(children) | Node::Indexed(children) | Node::Mapped(children) => Some(children),
            Node::Empty | Node::Bytes(..) | Node::Scalar(..) => None,
        }
    }

    pub(super) fn make_message(&mut self) -> Option<&mut BTreeMap<u64, Node>> {
        match self {
            Node::Message(_) => {}
            Node::Empty => *self = Node::Message(BTreeMap::new()),
            Node::Bytes(bytes, loaded) => {
                let (fields, whole) = fields(bytes);
                if !whole && !*loaded {
                    return None;
                }
                let mut message = BTreeMap::<u64, Node>::new();
                for (id, value) in fields {
                    let node = Node::of(value, *loaded);
                    match message.get_mut(&id) {
                        None => drop(message.insert(id, node)),
                        Some(again) => {
                            let list = again.make_indexed()?;
                            list.insert(list.len() as u64, node);
                        }
                    }
                }
                *self = Node::Message(message);
            }
            _ => return None,
        }
        self.children()
    }

    pub(super) fn make_indexed(&mut self) -> Option<&mut BTreeMap<u64, Node>> {
        match self {
            Node::Indexed(_) => {}
            Node::Empty => *self = Node::Indexed(BTreeMap::new()),
            Node::Mapped(_) => return None,
            _ => *self = Node::Indexed([(0, std::mem::take(self))].into()),
        }
        self.children()
    }

    pub(super) fn make_mapped(&mut self, key: u64) -> Option<&mut BTreeMap<u64, Node>> {
        match self {
            Node::Mapped(_) => {}
            Node::Empty => *self = Node::Mapped(BTreeMap::new()),
            Node::Scalar(..) => return None,
            Node::Bytes(..) | Node::Message(_) => {
                *self = Node::Mapped([(self.key(key)?, std::mem::take(self))].into());
            }
            Node::Indexed(list) => {
                let mut map = BTreeMap::new();
                for element in std::mem::take(list).into_values() {
                    map.entry(element.key(key)?).or_insert(element);
                }
                *self = Node::Mapped(map);
            }
        }
        self.children()
    }

    fn key(&self, key: u64) -> Option<u64> {
        match self {
            Node::Bytes(bytes, _) => match fields(bytes).0.into_iter().find(|(id, _)| *id == key)?.1 {
                Value::Scalar(_, value) => Some(value),
                Value::Bytes(_) => None,
            },
            Node::Message(children) => match children.get(&key)? {
                Node::Scalar(_, value) => Some(*value),
                _ => None,
            },
            _ => None,
        }
    }

    /// The state as a message, of its root.
    pub(super) fn state(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Node::Bytes(bytes, _) => out.extend(bytes),
            Node::Message(children) => children.iter().for_each(|(id, child)| child.write(*id, &mut out)),
            _ => {}
        }
        out
    }

    fn write(&self, id: u64, out: &mut Vec<u8>) {
        match self {
            Node::Empty => {}
            Node::Bytes(..) | Node::Message(_) => put(out, id, &Value::Bytes(self.state())),
            Node::Scalar(wire, value) => put(out, id, &Value::Scalar(*wire, *value)),
            Node::Indexed(elements) | Node::Mapped(elements) => {
                elements.values().for_each(|element| element.write(id, out));
            }
        }
    }
}
