//! The variables of a program, and the names that people use for them.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::RecoverError;

/// A longer path is no variable's. A short mangled name may stand for a very long path.
const MAX_PATH: usize = 1024;

/// The variable that a symbol stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variable {
    pub(super) address: u64,
    /// Its bytes, or 0 if the file does not say.
    pub(super) size: u64,
}

impl Variable {
    /// The most bytes that it can have.
    pub(super) fn most(&self) -> usize {
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        if size > 0 { size } else { usize::MAX }
    }
}

/// Variables by their linker names.
#[derive(Debug, Default)]
pub(super) struct Symbols(BTreeMap<String, Variable>);

impl Symbols {
    pub(super) fn add(&mut self, name: &str, variable: Variable) {
        self.0.insert(name.to_owned(), variable);
    }

    /// The variable of this name or, if there is none, the one whose Rust path is this, or ends with it.
    pub(super) fn find(&self, name: &str) -> Result<Variable, RecoverError> {
        if let Some(variable) = self.0.get(name) {
            return Ok(*variable);
        }
        let (mut whole, mut ends, mut near) = (Vec::new(), Vec::new(), Vec::new());
        let lower = name.to_lowercase();
        for (mangled, variable) in &self.0 {
            let path = path(mangled);
            let candidates = match path.strip_suffix(name) {
                Some("") => &mut whole,
                Some(before) if before.ends_with("::") => &mut ends,
                _ if path.to_lowercase().contains(&lower) => &mut near,
                _ => continue,
            };
            candidates.push((path, variable));
        }
        let mut found = if whole.is_empty() { ends } else { whole };
        // Variables whose own name contains it come first, then those whose path does; the shortest path has the least
        // besides it.
        near.sort_by_key(|(path, _)| {
            let own = path.rsplit("::").next().unwrap_or_default();
            (!own.to_lowercase().contains(&lower), path.len())
        });
        // Several names for one place are one variable.
        found.sort_by_key(|(_, variable)| variable.address);
        found.dedup_by_key(|(_, variable)| variable.address);
        let told = |candidates: Vec<(String, &Variable)>| {
            candidates.iter().map(|(path, variable)| format!("{path} at {:#x}", variable.address)).collect()
        };
        match &found[..] {
            [(_, one)] => Ok(**one),
            [] => Err(RecoverError::NoSuchSymbol { name: name.to_owned(), near: told(near) }),
            _ => Err(RecoverError::AmbiguousSymbol { name: name.to_owned(), all: told(found) }),
        }
    }
}

/// A symbol's path as in its program, without a hash; for another language, its name.
fn path(mangled: &str) -> String {
    let mut path = Short(String::new());
    match rustc_demangle::try_demangle(mangled) {
        Ok(name) if write!(path, "{name:#}").is_ok() => path.0,
        _ => mangled.to_owned(),
    }
}

/// Text of at most [`MAX_PATH`] bytes.
struct Short(String);

impl Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_PATH {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}
