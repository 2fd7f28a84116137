//! The bytecode of a filter: which fields of which messages are kept, and how.

use alloc::vec::Vec;

use tracebuf::proto::varint;

/// Fields below this are looked up by their bit, others in ranges.
const IN_BITS: u32 = 128;
/// The first number that no field has.
const END: u32 = 1 << 29;

mod operation {
    pub(super) const END_OF_MESSAGE: u32 = 0;
    pub(super) const FIELD: u32 = 1;
    pub(super) const RANGE: u32 = 2;
    pub(super) const MESSAGE: u32 = 3;
    pub(super) const TEXT: u32 = 4;
    pub(super) const TEXT_OF_KIND: u32 = 5;
}

/// How a field is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// As it is, whatever it is.
    Field,
    /// A message, with those of its fields that the message in this place says.
    Message(u32),
    /// A string of this kind, to which rules apply.
    Text(u16),
}

/// Fields of one message. A bytecode may have a hundred thousand: small ones take little.
#[derive(Debug, Default)]
struct MessageFields {
    /// Those below 128 that are kept as they are.
    plain: u128,
    /// Others below 128, sorted.
    special: Vec<(u32, Kept)>,
    /// From one number up to before another, sorted.
    ranges: Vec<(u32, u32, Kept)>,
}

impl MessageFields {
    fn keep(&mut self, field: u32, kept: Kept) {
        if field >= IN_BITS {
            return self.ranges.push((field, field.saturating_add(1), kept));
        }
        // The last that is said of a field counts.
        self.plain &= !(1 << field);
        let place = self.special.binary_search_by_key(&field, |(number, _)| *number);
        match (place, kept) {
            (Ok(at), Kept::Field) => _ = self.special.remove(at),
            (Err(_), Kept::Field) => {}
            (Ok(at), kept) => self.special.get_mut(at).into_iter().for_each(|known| known.1 = kept),
            (Err(at), kept) => self.special.insert(at, (field, kept)),
        }
        if kept == Kept::Field {
            self.plain |= 1 << field;
        }
    }

    fn keep_range(&mut self, begin: u32, end: u32) {
        for field in begin..end.min(IN_BITS) {
            self.keep(field, Kept::Field);
        }
        let (begin, end) = (begin.max(IN_BITS), end.min(END));
        if begin < end {
            self.ranges.push((begin, end, Kept::Field));
        }
    }

    fn is_sorted(&self) -> bool {
        self.ranges.iter().zip(self.ranges.iter().skip(1)).all(|((_, end, _), (begin, ..))| begin >= end)
    }

    fn kept(&self, field: u32) -> Option<Kept> {
        if field < IN_BITS {
            if self.plain & 1 << field != 0 {
                return Some(Kept::Field);
            }
            let at = self.special.binary_search_by_key(&field, |(number, _)| *number).ok()?;
            return self.special.get(at).map(|(_, kept)| *kept);
        }
        let before = self.ranges.partition_point(|(begin, ..)| *begin <= field).checked_sub(1)?;
        self.ranges.get(before).filter(|(_, end, _)| field < *end).map(|(.., kept)| *kept)
    }
}

/// What an overlay says of one field.
struct Entry {
    message: u32,
    field: u32,
    kept: Kept,
}

/// A bytecode, ready to be asked.
#[derive(Debug)]
pub(super) struct Bytecode(Vec<MessageFields>);

impl Bytecode {
    /// Reads one, and what differs from it; `None` if Perfetto's service takes them for malformed.
    pub(super) fn of(bytecode: &[u8], overlay: &[u8]) -> Option<Self> {
        let all = words(bytecode)?;
        let entries = if overlay.is_empty() { Vec::new() } else { entries(overlay)? };
        let mut entries = entries.into_iter().peekable();
        let mut words = all.into_iter();
        let (mut messages, mut message, mut is_over) = (Vec::new(), MessageFields::default(), true);
        let mut last_message = 0;
        while let Some(word) = words.next() {
            let (field, operation) = (word >> 3, word & 7);
            is_over = operation == operation::END_OF_MESSAGE;
            if field == 0 && !is_over {
                return None;
            }
            // What the overlay says of fields before this one, all of this message at its end, comes first; what it says
            // of this one takes its place.
            let number = u32::try_from(messages.len()).ok()?;
            let mut merge = |message: &mut MessageFields, until: u32| {
                while let Some(entry) =
                    entries.next_if(|entry| (entry.message, entry.field) <= (number, until))
                {
                    if entry.field == until {
                        return Some(entry.kept);
                    }
                    message.keep(entry.field, entry.kept);
                }
                None
            };
            let kept = match operation {
                operation::END_OF_MESSAGE => {
                    merge(&mut message, u32::MAX);
                    if !message.is_sorted() {
                        return None;
                    }
                    messages.push(core::mem::take(&mut message));
                    continue;
                }
                operation::RANGE => {
                    message.keep_range(field, field.wrapping_add(words.next()?));
                    continue;
                }
                operation::FIELD => Kept::Field,
                operation::TEXT => Kept::Text(0),
                operation::TEXT_OF_KIND => Kept::Text(words.next()? as u16),
                operation::MESSAGE => {
                    let inner = words.next()?;
                    last_message = last_message.max(inner);
                    Kept::Message(inner)
                }
                _ => return None,
            };
            let kept = merge(&mut message, field).unwrap_or(kept);
            message.keep(field, kept);
        }
        let is_there = last_message == 0 || (last_message as usize) < messages.len();
        (is_over && is_there && entries.next().is_none()).then_some(Self(messages))
    }

    /// How a field of the message in this place is kept; `None` if it is not.
    pub(super) fn kept(&self, message: u32, field: u32) -> Option<Kept> {
        self.0.get(usize::try_from(message).ok()?)?.kept(field)
    }
}

/// The numbers of a bytecode, of which the last tells whether the others are whole.
fn words(bytecode: &[u8]) -> Option<Vec<u32>> {
    let (mut words, mut rest) = (Vec::new(), bytecode);
    while !rest.is_empty() {
        let (word, after) = varint::split(rest)?;
        words.push(word as u32);
        rest = after;
    }
    let sum = words.pop()?;
    (sum == checksum(&words)).then_some(words)
}

/// FNV-1a of 64 bits, of which the lower half counts.
fn checksum(words: &[u32]) -> u32 {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
        as u32
}

/// Entries of an overlay, sorted by message and field.
fn entries(overlay: &[u8]) -> Option<Vec<Entry>> {
    let words = words(overlay)?;
    let (all, rest) = words.as_chunks::<3>();
    let mut entries: Vec<Entry> = Vec::new();
    for [message, word, argument] in all {
        let kept = match word & 7 {
            operation::FIELD => Kept::Field,
            operation::TEXT => Kept::Text(0),
            operation::TEXT_OF_KIND => Kept::Text(*argument as u16),
            _ => return None,
        };
        let entry = Entry { message: *message, field: word >> 3, kept };
        let is_behind = |last: &Entry| (last.message, last.field) < (entry.message, entry.field);
        if entry.field == 0 || !entries.last().is_none_or(is_behind) {
            return None;
        }
        entries.push(entry);
    }
    rest.is_empty().then_some(entries)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::vec;

    /// A bytecode of these numbers.
    pub(in super::super) fn encoded(words: &[u32]) -> Vec<u8> {
        let mut bytes = vec![];
        for word in words.iter().copied().chain([checksum(words)]) {
            let mut one = [0; varint::MAX_LEN];
            let len = varint::encode(word.into(), &mut one).expect("room");
            bytes.extend_from_slice(&one[..len]);
        }
        bytes
    }

    fn of(words: &[u32], overlay: &[u32]) -> Option<Bytecode> {
        let overlay = if overlay.is_empty() { vec![] } else { encoded(overlay) };
        Bytecode::of(&encoded(words), &overlay)
    }

    #[test]
    fn fields_are_kept_as_the_last_word_about_them_says_also_across_128() {
        // 1 a field, 126 to 133, 140 a message, 141 a string of kind 7, 1 a string after all.
        let words =
            [1 << 3 | 1, 126 << 3 | 2, 8, 140 << 3 | 3, 1, 141 << 3 | 5, 7, 1 << 3 | 4, 0, 5 << 3 | 1, 0];
        let code = of(&words, &[]).expect("well-formed");
        let kept: Vec<u32> = (0..300).filter(|field| code.kept(0, *field).is_some()).collect();
        assert_eq!(kept, [1, 126, 127, 128, 129, 130, 131, 132, 133, 140, 141]);
        assert_eq!(
            [1, 140, 141].map(|field| code.kept(0, field)),
            [Some(Kept::Text(0)), Some(Kept::Message(1)), Some(Kept::Text(7))]
        );
        assert_eq!((code.kept(1, 5), code.kept(1, 1), code.kept(2, 5)), (Some(Kept::Field), None, None));
        assert_eq!(code.kept(0, u32::MAX), None);
    }

    #[test]
    fn an_overlay_adds_fields_and_says_more_of_those_that_are_there() {
        let words = [2 << 3 | 1, 9 << 3 | 1, 200 << 3 | 1, 0, 1 << 3 | 3, 0, 0];
        let overlay =
            [0, 1 << 3 | 1, 0, 0, 9 << 3 | 5, 3, 0, 150 << 3 | 4, 0, 0, 300 << 3 | 1, 0, 1, 1 << 3 | 4, 0];
        let code = of(&words, &overlay).expect("well-formed");
        let all = [1, 2, 9, 150, 200, 300].map(|field| code.kept(0, field).expect("kept"));
        use Kept::{Field, Text};
        assert_eq!(all, [Field, Field, Text(3), Text(0), Field, Field]);
        assert_eq!(code.kept(1, 1), Some(Text(0)));
        let malformed: [&[u32]; 8] = [
            &[0, 1 << 3 | 1],
            &[0, 1 << 3 | 3, 0],
            &[0, 1 << 3 | 2, 1],
            &[0, 1 << 3, 1],
            &[0, 1, 0],
            &[0, 5 << 3 | 1, 0, 0, 4 << 3 | 1, 0],
            &[0, 5 << 3 | 1, 0, 0, 5 << 3 | 1, 0],
            &[2, 1 << 3 | 1, 0],
        ];
        for overlay in malformed {
            assert!(of(&words, overlay).is_none(), "{overlay:?}");
        }
    }

    #[test]
    fn a_bytecode_that_perfetto_takes_for_malformed_is_refused() {
        let malformed: [&[u32]; 9] = [
            &[1 << 3 | 1],
            &[1, 0],
            &[1 << 3 | 6, 0],
            &[1 << 3 | 3],
            &[1 << 3 | 2],
            &[1 << 3 | 5],
            &[1 << 3 | 3, 1, 0],
            &[200 << 3 | 1, 200 << 3 | 1, 0],
            &[200 << 3 | 2, 10, 205 << 3 | 1, 0],
        ];
        for words in malformed {
            assert!(of(words, &[]).is_none(), "{words:?}");
        }
        assert!(
            Bytecode::of(&[], &[]).is_none() && of(&[], &[]).is_some_and(|code| code.kept(0, 1).is_none())
        );
        let whole = encoded(&[1 << 3 | 1, 1 << 3 | 2, 1 << 30, 0]);
        assert!(Bytecode::of(&whole, &[]).is_some());
        let mut same = 0;
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                // Beyond 32 bits, nothing of a number counts.
                let is_same = words(&bytes) == words(&whole);
                assert_eq!(Bytecode::of(&bytes, &[]).is_some(), is_same, "byte {at}, bit {bit}");
                same += usize::from(is_same);
            }
            assert!(Bytecode::of(&whole[..at], &[]).is_none(), "cut at {at}");
        }
        assert!(same <= 6, "{same}");
    }
}
