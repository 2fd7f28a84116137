//! Children of a node, in the order of their keys.

use crate::vm::arena::{Arena, Live};
use crate::vm::cell::{CELL, Cell, EMPTY, INDEXED, LEFT, LOW, MAPPED, NONE, RIGHT, ROOT};
use crate::vm::{attach, cell};
use std::collections::BTreeSet;
use std::vec;

/// The levels of a tree.
fn levels(arena: &Arena<'_>, at: u32) -> u32 {
    if at == NONE {
        return 0;
    }
    1 + levels(arena, arena.word(at, LEFT)).max(levels(arena, arena.word(at, RIGHT)))
}

fn opened(memory: &mut [u8]) -> (&mut [Cell], Live) {
    attach::open(memory, 0, true).unwrap()
}

#[test]
fn children_stay_in_order_whatever_is_linked_and_unlinked() {
    // Dense keys, those of the order of hashes, and powers of two with their neighbours.
    let keys: [fn(u64) -> u64; 3] = [
        |n| n % 600,
        |n| (n % 600).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        |n| (1_u64 << (n % 64)).wrapping_add(n / 64 % 3).wrapping_sub(1),
    ];
    for key_of in keys {
        let mut memory = vec![0; 128 << 10];
        let (cells, mut live) = opened(&mut memory);
        let mut model = BTreeSet::new();
        let mut random = 1_u64;
        for round in 0..3000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut arena = Arena::new(cells, live, &[], 1000);
            if round == 0 {
                arena.clear(ROOT, MAPPED);
            }
            let key = key_of(if round < 1000 { round } else { random >> 40 });
            let found = arena.find(ROOT, key);
            assert_eq!(found != NONE, model.contains(&key));
            if found == NONE {
                arena.child(ROOT, key);
                model.insert(key);
            } else {
                arena.remove(found);
                model.remove(&key);
            }
            assert!(arena.end());
            assert_eq!(arena.live.used as usize, 1 + model.len());
            assert!(levels(&arena, arena.word(ROOT, LOW)) <= 66);
            let from = key.saturating_add(1);
            let next = arena.first_from(ROOT, from);
            let next = (next != NONE).then(|| arena.key(next));
            assert_eq!(next, model.range(from..).next().copied(), "from {from:#x}");
            live = arena.live;
        }
    }
}

#[test]
fn few_keys_make_few_levels() {
    for shift in [0, 20, 40] {
        let mut memory = vec![0; 512 << 10];
        let (cells, live) = opened(&mut memory);
        let mut arena = Arena::new(cells, live, &[], u32::MAX);
        arena.clear(ROOT, INDEXED);
        for key in 0..4096_u64 {
            arena.child(ROOT, ((key * 2_654_435_761) & 0xFFF) << shift);
        }
        assert!(arena.end());
        assert!(levels(&arena, arena.word(ROOT, LOW)) <= 34, "{shift}");
    }
}

#[test]
fn a_patch_that_fails_leaves_every_word() {
    let mut memory = vec![0; 8 << 10];
    let (cells, mut live) = opened(&mut memory);
    for round in 0..200 {
        let mut arena = Arena::new(cells, live, &[], 20 + round);
        let before = arena.image();
        for key in 0..u64::from(round) {
            let child = arena.child(ROOT, key);
            arena.clear(child, if key % 2 == 0 { EMPTY } else { MAPPED });
            if key % 3 == 0 {
                arena.remove(child);
            }
        }
        arena.clear(ROOT, cell::MESSAGE);
        arena.fail();
        assert!(!arena.end());
        let nodes = |image: &[u8]| image[(ROOT * 4) as usize..][..(CELL * 4) as usize].to_vec();
        assert_eq!(nodes(&arena.image()), nodes(&before));
        assert_eq!(arena.live.used, 1);
        live = arena.live;
    }
}
