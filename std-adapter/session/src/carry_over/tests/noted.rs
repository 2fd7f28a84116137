//! Tests of what is noted beside a ring in a file: at any moment it is what recovery needs, or is not believed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tracebuf::buffer::{
    Chunk, ChunkFlags, ChunkHeader, Config, FillPolicy, ReadOnlyTraceBuffer, RingChunk, RingContent,
    TraceBuffer,
};

use super::*;
use crate::export::Piece;
use crate::region_file::{BufferMemory, RegionSpec, create, parse};

thread_local! {
    /// The file, and what was in it at each moment.
    static WATCHED: RefCell<Option<(PathBuf, Vec<Vec<u8>>)>> = const { RefCell::new(None) };
}

/// Called before and after each patch.
pub(in crate::carry_over) fn crash_here() {
    WATCHED.with_borrow_mut(|watched| {
        if let Some((path, images)) = watched {
            images.push(std::fs::read(path).expect("the file"));
        }
    });
}

/// The images of the file since the last time.
fn images() -> Vec<Vec<u8>> {
    WATCHED.with_borrow_mut(|watched| std::mem::take(&mut watched.as_mut().expect("it is watched").1))
}

type Ring = TraceBuffer<BufferMemory, CarryOver>;

/// A ring in a file; `None` where there are none.
fn ring(path: &Path, kept: u64) -> Option<Ring> {
    let config = Config::new(FillPolicy::RingBuffer).sequences(8);
    let region = config.region_size(4096);
    let (parts, undo) =
        match create(path, &RegionSpec { region, beside_long_trace: false, clocks: &[], own: None, kept }) {
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return None,
            made => made.expect("a file"),
        };
    undo.forget();
    let carried = CarryOver::of_ring().keep_in_file(parts.kept.expect("memory"));
    Some(TraceBuffer::new(parts.memory, config).expect("a region").observed_by(carried))
}

fn random(below: u64) -> u64 {
    thread_local!(static STATE: RefCell<u64> = const { RefCell::new(0x9E37_79B9_7F4A_7C15) });
    STATE.with_borrow_mut(|random| {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        *random % below
    })
}

fn message(fields: &[(u32, u64)], parts: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    fields.iter().for_each(|(field, value)| {
        let Ok(()) = out.varint(*field, *value);
    });
    parts.iter().for_each(|(field, bytes)| {
        let Ok(()) = out.bytes(*field, bytes);
    });
    out
}

/// What a chunk says: its instants, and whether a state begins in it.
#[derive(Default)]
struct Said {
    instants: Vec<(String, u64)>,
    begins: bool,
}

/// A writer whose names mean something else in each state, and who begins one seldom.
struct Writer {
    writer_id: u16,
    next_chunk: u32,
    now: u64,
    state: u64,
    said: BTreeMap<u32, Said>,
    /// A packet that goes on in the next chunk.
    rest: Vec<u8>,
}

impl Writer {
    fn new(writer_id: u16) -> Self {
        Self { writer_id, next_chunk: 0, now: 1000, state: 0, said: BTreeMap::new(), rest: Vec::new() }
    }

    fn uuid(&self) -> u64 {
        100 + u64::from(self.writer_id)
    }

    fn begin(&mut self) -> Vec<Vec<u8>> {
        self.state += 1;
        let now = self.now;
        let clocks = [
            (1, message(&[(1, 6), (2, now)], &[])),
            (1, message(&[(1, 64), (2, now / 10), (3, 1), (4, 10)], &[])),
        ];
        let defaults = message(&[(58, 64)], &[(11, message(&[(11, self.uuid())], &[]))]);
        let counter = format!("counter {}", self.writer_id);
        let thread = format!("thread {}", self.writer_id);
        vec![
            message(&[(8, now), (58, 6), (13, 3)], &[(6, message(&[], &clocks)), (59, defaults)]),
            message(&[], &[(60, message(&[(1, self.uuid())], &[(2, thread.into())]))]),
            message(&[], &[(60, message(&[(1, self.uuid() + 100)], &[(2, counter.into()), (8, vec![])]))]),
        ]
    }

    fn instant(&mut self, chunk: u32) -> Vec<u8> {
        let (delta, iid) = (random(20), 1 + random(4));
        self.now += 10 * delta;
        let name = format!("{} {} {iid}", self.writer_id, self.state);
        let is_new = !self.said.values().flat_map(|said| &said.instants).any(|(known, _)| *known == name);
        self.said.entry(chunk).or_default().instants.push((name.clone(), self.now));
        let mut parts = vec![(11, message(&[(9, 3), (10, iid)], &[]))];
        if is_new {
            parts.push((12, message(&[], &[(2, message(&[(1, iid)], &[(2, name.into())]))])));
        }
        message(&[(8, delta), (13, 2)], &parts)
    }

    /// A chunk: the counter's value is its number.
    fn write(&mut self, ring: &mut Ring) {
        let chunk_id = self.next_chunk;
        self.next_chunk += 1;
        self.said.entry(chunk_id).or_default();
        let mut packets = Vec::new();
        let (mut flags, mut fragments) = (ChunkFlags::empty(), 0);
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            flags |= ChunkFlags::CONTINUES_FROM_PREVIOUS;
            packets.push(rest);
        }
        if self.state == 0 || random(30) == 0 {
            if self.state > 0 {
                (0..random(2)).for_each(|_| packets.push(self.instant(chunk_id)));
            }
            packets.extend(self.begin());
            self.said.entry(chunk_id).or_default().begins = true;
        }
        self.now += 10;
        let value = message(&[(9, 4), (11, self.uuid() + 100), (30, chunk_id.into())], &[]);
        packets.push(message(&[(8, 1), (13, 2)], &[(11, value)]));
        (0..1 + random(5)).for_each(|_| packets.push(self.instant(chunk_id)));
        if random(6) == 0 {
            let last = packets.last_mut().expect("packets");
            self.rest = last.split_off(1 + random(last.len() as u64 - 1) as usize);
            flags |= ChunkFlags::CONTINUES_ON_NEXT;
        }
        let mut payload = Vec::new();
        for packet in &packets {
            assert!(packet.len() < 128);
            payload.push(packet.len() as u8);
            payload.extend_from_slice(packet);
            fragments += 1;
        }
        let (writer_id, complete) = (self.writer_id, true);
        let header = ChunkHeader {
            producer_id: 2,
            writer_id,
            chunk_id,
            fragments,
            flags,
            complete,
            ..Default::default()
        };
        ring.copy_chunk_untrusted(&Chunk { header, payload: &payload });
    }
}

/// What recovery makes of a file, and the chunks that the ring has.
fn recovered(file: &[u8], kept: Option<Vec<u8>>) -> (Trace, Vec<RingChunk>) {
    let contents = parse(file).expect("no damage").expect("a buffer");
    let (mut ring, _) = ReadOnlyTraceBuffer::attach_ended(contents.region).expect("a region");
    let chunks = ring.inspect().items().filter_map(|item| match item.content {
        RingContent::Chunk(chunk) => Some(chunk),
        _ => None,
    });
    let chunks: Vec<_> = chunks.collect();
    let mut carried = kept
        .or(contents.kept)
        .and_then(|kept| CarryOver::recovered(kept, chunks.iter().copied()))
        .unwrap_or_default();
    let mut trace = framed(&[&[0x32, 7, 0x0A, 5, 0x08, 6, 0x10, 0xE8, 0x07, 0x50, 1]]);
    carried.begin_file(&mut trace);
    let mut piece = Piece::default();
    piece.read(&mut ring.read(), usize::MAX).expect("memory");
    carried.pass(&piece.bytes, None, &mut trace);
    (Trace::of(&trace).expect("a trace"), chunks)
}

fn told_instants(trace: &Trace) -> BTreeSet<(String, u64)> {
    trace.instants().map(|event| (event.name().to_owned(), event.begin())).collect()
}

/// Nothing in a trace is other than it was written. Returns how many instants it has.
fn check_all_is_true(trace: &Trace, writers: &[Writer]) -> usize {
    let written: BTreeSet<_> =
        writers.iter().flat_map(|writer| writer.said.values()).flat_map(|said| &said.instants).collect();
    let told = told_instants(trace);
    let wrong: Vec<_> = told.iter().filter(|instant| !written.contains(instant)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    told.len()
}

/// The descriptions and last values as they are up to these chunks, and all instants that the ring has. One may be
/// missing only before a state that begins in the very chunk that was on its way out.
fn check_nothing_is_missing(trace: &Trace, chunks: &[RingChunk], writers: &[Writer], is_within: bool) {
    let told = told_instants(trace);
    for writer in writers {
        let own = || chunks.iter().filter(|chunk| chunk.writer_id == writer.writer_id);
        let Some(last) = own().map(|chunk| chunk.chunk_id).max() else { continue };
        let first = own().map(|chunk| chunk.chunk_id).min();
        for (chunk, said) in &writer.said {
            // The last instant may go on in a chunk that is not there.
            let whole = said.instants.len().saturating_sub(1);
            let may_miss = is_within && said.begins && Some(*chunk) == first;
            if own().any(|there| there.chunk_id == *chunk) && !may_miss {
                for instant in &said.instants[..whole] {
                    assert!(
                        told.contains(instant),
                        "writer {}, chunk {chunk}: {instant:?}",
                        writer.writer_id
                    );
                }
            }
        }
        let [thread, counter] = ["thread", "counter"].map(|what| format!("{what} {}", writer.writer_id));
        assert!(trace.tracks().any(|track| track.name() == thread), "{thread}");
        let value = trace.counters().find(|track| track.track().name() == counter).expect("a counter");
        assert_eq!(value.points().last().map(|(_, value)| *value as u32), Some(last), "{counter}");
    }
}

#[test]
fn at_every_moment_recovery_finds_the_names_and_times_that_the_ring_has_forgotten() {
    let path = std::env::temp_dir().join(format!("tracebuf-noted-{}", std::process::id()));
    let Some(mut ring) = ring(&path, 16 << 10) else { return };
    WATCHED.set(Some((path.clone(), Vec::new())));
    let mut writers = [1, 2, 3].map(Writer::new);
    let (mut crashes, mut instants) = (0, 0);
    for chunk in 0..500 {
        // One of them is slow.
        let writer = if random(12) == 0 { 2 } else { random(2) as usize };
        writers[writer].write(&mut ring);
        let within = images();
        if chunk < 100 || chunk % 4 > 0 {
            continue;
        }
        for image in &within {
            let (trace, chunks) = recovered(image, None);
            check_all_is_true(&trace, &writers);
            check_nothing_is_missing(&trace, &chunks, &writers, true);
            crashes += 1;
        }
        let (trace, chunks) = recovered(&std::fs::read(&path).expect("the file"), None);
        instants += check_all_is_true(&trace, &writers);
        check_nothing_is_missing(&trace, &chunks, &writers, false);
    }
    WATCHED.set(None);
    assert!(crashes > 300 && instants > 5000, "{crashes}, {instants}");
    assert!(ring.stats().bytes_overwritten > 5 * 4096);
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn after_a_power_cut_what_does_not_fit_the_ring_is_not_believed() {
    let path = std::env::temp_dir().join(format!("tracebuf-noted-power-{}", std::process::id()));
    let Some(mut ring) = ring(&path, 16 << 10) else { return };
    let mut writers = [1, 2].map(Writer::new);
    let mut files = Vec::new();
    for chunk in 0..400 {
        writers[random(2) as usize].write(&mut ring);
        if chunk > 200 && random(4) == 0 {
            files.push(std::fs::read(&path).expect("the file"));
        }
    }
    let kept = |file: &[u8]| parse(file).expect("no damage").expect("a buffer").kept.expect("it keeps");
    let (mut readable, mut partly) = (0, 0);
    for (at, file) in files.iter().enumerate() {
        let all = check_all_is_true(&recovered(file, None).0, &writers);
        for _ in 0..20 {
            // Pages of another moment, larger ones and smaller ones; and bits that flipped.
            let other = kept(&files[random(files.len() as u64) as usize]);
            let mut mixed = kept(file);
            let size = [32, 512, 4096, usize::MAX][random(4) as usize];
            for (to, from) in mixed.chunks_mut(size).zip(other.chunks(size)) {
                if random(2) == 0 {
                    to.copy_from_slice(from);
                }
            }
            if random(2) == 0 {
                let byte = random(mixed.len() as u64) as usize;
                mixed[byte] ^= 1 << random(8);
            }
            let (trace, _) = recovered(file, Some(mixed));
            let told = check_all_is_true(&trace, &writers);
            readable += usize::from(told == all);
            partly += usize::from(told < all);
        }
        assert!(recovered(file, Some(vec![0; 16 << 10])).0.instants().count() < all, "{at}");
    }
    assert!(readable > 20 && partly > 100, "{readable}, {partly}");
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn a_state_too_long_to_be_noted_has_writers_asked_for_another() {
    let path = std::env::temp_dir().join(format!("tracebuf-noted-long-{}", std::process::id()));
    let Some(mut ring) = ring(&path, 4096) else { return };
    let mut writer = Writer::new(1);
    (0..300).for_each(|_| writer.write(&mut ring));
    assert!(!ring.observer().lacks_states());
    let long = |iid: u64| {
        let name = message(&[(1, iid)], &[(2, vec![b'x'; 100])]);
        message(&[(8, 1), (13, 2)], &[(12, message(&[], &[(2, name)]))])
    };
    for iid in 10..60 {
        let packet = long(iid);
        let payload = [&[packet.len() as u8][..], &packet].concat();
        let (chunk_id, fragments, complete) = (writer.next_chunk, 1, true);
        writer.next_chunk += 1;
        let header =
            ChunkHeader { producer_id: 2, writer_id: 1, chunk_id, fragments, complete, ..Default::default() };
        ring.copy_chunk_untrusted(&Chunk { header, payload: &payload });
    }
    assert!(ring.observer().lacks_states());
    ring.observer_mut().wait_for_states();
    assert!(!ring.observer().lacks_states());
    check_all_is_true(&recovered(&std::fs::read(&path).expect("the file"), None).0, &[writer]);
    std::fs::remove_file(path).expect("it is there");
}
