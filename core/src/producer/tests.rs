//! What another thread, or who comes after a crash, may see between any two stores.

use std::vec;
use std::vec::Vec;

use super::atomics::watched::stopped_at;
use super::atomics::{AtomicU32, Ordering, atomic_words};
use super::drain::tests::Silent;
use super::layout::Division;
use super::page::ChunkState;
use super::{
    Consumer, Exhaustion, FragmentKind, HeaderFlags, Layout, Producer, ProducerStorage, SharedMemory,
    TraceWriter,
};
use crate::proto::reader::number;

/// More stores than anything here has.
const MOST: u64 = 10_000;

const PAGE: u32 = 128;
const PAGES: usize = 8;

/// Two writers over new memory.
fn with_writers(work: impl FnOnce(SharedMemory<'_>, [TraceWriter<'_>; 2])) {
    let mut memory = vec![0u32; PAGE as usize / 4 * PAGES];
    let memory = SharedMemory::new(atomic_words(&mut memory), PAGE).expect("pages");
    let (storage, silent) = (ProducerStorage::<16, 2>::new(), Silent);
    let producer = Producer::new(memory, Layout::Two, &storage, &silent).expect("room");
    work(memory, [(); 2].map(|()| producer.writer(0, Exhaustion::Drop).expect("two")));
}

fn words_of<'m>(memory: SharedMemory<'m>, page: u32, chunk: u32) -> &'m [AtomicU32] {
    memory.chunk(page, chunk, &Division::new(Layout::Two, PAGE))
}

#[test]
fn at_no_store_is_a_chunk_free_before_its_header_is_cleared() {
    let mut stores = 0;
    for store in 1..MOST {
        let mut was_stopped = false;
        with_writers(|memory, [mut writer, _other]| {
            // The second, because the first one's id is 0.
            for value in 0..2 {
                writer.packet().varint(8, value);
                writer.flush();
            }
            let mut consumer = Consumer::new(memory);
            let taken = consumer.take(0, 1).expect("it is complete");
            was_stopped = stopped_at(store, || drop(taken));
            let state = memory.page(0).expect("a page").bitmap().state(1);
            let word = |at: usize| u32::from_le(words_of(memory, 0, 1)[at].load(Ordering::Relaxed));
            let [id, packets] = [0, 1].map(word);
            // A writer that gets it writes its own header, which must not be cleared then.
            assert!(state != ChunkState::Free || (id, packets) == (0, 0), "store {store}: {id} {packets:x}");
            // What is left of a header belongs to nobody.
            assert!(packets == 0 || id == 1, "store {store}: {id} {packets:x}");
        });
        if !was_stopped {
            break;
        }
        stores = store;
    }
    // More where an interpreter has some fail.
    assert!(stores >= 3, "two words, and the state: {stores}");
}

/// The numbers of the packets that a scrape would find, each writer's; what is not whole must not be among them.
fn visible(memory: SharedMemory<'_>) -> [Vec<u64>; 2] {
    let mut all = [(); 2].map(|()| Vec::new());
    for page in memory.all_pages() {
        for chunk in page.chunks() {
            let (header, mut there) = (chunk.header(), chunk.fragments());
            let is_growing = match chunk.state() {
                ChunkState::BeingWritten => true,
                ChunkState::Complete => false,
                ChunkState::Free | ChunkState::BeingRead => continue,
            };
            let count = usize::from(header.fragments).saturating_sub(usize::from(is_growing));
            for (at, fragment) in there.by_ref().take(count).enumerate() {
                assert_eq!(fragment.kind, FragmentKind::Valid);
                let is_begin_s = at == 0 && header.flags.contains(HeaderFlags::CONTINUES_FROM_PREVIOUS);
                let goes_on = at + 1 == usize::from(header.fragments)
                    && header.flags.contains(HeaderFlags::CONTINUES_ON_NEXT);
                if is_begin_s || goes_on {
                    // A part of a packet.
                    continue;
                }
                let mut content = vec![0; fragment.size];
                chunk.fill(fragment.offset + fragment.header, &mut content);
                if content.is_empty() && !is_growing && at + 1 == usize::from(header.fragments) {
                    // A packet that had no room here.
                    continue;
                }
                let value = number(&content, 8).expect("it is whole");
                all[usize::from(header.writer_id) - 1].push(u64::from(header.chunk_id) << 32 | value);
            }
        }
    }
    all
}

#[test]
fn at_no_store_is_a_packet_seen_that_is_not_whole_or_not_its_writer_s() {
    // Each store takes a run of all that comes before it.
    const PACKETS: u64 = if cfg!(miri) { 3 } else { 30 };
    let mut stores = 0;
    let mut seen = std::collections::BTreeSet::new();
    for store in 1..MOST {
        let mut was_stopped = false;
        with_writers(|memory, [mut writer, mut other]| {
            other.packet().varint(8, 500);
            other.flush();
            // Its chunk is another writer's next.
            drop(Consumer::new(memory).take(0, 0).expect("it is complete"));
            let work = || {
                for value in 0..PACKETS {
                    writer.packet().varint(8, 300 + value);
                }
                writer.flush();
                writer.packet().varint(8, 400);
            };
            was_stopped = stopped_at(store, work);
            let [values, others] = visible(memory);
            assert_eq!(others, [], "store {store}");
            let mut values: Vec<u64> = values;
            values.sort_unstable();
            let values: Vec<u64> = values.iter().map(|value| value & u64::from(u32::MAX)).collect();
            let is_said = |value: &u64| (300..300 + PACKETS).contains(value) || *value == 400;
            assert!(values.is_sorted() && values.iter().all(is_said), "store {store}: {values:?}");
            seen.insert(values.len());
            // What it holds beside the memory is of no use any more.
            core::mem::forget((writer, other));
        });
        if !was_stopped {
            break;
        }
        stores = store;
    }
    assert!(stores > PACKETS * 10 / 3, "{stores}");
    // Each comes to be seen by itself.
    assert!(seen.len() as u64 > PACKETS * 2 / 3, "{seen:?}");
}

#[cfg(feature = "patches")]
mod patches {
    use super::super::patch_list::{ChunkPatch, PatchList};
    use super::*;

    fn at_each_store(
        prepare: impl Fn(&PatchList),
        work: impl Fn(&PatchList),
        check: impl Fn(&PatchList, u64),
    ) -> u64 {
        for store in 1..MOST {
            let list = PatchList::new();
            prepare(&list);
            let was_stopped = stopped_at(store, || work(&list));
            check(&list, store);
            if !was_stopped {
                return store - 1;
            }
        }
        MOST
    }

    #[test]
    fn at_no_store_has_a_patch_its_place_before_what_it_holds() {
        let patch = |data| ChunkPatch { chunk_id: 7, offset: 9, data };
        const EMPTY: [u8; 4] = [0x80, 0x80, 0x80, 0];
        // A place that had another chunk's before.
        let used = |list: &PatchList| {
            assert!(list.wait_for(5, 3) && list.set(5, 3, [1; 4]));
            assert!(list.send_ready(|_, _| {}));
        };
        let waits = at_each_store(
            used,
            |list| assert!(list.wait_for(7, 9)),
            |list, store| {
                let all: Vec<_> = list.fields_not_free().collect();
                assert!(all.iter().all(|field| *field == (false, patch(EMPTY))), "store {store}: {all:?}");
            },
        );
        let waiting = |list: &PatchList| {
            used(list);
            assert!(list.wait_for(7, 9));
        };
        let becomes_ready = at_each_store(
            waiting,
            |list| assert!(list.set(7, 9, [2; 4])),
            |list, store| {
                let all: Vec<_> = list.fields_not_free().collect();
                assert!(!all.contains(&(true, patch(EMPTY))) && all.len() == 1, "store {store}: {all:?}");
                assert_eq!((all[0].1.chunk_id, all[0].1.offset), (7, 9));
            },
        );
        let given_up = at_each_store(waiting, PatchList::set_all, |list, store| {
            assert!(list.fields_not_free().all(|(_, field)| field == patch(EMPTY)), "store {store}");
        });
        assert_eq!((waits, becomes_ready, given_up), (3, 2, 1));
    }

    #[test]
    fn at_no_store_is_the_place_of_a_patch_free_before_that_was_sent() {
        let sent = std::cell::Cell::new(false);
        let stores = at_each_store(
            |list| assert!(list.wait_for(7, 9) && list.set(7, 9, [2; 4])),
            |list| {
                sent.set(false);
                assert!(list.send_ready(|_, _| sent.set(true)));
            },
            |list, store| {
                let is_there = list.fields_not_free().count() == 1;
                assert!(is_there || sent.get(), "store {store}");
            },
        );
        assert_eq!(stores, 1);
    }
}
