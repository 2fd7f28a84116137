//! Outcomes of patches, and reasons why there is no machine.

use core::fmt;

/// What became of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum VmStatus {
    /// The program took the packet: the state has what it tells.
    Ok,
    /// The program does not know the packet. What it did before it found out stays.
    Error,
    /// The program or the packet is wrong, or there is no room. The state is as before.
    Abort,
}

/// Why a piece of memory or a program cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum VmError {
    /// The memory has no room for the smallest state.
    TooSmall {
        /// Bytes that would be enough if they were aligned to 4.
        needed: usize,
    },
    /// The program has more instructions and path components than steps were given.
    TooManySteps {
        /// Steps that are enough for it in any case.
        enough: usize,
    },
    /// No state of this version starts at the first 4-byte boundary.
    NoState,
    /// The state was made by another program.
    OtherProgram,
    /// The state is not what this crate left there.
    Damaged,
}

impl fmt::Display for VmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { needed } => write!(f, "the memory is too small: {needed} bytes are needed"),
            Self::TooManySteps { enough } => write!(f, "the program is too long: {enough} steps are enough"),
            Self::NoState => f.write_str("there is no state"),
            Self::OtherProgram => f.write_str("the state was made by another program"),
            Self::Damaged => f.write_str("the state is damaged"),
        }
    }
}

impl core::error::Error for VmError {}
