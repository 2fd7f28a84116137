//! Costs: the core counts its steps under cargo-fuzz (`--cfg fuzzing`), and no operation may take more than in
//! proportion to what it is given and what its buffer holds.

/// Steps for each byte that is given or held: of a chunk of empty packets each byte is one, looked at to find
/// the chunk, to read it and to step over it.
const STEPS_A_BYTE: usize = 8;

/// Does something with a buffer whose region has `region` bytes, given `given` bytes.
pub fn bounded<T>(region: usize, given: usize, work: impl FnOnce() -> T) -> T {
    at_most(200 + STEPS_A_BYTE * (region + given), work)
}

/// Does something that may take so many steps.
pub fn at_most<T>(most: usize, work: impl FnOnce() -> T) -> T {
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
