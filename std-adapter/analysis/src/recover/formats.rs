//! Files that say at which addresses their bytes lie: ELF and Intel HEX.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ihex::Record;
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use super::RecoverError;
use super::symbols::{Symbols, Variable};

/// Pieces of memory that do not touch each other, by their first address.
type Pieces = BTreeMap<u64, Cow<'static, [u8]>>;
/// A file's content.
type Content = (Pieces, Symbols);

/// The content of the file, if it starts as one of these.
pub(super) fn read(file: &[u8]) -> Option<Result<Content, RecoverError>> {
    if file.starts_with(b"\x7FELF") {
        return Some(read_elf(file));
    }
    let text = std::str::from_utf8(file).ok()?;
    text.trim_start().starts_with(':').then(|| read_intel_hex(text))
}

/// A core with its segments, or a program with its symbols.
pub(super) fn read_elf(file: &[u8]) -> Result<Content, RecoverError> {
    let malformed = |error: object::Error| RecoverError::Malformed(error.to_string());
    let elf = object::File::parse(file).map_err(malformed)?;
    let mut left = file.len();
    let mut parts = Vec::new();
    for segment in elf.segments() {
        let bytes = segment.data().map_err(malformed)?;
        left = less(left, bytes.len(), "segments")?;
        parts.push((segment.address(), bytes));
    }
    let (pieces, mut symbols) = (join(&parts), Symbols::default());
    let mut left = file.len();
    for symbol in elf.symbols() {
        if let Ok(name) = symbol.name() {
            left = less(left, name.len(), "symbols' names")?;
            if is_variable(&symbol) {
                symbols.add(name, Variable { address: symbol.address(), size: symbol.size() });
            }
        }
    }
    Ok((pieces, symbols))
}

fn is_variable<'a>(symbol: &impl ObjectSymbol<'a>) -> bool {
    let is_other = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::File | SymbolKind::Section);
    !is_other && !symbol.is_undefined()
}

/// What remains of a file's bytes to copy. Each of tens of thousands of segments or names may claim to be all of it.
fn less(left: usize, size: usize, what: &str) -> Result<usize, RecoverError> {
    left.checked_sub(size)
        .ok_or_else(|| RecoverError::Malformed(format!("its {what} take more than there is")))
}

fn read_intel_hex(text: &str) -> Result<Content, RecoverError> {
    let mut base = 0u64;
    let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
    for record in ihex::Reader::new(text) {
        match record.map_err(|error| RecoverError::Malformed(error.to_string()))? {
            Record::Data { offset, value } => {
                let address = base + u64::from(offset);
                match parts.last_mut() {
                    Some((start, part)) if *start + part.len() as u64 == address => part.extend(value),
                    _ => parts.push((address, value)),
                }
            }
            Record::ExtendedSegmentAddress(segment) => base = u64::from(segment) * 16,
            Record::ExtendedLinearAddress(upper) => base = u64::from(upper) << 16,
            Record::EndOfFile => break,
            Record::StartSegmentAddress { .. } | Record::StartLinearAddress(_) => {}
        }
    }
    let parts: Vec<_> = parts.iter().map(|(address, part)| (*address, &part[..])).collect();
    Ok((join(&parts), Symbols::default()))
}

/// Joins what touches or overlaps. If an address comes twice, the later byte counts, as in memory that is written.
///
/// In the result no piece begins where another one ends.
fn join(parts: &[(u64, &[u8])]) -> Pieces {
    let parts = parts.iter().map(|(address, bytes)| (*address, up_to_the_last_address(*address, bytes)));
    let parts = parts.filter(|(_, bytes)| !bytes.is_empty());
    let mut places: Vec<_> = parts.clone().map(|(address, bytes)| (address, bytes.len())).collect();
    places.sort_unstable();
    places.dedup_by(|(address, len), (start, so_far)| {
        // Not below 0, as they are sorted.
        let behind = *address - *start;
        let joined = behind <= *so_far as u64;
        if joined {
            *so_far = (*so_far).max(behind as usize + *len);
        }
        joined
    });
    let mut pieces: BTreeMap<_, _> = places.into_iter().map(|(start, len)| (start, vec![0u8; len])).collect();
    for (address, bytes) in parts {
        let piece = pieces.range_mut(..=address).next_back();
        let room = piece.and_then(|(start, piece)| piece.get_mut((address - *start) as usize..));
        if let Some(room) = room.and_then(|room| room.get_mut(..bytes.len())) {
            room.copy_from_slice(bytes);
        }
    }
    pieces.into_iter().map(|(start, piece)| (start, piece.into())).collect()
}

/// Cuts bytes off at the end of the address space, whatever a dump has beyond it.
fn up_to_the_last_address(address: u64, bytes: &[u8]) -> &[u8] {
    let behind_the_first = usize::try_from(u64::MAX - address).unwrap_or(usize::MAX);
    bytes.get(..behind_the_first.saturating_add(1)).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_the_memory_that_writing_them_one_after_the_other_makes() {
        let mut random = 5u64;
        let mut next = move |below: u64| {
            random = random * 48_271 % 0x7FFF_FFFF;
            random % below
        };
        for start in [0, 1000, u64::MAX - 59] {
            for _ in 0..300 {
                let bytes: Vec<(u64, Vec<u8>)> =
                    (0..next(12)).map(|n| (start + next(60), vec![n as u8 + 1; next(9) as usize])).collect();
                let mut memory = [0; 60];
                for (address, bytes) in &bytes {
                    let at = (address - start) as usize;
                    memory.iter_mut().skip(at).zip(bytes).for_each(|(byte, new)| *byte = *new);
                }
                let parts: Vec<_> = bytes.iter().map(|(address, bytes)| (*address, &bytes[..])).collect();
                let mut behind = None;
                let mut found = [0; 60];
                for (address, piece) in join(&parts) {
                    assert!(!piece.is_empty() && behind.is_none_or(|behind| address > behind), "{parts:?}");
                    behind = address.checked_add(piece.len() as u64);
                    let at = (address - start) as usize;
                    found.iter_mut().skip(at).zip(&*piece).for_each(|(byte, new)| *byte = *new);
                }
                assert_eq!(found, memory, "{parts:?}");
            }
        }
    }
}
