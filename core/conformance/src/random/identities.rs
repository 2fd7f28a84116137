//! Identities: sums that must agree after every operation on a buffer.

use crate::model::{Held, Stats};

/// - Every chunk offered counts once.
/// - Every byte that came, in chunks and padding, is still held or went one way.
/// - Chunks that left were stored once.
pub fn check_identities(stats: &Stats, held: Held, offered: u64) -> Result<(), String> {
    let counted = stats.chunks_written
        + stats.chunks_rewritten
        + stats.chunks_relocated
        + stats.chunks_unchanged
        + stats.chunks_discarded
        + stats.chunks_refused;
    if counted != offered {
        return Err(format!("{offered} chunks were offered, {counted} are counted"));
    }
    let came = stats.bytes_written + stats.padding_bytes_written;
    let went = stats.bytes_read + stats.bytes_overwritten + stats.padding_bytes_cleared;
    let here = held.chunks + held.padding;
    if came != went + here {
        return Err(format!("{came} bytes came, {went} went, {here} are held"));
    }
    if here > stats.buffer_size {
        return Err(format!("{here} bytes are held in {}", stats.buffer_size));
    }
    let stored = stats.chunks_written + stats.chunks_relocated;
    if stats.chunks_overwritten > stored || stats.chunks_committed_out_of_order > stored {
        return Err(format!("more chunks were overwritten or out of order than stored: {stats:?}"));
    }
    Ok(())
}
