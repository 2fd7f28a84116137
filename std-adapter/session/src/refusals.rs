//! Programs that came to a session and were sent away: who, how often, and why.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tracebuf_std::display::Escaped;

/// A program that was sent away, and why. `Display` says it in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedProgram {
    /// Its user, `u32::MAX` if unknown.
    pub uid: u32,
    /// Its process, −1 if unknown.
    pub pid: i32,
    /// Why.
    pub why: String,
    /// How often it came and was sent away for this.
    pub times: u64,
}

impl fmt::Display for RefusedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uid, pid, why, times } = self;
        match pid {
            -1 => f.write_str("a process")?,
            pid => write!(f, "process {pid}")?,
        }
        if *uid != u32::MAX {
            write!(f, " of user {uid}")?;
        }
        f.write_str(" was sent away")?;
        if *times > 1 {
            write!(f, " {times} times")?;
        }
        write!(f, ": {}", Escaped(why))
    }
}

/// Most programs of which each is remembered; of all later ones, only how many there were.
const MOST: usize = 64;

/// All of a session. Clones are the same.
#[derive(Clone, Default)]
pub struct Refusals(Arc<Mutex<Refused>>);

#[derive(Clone, Default)]
struct Refused {
    programs: Vec<RefusedProgram>,
    count: u64,
}

impl Refusals {
    /// Notes that a program was sent away.
    pub fn note(&self, uid: u32, pid: i32, why: &str) {
        let mut refused = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        refused.count = refused.count.saturating_add(1);
        let is_room = refused.programs.len() < MOST;
        let is_this = |one: &&mut RefusedProgram| (one.uid, one.pid, one.why.as_str()) == (uid, pid, why);
        match refused.programs.iter_mut().find(is_this) {
            Some(program) => program.times = program.times.saturating_add(1),
            None if is_room => {
                refused.programs.push(RefusedProgram { uid, pid, why: why.to_owned(), times: 1 });
            }
            None => {}
        }
    }

    /// How often programs were sent away.
    pub fn count(&self) -> u64 {
        self.all().1
    }

    /// The first programs that were, and how many there were in all.
    pub(crate) fn all(&self) -> (Vec<RefusedProgram>, u64) {
        let Refused { programs, count } = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (programs, count)
    }
}

debug_fields!(Refusals);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_told_once_with_how_often_it_came_and_many_take_no_memory() {
        let refusals = Refusals::default();
        for _ in 0..3 {
            refusals.note(1000, 42, "no place");
        }
        refusals.note(1000, 42, "silent\n");
        refusals.note(u32::MAX, -1, "no place");
        let (programs, count) = refusals.all();
        let told: Vec<String> = programs.iter().map(RefusedProgram::to_string).collect();
        assert_eq!(
            told,
            [
                "process 42 of user 1000 was sent away 3 times: no place",
                "process 42 of user 1000 was sent away: silent\\n",
                "a process was sent away: no place",
            ]
        );
        assert_eq!(count, 5);
        (0..1000).for_each(|pid| refusals.note(0, pid, "no place"));
        let (programs, count) = refusals.all();
        assert_eq!((programs.len(), count), (MOST, 1005));
    }
}
