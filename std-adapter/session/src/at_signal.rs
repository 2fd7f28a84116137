//! What is completed before a signal ends the process: by all who watch that signal, not by the first of them alone.
//! Those who would let the process go on take part, as others may not.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tracebuf_std::fork;
use tracebuf_std::signals::signal_name;

/// How often those who are done look whether the others are, and how many times.
const LOOK: Duration = Duration::from_millis(5);
const LOOKS: u32 = 1000;

/// The name of a signal; of one without a name, its number.
pub(crate) fn name_of(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal-{signal}"), str::to_owned)
}

/// Checks that these signals can be caught.
///
/// # Errors
/// The first that cannot be, and why.
pub(crate) fn check_signals(signals: &[i32]) -> io::Result<()> {
    // With most of these `signal-hook` panics; a number below 128 that is no signal is an error of the system's.
    for signal in signals {
        let why = match signal_name(*signal) {
            Some("SIGKILL" | "SIGSTOP") => "the system lets no program do so",
            Some("SIGSEGV" | "SIGBUS" | "SIGILL" | "SIGFPE") => {
                "it tells of a crash, and comes again when its handler ends"
            }
            _ if (1..128).contains(signal) => continue,
            _ => "there is none of this number",
        };
        let why = format!("{} cannot be caught: {why}", name_of(*signal));
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(())
}

/// Somebody who does something on signals, on a thread that watches them.
pub(crate) struct AtSignal {
    number: u64,
    forks: u32,
}

struct Owner {
    number: u64,
    /// The fork count of the process in which it watches.
    forks: u32,
    signals: Vec<i32>,
    /// Those of which all is done.
    done: Vec<i32>,
}

#[derive(Default)]
struct Owners {
    next: u64,
    list: Vec<Owner>,
}

static OWNERS: Mutex<Owners> = Mutex::new(Owners { next: 0, list: Vec::new() });

/// A child after a fork may have owners of its own, so none is forked while this is locked.
fn with_owners<T>(f: impl FnOnce(&mut Owners) -> T) -> T {
    fork::while_nobody_forks(|| f(&mut OWNERS.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl AtSignal {
    pub(crate) fn new(signals: &[i32]) -> Self {
        let (forks, signals) = (fork::forks(), signals.to_owned());
        with_owners(|owners| {
            owners.next += 1;
            let number = owners.next;
            owners.list.push(Owner { number, forks, signals, done: Vec::new() });
            Self { number, forks }
        })
    }

    /// Does this, and returns when all who watch this signal have done theirs, or after 5 s: whoever returns first ends
    /// the process.
    pub(crate) fn complete(&self, signal: i32, work: impl FnOnce()) {
        self.with_own(|own| own.done.retain(|done| *done != signal));
        work();
        self.with_own(|own| own.done.push(signal));
        let is_awaited = |owner: &Owner| {
            owner.forks == self.forks && owner.signals.contains(&signal) && !owner.done.contains(&signal)
        };
        let waits = || with_owners(|owners| owners.list.iter().any(is_awaited));
        (0..LOOKS).take_while(|_| waits()).for_each(|_| thread::sleep(LOOK));
    }

    fn with_own(&self, f: impl FnOnce(&mut Owner)) {
        with_owners(|owners| owners.list.iter_mut().find(|owner| owner.number == self.number).map(f));
    }
}

impl Drop for AtSignal {
    fn drop(&mut self) {
        if self.forks == fork::forks() {
            with_owners(|owners| owners.list.retain(|owner| owner.number != self.number));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    #[test]
    fn nobody_returns_before_the_last_one_is_done_and_those_who_have_gone_are_not_awaited() {
        // Not signals of any system: tests of others do not watch them.
        let [one, other, gone] = [&[-1, -2][..], &[-1], &[-1]].map(AtSignal::new);
        drop(gone);
        let (done, order) = channel();
        thread::scope(|scope| {
            let told = done.clone();
            scope.spawn(move || {
                one.complete(-1, || told.send("quick").expect("the test waits"));
                told.send("quick returns").expect("the test waits");
                // Nobody else watches this one.
                let start = Instant::now();
                one.complete(-2, || ());
                assert!(start.elapsed() < Duration::from_secs(1));
            });
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(200));
                other.complete(-1, || done.send("slow").expect("the test waits"));
            });
        });
        assert_eq!(order.iter().collect::<Vec<_>>(), ["quick", "slow", "quick returns"]);
    }
}
