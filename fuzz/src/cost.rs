//! Costs: the core counts its steps under cargo-fuzz (`--cfg fuzzing`), and no operation may take more than in
//! proportion to its input and its buffer's content.

use crate::memory::Memory;
use tracebuf::buffer::TraceBuffer;

/// Steps for each byte that is given or held: in a chunk of empty packets each byte is one, looked at to find the
/// chunk, to read it and to step over it.
const STEPS_A_BYTE: usize = 8;

/// Does something with a buffer whose region has `region` bytes, with `given` bytes of input.
pub fn bounded<T>(region: usize, given: usize, work: impl FnOnce() -> T) -> T {
    let most = 200 + STEPS_A_BYTE * (region + given);
    #[cfg(fuzzing)]
    {
        let (done, steps) = tracebuf::steps::steps_of(work);
        assert!(steps <= most as u64, "{steps} steps, and {most} are the most");
        done
    }
    #[cfg(not(fuzzing))]
    {
        let _ = most;
        work()
    }
}

/// Bytes that a buffer can hold, including its chunks' headers.
pub fn capacity(buffer: &TraceBuffer<Memory>) -> usize {
    buffer.stats().buffer_size as usize
}
