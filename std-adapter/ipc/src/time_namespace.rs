//! Boot time in time namespaces: how far this program's is ahead of its service's, as `/proc` tells.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::pid_namespace::PROC;

/// Returns by how many nanoseconds this process's boot time is ahead of that of a process. One that has no number here,
/// as a service outside of this process's container, or of which `/proc` tells nothing, has the machine's.
pub(crate) fn ahead_of(pid: i32) -> i64 {
    let proc = Path::new(PROC);
    let own = boot_time_ahead();
    let other = if pid > 0 { offset(proc, &pid.to_string()) } else { None };
    own.saturating_sub(other.unwrap_or(0))
}

/// Returns by how many nanoseconds this process's boot time is ahead of the machine's: 0, except in containers that have a
/// time namespace. Takes the reading of a small file.
pub fn boot_time_ahead() -> i64 {
    offset(Path::new(PROC), "self").unwrap_or(0)
}

/// By how many nanoseconds a process's boot time is ahead of the machine's; `None` if that is not told, as on a system
/// without time namespaces.
fn offset(proc: &Path, process: &str) -> Option<i64> {
    let folder = proc.join(process);
    let namespace = |name: &str| fs::metadata(folder.join("ns").join(name)).ok().map(|file| file.ino());
    // The offsets are those of its children, which differ after `unshare` until it becomes another program.
    if namespace("time") != namespace("time_for_children") {
        return None;
    }
    let text = fs::read_to_string(folder.join("timens_offsets")).ok()?;
    text.lines().find_map(parse)
}

/// Parses a line for boot time: whole seconds, and nanoseconds more.
fn parse(line: &str) -> Option<i64> {
    let mut words = line.split_ascii_whitespace();
    let is_it = matches!(words.next()?, "boottime" | "7");
    let mut number = || words.next()?.parse::<i64>().ok();
    let (seconds, nanoseconds) = (number()?, number()?);
    is_it.then(|| seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_parsed_and_processes_of_one_namespace_have_none() {
        let lines = [
            "monotonic           0         0",
            "boottime       100000         7",
            "boottime           -8 999999999",
        ];
        assert_eq!(lines.map(parse), [None, Some(100_000_000_000_007), Some(-7_000_000_001)]);
        assert_eq!(["", "boottime", "boottime 5", "boottime x 5"].map(parse), [None; 4]);
        let own = i32::try_from(std::process::id()).expect("a number");
        assert_eq!(ahead_of(own), 0);
        assert_eq!(ahead_of(-1), boot_time_ahead());
    }
}
