//! A core with its segments, or a program with its symbols.

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use super::pieces;
use crate::recover::symbols::Variable;
use crate::recover::{Dump, RecoverError};

/// Segments and symbols.
pub(super) fn read(file: &[u8]) -> Result<Dump<'static>, RecoverError> {
    let malformed = |error: object::Error| RecoverError::Malformed(error.to_string());
    let elf = object::File::parse(file).map_err(malformed)?;
    let mut dump = Dump::default();
    let mut left = file.len();
    let mut parts = Vec::new();
    for segment in elf.segments() {
        let bytes = segment.data().map_err(malformed)?;
        left = less(left, bytes.len(), "segments")?;
        parts.push((segment.address(), bytes));
    }
    dump.pieces = pieces::join(&parts);
    let mut left = file.len();
    for symbol in elf.symbols() {
        if let Ok(name) = symbol.name() {
            left = less(left, name.len(), "symbols' names")?;
            if is_variable(&symbol) {
                dump.symbols.add(name, Variable { address: symbol.address(), size: symbol.size() });
            }
        }
    }
    Ok(dump)
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
