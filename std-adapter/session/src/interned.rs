//! Texts that live as long as the program: what names of events, categories and files must do.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::OnceLock;

/// Texts that find room.
const SLOTS: usize = 4096;
/// Places where a text may be.
const PROBES: usize = 16;
/// The most bytes of one.
const LONGEST: usize = 256;

static TEXTS: [OnceLock<Box<str>>; SLOTS] = [const { OnceLock::new() }; SLOTS];

/// The same text, living as long as the program; `None` if it is long or there is no more room for it. There is for
/// 4,096 texts, less where they collide, so that it does not grow with what they are made from.
///
/// Cost: some 30 ns, and the first time a piece of memory.
pub fn interned(text: &str) -> Option<&'static str> {
    if text.len() > LONGEST {
        return None;
    }
    let first = BuildHasherDefault::<DefaultHasher>::default().hash_one(text) as usize;
    (0..PROBES).find_map(|probe| {
        let slot = TEXTS.get(first.wrapping_add(probe) % SLOTS)?;
        if slot.get().is_none() {
            // Made before it is put there: while memory is asked for, an allocator that records may come here again.
            let _ = slot.set(text.into());
        }
        slot.get().map(|known| &**known).filter(|known| *known == text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_same_in_all_threads_and_no_more_are_kept_than_there_is_room_for() {
        let all = || {
            let own = (0..1000).map(|number| interned(&format!("text {number}"))).collect::<Vec<_>>();
            own.into_iter().map(|text| text.map(str::as_ptr).map(|at| at as usize)).collect::<Vec<_>>()
        };
        let others = std::thread::spawn(all);
        assert_eq!(all(), others.join().expect("texts"));
        assert_eq!(interned("text 7"), Some("text 7"));
        assert_eq!((interned(&"x".repeat(LONGEST + 1)), interned("")), (None, Some("")));
        let kept = (0..3 * SLOTS).filter(|number| interned(&format!("many {number}")).is_some()).count();
        assert!(kept > SLOTS / 2 && kept < SLOTS, "{kept}");
        assert_eq!(interned("text 7"), Some("text 7"), "and those that were there stay");
    }
}
