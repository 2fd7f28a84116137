//! What the program records, defined once: the program records it, and the tests expect it.
//!
//! An event is described by a line, `+work/outer thread=0 number=7`: `+` for a slice's begin, `-` for its end, `!` for
//! an instant, `#` for a counter; then its category and name, its track if it is not a thread's, its value, what it is
//! linked with, and its arguments.

use std::fmt::Write as _;

/// The data source that writes packets of its own.
pub const SOURCE: &str = "tracebuf.interop";

/// The name of a program with tracebuf's recorders that follows Perfetto's service.
pub const FOLLOWER: &str = "follower";

/// Categories of the program. The last has a tag that excludes it unless it is requested.
pub const CATEGORIES: [&str; 4] = ["work", "net.send", "net.receive", "noise"];

/// Those without such a tag.
pub const DEFAULT_CATEGORIES: [&str; 3] = ["work", "net.send", "net.receive"];

/// How many names the inner slices use in turn.
pub const INNER_NAMES: u64 = 50;

/// A text that says where each part of it belongs, so that misplaced parts are noticed.
pub fn text(number: u64, len: usize) -> String {
    let mut text = String::with_capacity(len + 32);
    while text.len() < len {
        write!(text, "{number}:{} ", text.len()).expect("there is memory");
    }
    text.truncate(len);
    text
}

/// The length of a round's text, if it has one: some are longer than two chunks.
pub fn text_len(number: u64) -> Option<usize> {
    (number % 50 == 49).then_some((number * 37 % 9000) as usize)
}

/// The length of a packet's text: every tenth is as long as possible.
pub fn packet_len(number: u64, max: usize) -> usize {
    if number % 10 == 9 { max } else { (number * 7919) as usize % max }
}

/// The events that a thread records in a round, if these categories are enabled.
pub fn round(thread: u64, number: u64, categories: &[&str]) -> Vec<String> {
    let (of, mut events) = (format!("thread={thread} number={number}"), Vec::new());
    let mut event = |category: &str, event: String| {
        if categories.contains(&category) {
            events.push(event);
        }
    };
    let flow = flow(thread, number);
    event("work", format!("+work/outer {of}"));
    event("work", format!("+work/inner {} flow={flow} {of}", number % INNER_NAMES));
    event("net.send", format!("!net.send/send {of}"));
    event("net.receive", format!("!net.receive/receive track=remote end={flow} {of}"));
    event("noise", format!("!noise/noise {of}"));
    if let Some(len) = text_len(number) {
        event("work", format!("!work/long {of} text={}", text(number, len)));
    }
    event("work", format!("# track=items value={}", integer(number)));
    event("work", format!("# track=level value={}", double(number)));
    event("work", format!("- {of} inner=1"));
    event("work", format!("- {of}"));
    events
}

/// A counter's value; some are below zero.
pub fn integer(number: u64) -> i64 {
    5 - number as i64 * 1_000_003
}

/// A counter's value.
pub fn double(number: u64) -> f64 {
    number as f64 / 4.0 - 2.5
}

/// The number of the flow of a round, unique in its process.
pub fn flow(thread: u64, number: u64) -> u64 {
    (thread + 1) << 32 | number
}
