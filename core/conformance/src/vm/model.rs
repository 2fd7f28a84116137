//! The model: a recursive machine over plain values, slow and plain enough to be believed.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Node, Value, fields};

/// Why a list of instructions stops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stop {
    Error,
    Abort,
}

type Result<T = ()> = std::result::Result<T, Stop>;

/// A message of a program: the last value of each field, and all of them.
struct Record(Vec<(u64, Value)>);

impl Record {
    fn of(bytes: &[u8]) -> Self {
        Self(fields(bytes).0)
    }

    fn number(&self, id: u64) -> Option<u32> {
        self.0.iter().rfind(|(field, _)| *field == id).map(|(_, value)| match value {
            Value::Scalar(_, value) => *value as u32,
            Value::Bytes(_) => 0,
        })
    }

    fn flag(&self, id: u64) -> bool {
        let last = self.0.iter().rfind(|(field, _)| *field == id);
        matches!(last, Some((_, Value::Scalar(_, value))) if *value != 0)
    }

    fn all(&self, id: u64) -> impl DoubleEndedIterator<Item = Record> {
        self.0.iter().filter_map(move |(field, value)| match value {
            Value::Bytes(bytes) if *field == id => Some(Record::of(bytes)),
            _ => None,
        })
    }

    fn last(&self, id: u64) -> Option<Record> {
        self.all(id).next_back()
    }

    /// The field that a component of a path names.
    fn field(&self) -> Option<u64> {
        self.number(1).map(u64::from).filter(|id| (1..1 << 29).contains(id))
    }
}

/// The cursor in the state: the keys from the root, and whether `del` leaves the node in its place.
type Dst = Option<(Vec<u64>, bool)>;

/// A machine.
#[derive(Debug)]
pub(super) struct Model {
    program: Vec<u8>,
    pub(super) root: Node,
    src: Value,
    dst: Dst,
    saved: Vec<Dst>,
    registers: BTreeMap<u8, u64>,
    steps: usize,
}

impl Model {
    /// The most steps of a patch, after which nothing is said about it.
    const MOST: usize = 20_000;

    pub(super) fn new(program: &[u8]) -> Self {
        Self {
            program: program.to_vec(),
            root: Node::Empty,
            src: Value::Bytes(Vec::new()),
            dst: None,
            saved: Vec::new(),
            registers: BTreeMap::new(),
            steps: 0,
        }
    }

    /// Runs the program over a patch; `None` if it takes too long.
    pub(super) fn apply(&mut self, patch: &[u8]) -> Option<Result> {
        let before = self.root.clone();
        self.src = Value::Bytes(patch.to_vec());
        self.dst = Some((Vec::new(), true));
        self.registers.clear();
        self.steps = 0;
        let program = Record::of(&self.program);
        let ended = self.list(&program, 2);
        if ended == Err(Stop::Abort) {
            self.root = before;
        }
        (self.steps < Self::MOST).then_some(ended)
    }

    fn step(&mut self) -> Result {
        self.steps += 1;
        if self.steps < Self::MOST { Ok(()) } else { Err(Stop::Abort) }
    }

    fn list(&mut self, of: &Record, id: u64) -> Result {
        for instruction in of.all(id) {
            match (self.instruction(&instruction), instruction.number(6)) {
                (Err(Stop::Error), None | Some(2)) => return Err(Stop::Error),
                (Err(Stop::Abort), _) | (Err(Stop::Error), Some(3)) => return Err(Stop::Abort),
                _ => {}
            }
        }
        Ok(())
    }

    fn instruction(&mut self, instruction: &Record) -> Result {
        self.step()?;
        if let Some(select) = instruction.last(1) {
            let before = (self.src.clone(), self.dst.clone());
            self.saved.push(self.dst.clone());
            let path: Vec<Record> = select.all(2).collect();
            let ended = self.path(instruction, &select, &path);
            (self.src, self.dst) = before;
            self.saved.pop();
            return ended;
        }
        if let Some(load) = instruction.last(2) {
            self.load(&load)?;
        } else if instruction.last(5).is_some() {
            self.delete()?;
        } else if let Some(merge) = instruction.last(3) {
            self.merge(&merge)?;
        } else if instruction.last(4).is_some() {
            self.set()?;
        } else {
            return Err(Stop::Abort);
        }
        self.list(instruction, 7)
    }

    /// The node at the cursor.
    fn node(&mut self) -> Result<&mut Node> {
        let (keys, _) = self.dst.as_ref().ok_or(Stop::Abort)?;
        Ok(node_at(&mut self.root, keys))
    }

    fn bytes(&self) -> Result<Vec<u8>> {
        match &self.src {
            Value::Bytes(bytes) => Ok(bytes.clone()),
            Value::Scalar(..) => Err(Stop::Abort),
        }
    }

    fn load(&mut self, load: &Record) -> Result {
        let value = match load.number(1) {
            None | Some(1) => match &self.src {
                Value::Scalar(_, value) => *value,
                Value::Bytes(_) => return Err(Stop::Abort),
            },
            Some(_) => match self.node()? {
                Node::Scalar(_, value) => *value,
                _ => return Err(Stop::Abort),
            },
        };
        let register = load.number(2).unwrap_or(0) as u8;
        if register >= 32 {
            return Err(Stop::Abort);
        }
        self.registers.insert(register, value);
        Ok(())
    }

    fn delete(&mut self) -> Result {
        let (keys, stays) = self.dst.clone().ok_or(Stop::Abort)?;
        if stays {
            *node_at(&mut self.root, &keys) = Node::Empty;
            return Ok(());
        }
        if self.saved.last().is_some_and(|saved| saved.as_ref().is_some_and(|saved| saved.0 == keys)) {
            return Err(Stop::Abort);
        }
        let (last, owner) = keys.split_last().ok_or(Stop::Abort)?;
        node_at(&mut self.root, owner).children().expect("a node with children").remove(last);
        self.dst = None;
        Ok(())
    }

    fn set(&mut self) -> Result {
        let src = self.src.clone();
        let is_root = self.dst.as_ref().is_some_and(|(keys, _)| keys.is_empty());
        let node = self.node()?;
        let fits = match (&src, &*node) {
            (Value::Scalar(..), Node::Empty) => !is_root,
            (Value::Scalar(..), Node::Scalar(..)) => true,
            (Value::Bytes(_), Node::Empty | Node::Bytes(..) | Node::Message(_)) => true,
            _ => false,
        };
        if !fits {
            return Err(Stop::Abort);
        }
        *node = Node::of(src, false);
        Ok(())
    }

    fn merge(&mut self, merge: &Record) -> Result {
        let bytes = self.bytes()?;
        let node = self.node()?;
        if !matches!(node, Node::Empty | Node::Message(_) | Node::Bytes(..)) {
            return Err(Stop::Abort);
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let message = node.make_message().ok_or(Stop::Abort)?;
        let mut touched = BTreeSet::new();
        for (id, value) in fields(&bytes).0 {
            let is_empty = value == Value::Bytes(Vec::new());
            let value = Node::of(value, false);
            match message.get_mut(&id) {
                Some(_) if merge.flag(2) && is_empty => {
                    message.remove(&id);
                    continue;
                }
                Some(Node::Message(_)) if merge.flag(1) => continue,
                Some(Node::Mapped(_)) => return Err(Stop::Abort),
                Some(child) if touched.contains(&id) => {
                    let list = child.make_indexed().ok_or(Stop::Abort)?;
                    list.insert(list.len() as u64, value);
                }
                Some(Node::Indexed(list)) => *list = [(0, value)].into(),
                Some(child) => *child = value,
                None => drop(message.insert(id, value)),
            }
            touched.insert(id);
        }
        Ok(())
    }

    /// Moves a cursor along what is left of a path, and runs what is nested in the instruction at its end.
    fn path(&mut self, instruction: &Record, select: &Record, path: &[Record]) -> Result {
        let is_src = matches!(select.number(1), None | Some(1));
        if is_src && select.flag(3) {
            return Err(Stop::Abort);
        }
        let Some((first, rest)) = path.split_first() else { return self.list(instruction, 7) };
        self.step()?;
        let id = first.field().ok_or(Stop::Abort)?;
        if first.flag(5) {
            return self.each(instruction, select, id, rest);
        }
        let index = |next: &Record| next.number(2);
        let key = |next: &Record| next.number(3);
        let is_element =
            |next: &&Record| next.field().is_none() && (index(next).is_some() || key(next).is_some());
        let element = rest.first().filter(is_element);
        if is_src {
            self.src_step(id, element.map(index))?;
        } else {
            self.dst_step(select.flag(3), id, element)?;
        }
        self.path(instruction, select, &rest[usize::from(element.is_some())..])
    }

    fn src_step(&mut self, id: u64, element: Option<Option<u32>>) -> Result {
        let bytes = self.bytes()?;
        let index = match element {
            None => 0,
            Some(index) => index.ok_or(Stop::Abort)?,
        };
        let found = fields(&bytes).0.into_iter().filter(|(field, _)| *field == id).nth(index as usize);
        self.src = found.ok_or(Stop::Error)?.1;
        Ok(())
    }

    fn dst_step(&mut self, create: bool, id: u64, element: Option<&Record>) -> Result {
        let index = element.and_then(|element| element.number(2));
        let register = match element {
            Some(element) if index.is_none() => {
                let register = element.number(6).ok_or(Stop::Abort)? as u8;
                Some(*self.registers.get(&register).ok_or(Stop::Abort)?)
            }
            _ => None,
        };
        let message = self.node()?.make_message().ok_or(Stop::Abort)?;
        if !message.contains_key(&id) && !create && index.is_none() {
            return Err(Stop::Error);
        }
        let child = message.entry(id).or_default();
        let within = match element {
            None if matches!(child, Node::Indexed(_) | Node::Mapped(_)) => return Err(Stop::Abort),
            None => None,
            Some(element) => Some(if let Some(index) = index {
                let list = child.make_indexed().ok_or(Stop::Abort)?;
                if !list.contains_key(&index.into()) && index as usize > list.len() {
                    return Err(Stop::Abort);
                }
                list.entry(index.into()).or_default();
                index.into()
            } else {
                let key_field = element.number(3).expect("it is no index").into();
                let key = register.expect("read above");
                child.make_mapped(key_field).ok_or(Stop::Abort)?.entry(key).or_default();
                key
            }),
        };
        let (keys, stays) = self.dst.as_mut().ok_or(Stop::Abort)?;
        keys.push(id);
        keys.extend(within);
        *stays = false;
        Ok(())
    }

    fn each(&mut self, instruction: &Record, select: &Record, id: u64, rest: &[Record]) -> Result {
        match select.number(1) {
            None | Some(1) => {
                for (_, value) in fields(&self.bytes()?).0.into_iter().filter(|(field, _)| *field == id) {
                    self.src = value;
                    self.step()?;
                    self.path(instruction, select, rest)?;
                }
                Ok(())
            }
            Some(2) => {
                let message = self.node()?.make_message().ok_or(Stop::Abort)?;
                let Some(child) = message.get_mut(&id) else { return Ok(()) };
                let indexes: Vec<u64> = child.make_indexed().ok_or(Stop::Abort)?.keys().copied().collect();
                let (mut keys, _) = self.dst.clone().ok_or(Stop::Abort)?;
                keys.push(id);
                for index in indexes {
                    self.dst = Some(([&keys[..], &[index]].concat(), true));
                    self.step()?;
                    self.path(instruction, select, rest)?;
                }
                Ok(())
            }
            Some(_) => Err(Stop::Abort),
        }
    }
}

fn node_at<'a>(root: &'a mut Node, keys: &[u64]) -> &'a mut Node {
    keys.iter().fold(root, |node, key| {
        node.children().and_then(|children| children.get_mut(key)).expect("the cursor's node")
    })
}
