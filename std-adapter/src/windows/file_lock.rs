//! Locks on files: on Windows, that they are open through [`for_a_trace`](super::for_a_trace).

use std::fs::File;
use std::io;
use std::path::Path;

/// No lock beside the open file.
#[derive(Debug)]
pub enum Lock {}

impl Lock {
    /// # Errors
    /// Always: a file is locked by how it is opened.
    pub fn new(_: &File, _: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The file is already locked.
    ///
    /// # Errors
    /// None.
    pub fn where_possible(_: &File, _: &Path) -> io::Result<Option<Self>> {
        Ok(None)
    }
}

/// A lock for a moment.
#[derive(Debug)]
pub struct Held<'f>(#[allow(dead_code, reason = "as where there are locks")] &'f File);

/// # Errors
/// Always: a file is locked by how it is opened.
pub fn lock(_: &File) -> io::Result<Held<'_>> {
    Err(io::ErrorKind::Unsupported.into())
}
