//! A service as simple as can be: keeps every chunk it is sent, and joins packets afterwards.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::sync::Mutex;
use tracebuf::producer::*;
use tracebuf::proto::reader::{self, Field, Fields};
use tracebuf::proto::varint;

#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    pub header: SmbChunkHeader,
    pub payload: Vec<u8>,
    pub complete: bool,
}

pub struct State {
    consumer: Consumer<'static>,
    pub chunks: BTreeMap<(u16, u32), Stored>,
    pub waiting: Vec<ChunkToMove>,
    pub patches: usize,
    pub targets: Vec<u16>,
    pub flushes: Vec<u32>,
    pub registered: Vec<u16>,
    pub stalls: Vec<u32>,
}

/// How the model answers.
#[derive(Clone, Copy, PartialEq)]
pub enum Pace {
    /// Chunks are moved at once.
    Prompt,
    /// Chunks wait for `drain`, or for a writer that stalls.
    Lazy,
    /// Chunks wait for `drain`; a writer that stalls is told to give up after some steps.
    Absent(u32),
}

pub struct Model {
    state: Mutex<State>,
    pub pace: Pace,
}

impl CommitSink for Model {
    fn commit(&self, request: &CommitRequest<'_>) {
        let mut state = self.state();
        state.waiting.extend(request.chunks_to_move);
        if self.pace == Pace::Prompt || !request.chunks_to_patch.is_empty() {
            state.drain();
        }
        for patch in request.chunks_to_patch {
            state.patch(patch);
        }
        if request.flush != 0 {
            state.flushes.push(request.flush);
        }
    }

    fn register_writer(&self, writer_id: u16, target: u16) {
        assert!(target >= 40);
        self.state().registered.push(writer_id);
    }

    fn unregister_writer(&self, writer_id: u16) {
        self.state().registered.retain(|w| *w != writer_id);
    }

    fn stall(&self, step: u32, micros: u32) -> bool {
        if self.pace != Pace::Absent(u32::MAX) {
            std::thread::sleep(std::time::Duration::from_micros(micros.into()));
        }
        let mut state = self.state();
        state.stalls.push(micros);
        match self.pace {
            Pace::Absent(steps) => step < steps,
            _ => {
                state.drain();
                true
            }
        }
    }
}

impl Model {
    pub fn new(memory: SharedMemory<'static>, pace: Pace) -> &'static Model {
        let state = State {
            consumer: Consumer::new(memory),
            chunks: BTreeMap::new(),
            waiting: Vec::new(),
            patches: 0,
            targets: Vec::new(),
            flushes: Vec::new(),
            registered: Vec::new(),
            stalls: Vec::new(),
        };
        Box::leak(Box::new(Model { state: Mutex::new(state), pace }))
    }

    pub fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // A failing assertion must not make the writers' drops panic too.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub fn drain(&self) {
        self.state().drain();
    }

    pub fn scrape(&self) {
        self.state().scrape();
    }

    /// The packets of a writer, `None` where one was given up; stops at what is not complete.
    pub fn packets(&self, writer: u16) -> Vec<Option<Vec<u8>>> {
        join(&self.state().chunks, writer)
    }
}

impl State {
    fn keep(&mut self, header: SmbChunkHeader, payload: Vec<u8>, complete: bool) {
        let key = (header.writer_id, header.chunk_id);
        let new = Stored { header, payload, complete };
        match self.chunks.get(&key) {
            // A patched copy keeps its patches: what is sent is what was scraped.
            Some(old) if old.complete => {
                assert!(complete, "a complete chunk cannot become incomplete");
                assert_eq!(old.header.fragments, new.header.fragments);
                assert!(new.header.flags.contains(old.header.flags), "flags cleared");
            }
            _ => drop(self.chunks.insert(key, new)),
        }
    }

    pub fn drain(&mut self) {
        for ChunkToMove { page, chunk, target } in std::mem::take(&mut self.waiting) {
            let chunk = self.consumer.take(page, chunk).expect("a chunk that is sent is complete");
            let mut payload = vec![0; chunk.len()];
            chunk.fill(0, &mut payload);
            let header = chunk.header();
            drop(chunk);
            self.targets.push(target);
            self.keep(header, payload, true);
        }
    }

    pub fn scrape(&mut self) {
        let mut seen = Vec::new();
        self.consumer.scrape::<16>(|chunk| {
            let mut payload = vec![0; chunk.len()];
            chunk.fill(0, &mut payload);
            seen.push((chunk.header(), payload, chunk.is_complete()));
        });
        for (header, payload, complete) in seen {
            self.keep(header, payload, complete);
        }
    }

    fn patch(&mut self, patch: &ChunkToPatch<'_>) {
        let chunk =
            self.chunks.get_mut(&(patch.writer_id, patch.chunk_id)).expect("chunks come before patches");
        assert!(chunk.complete && chunk.header.flags.contains(HeaderFlags::NEEDS_PATCHING));
        for p in patch.patches {
            let size = &mut chunk.payload[p.offset as usize..][..4];
            assert_eq!(size, [0; 4], "a size that is not known yet is none");
            size.copy_from_slice(&p.data);
            self.patches += 1;
        }
        if !patch.has_more {
            chunk.header.flags.remove(HeaderFlags::NEEDS_PATCHING);
        }
    }
}

pub fn join(chunks: &BTreeMap<(u16, u32), Stored>, writer: u16) -> Vec<Option<Vec<u8>>> {
    let mut packets = Vec::new();
    let mut open: Option<Vec<u8>> = None;
    let mut next = None;
    for ((w, id), chunk) in chunks {
        if *w != writer {
            continue;
        }
        assert!(next.is_none_or(|n| n == *id), "a hole before chunk {id}");
        let is_first = next.replace(id + 1).is_none();
        let partial = !chunk.complete || chunk.header.flags.contains(HeaderFlags::NEEDS_PATCHING);
        let continues = chunk.header.flags.contains(HeaderFlags::CONTINUES_FROM_PREVIOUS);
        // What is before the first may have been overwritten.
        let orphan = is_first && continues;
        assert_eq!(continues && !orphan, open.is_some(), "chunk {id}");
        let on = !partial && chunk.header.flags.contains(HeaderFlags::CONTINUES_ON_NEXT);
        let count = chunk.header.fragments - u16::from(partial);
        let mut rest = &chunk.payload[..];
        for i in 0..count {
            let (size, header) = varint::decode(rest).expect("a size");
            if size == 0x0FFF_FFFF {
                assert_eq!(i + 1, count);
                packets.push(None);
                open = None;
                break;
            }
            let fragment = &rest[header..][..size as usize];
            rest = &rest[header + size as usize..];
            if orphan && i == 0 {
                assert!(!on || count > 1, "a packet over three chunks");
                continue;
            }
            let mut packet = open.take().unwrap_or_default();
            packet.extend_from_slice(fragment);
            if on && i + 1 == count {
                open = Some(packet);
            } else if !packet.is_empty() {
                packets.push(Some(packet));
            }
        }
        if partial {
            println!("writer {writer} stops at {:?}, complete {}", chunk.header, chunk.complete);
            break;
        }
    }
    packets
}

/// The value of a message's field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Int(u64),
    Fixed(u64),
    Bytes(Vec<u8>),
}

pub fn fields(message: &[u8]) -> Vec<(u32, Value)> {
    let mut fields = Fields::of(message);
    let owned = |field: Field<'_>| match field.value {
        reader::Value::Number(value) => (field.number, Value::Int(value)),
        reader::Value::Fixed(value) => (field.number, Value::Fixed(value)),
        reader::Value::Bytes(bytes) => (field.number, Value::Bytes(bytes.to_vec())),
    };
    let all: Vec<_> = fields.by_ref().map(owned).collect();
    assert!(fields.is_at_end(), "{message:x?} is malformed");
    assert!(all.iter().all(|(number, _)| *number > 0), "a field has a number");
    all
}

impl Value {
    pub fn inside(&self) -> Vec<(u32, Value)> {
        match self {
            Value::Bytes(bytes) => fields(bytes),
            other => panic!("no message: {other:?}"),
        }
    }
}

pub fn memory(bytes: usize, page_size: u32) -> SharedMemory<'static> {
    let words = vec![0u32; bytes / 4].leak();
    SharedMemory::new(atomic_words(words), page_size).unwrap()
}

pub fn producer(
    memory: SharedMemory<'static>,
    layout: Layout,
    sink: &'static (dyn CommitSink + Sync),
) -> &'static Producer<'static> {
    let storage = Box::leak(Box::new(ProducerStorage::<1024, 8>::new()));
    Box::leak(Box::new(Producer::new(memory, layout, storage, sink).unwrap()))
}

/// A producer of `chunks` chunks, each in a page of its own.
pub fn chunk_a_page(
    chunks: u32,
    chunk_size: u32,
    pace: Pace,
) -> (&'static Model, &'static Producer<'static>) {
    let page = chunk_size + 8;
    let memory = memory((page * chunks) as usize, page);
    let model = Model::new(memory, pace);
    (model, producer(memory, Layout::One, model))
}

/// The only writer to this many chunks.
pub fn only_writer(
    chunks: u32,
    chunk_size: u32,
    pace: Pace,
    policy: Exhaustion,
) -> (&'static Model, TraceWriter<'static>) {
    let (model, producer) = chunk_a_page(chunks, chunk_size, pace);
    (model, producer.writer(40, policy).unwrap())
}
