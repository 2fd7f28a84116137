//! The time that threads and processes have run, as Linux counts it.

use std::path::Path;

/// Seconds that a thread has run, from its folder in `/proc`.
pub fn ran(thread: &Path) -> f64 {
    let text = std::fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    text.split(' ').next().and_then(|ran| ran.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Seconds that all threads of a process have run.
pub fn of_process(pid: impl Into<u64>) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{}/task", pid.into())).expect("a process").flatten();
    threads.map(|thread| ran(&thread.path())).sum()
}
