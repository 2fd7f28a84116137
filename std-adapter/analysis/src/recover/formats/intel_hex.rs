//! Intel HEX.

use ihex::Record;

use super::pieces;
use crate::recover::{Dump, RecoverError};

pub(super) fn read(text: &str) -> Result<Dump<'static>, RecoverError> {
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
    Ok(Dump { pieces: pieces::join(&parts), ..Dump::default() })
}
