//! What the firmware `crash_inplace` records, and its log of that: for whoever looks at its RAM after it was stopped.
//!
//! Every event follows from its number, and each writer counts its own. The log is a static. Its words are
//! little-endian, like the target's: [`MAGIC`], then for each writer how many events it has finished, what the clock
//! said when the writer read it last, and the newest [`ENTRIES`] events, event `n` at `n % ENTRIES`: its time, and the
//! ring's position just after it.
//!
//! ```
//! use tracebuf::inplace::Recorder;
//! use tracebuf_firmware::stops::{Trace, record};
//!
//! let region = Trace::zeroed();
//! let recorder = Recorder::new(&region, || 7, 1_000);
//! let (writer, device) = (recorder.writer("thread"), recorder.track("device", 1));
//! (0..8).for_each(|number| record(&writer, device, number));
//! ```

use core::sync::atomic::{AtomicU32, Ordering::SeqCst, compiler_fence};
use tracebuf::inplace::{Region, Timer, TrackId, Writer, linked_name};

/// The ring has 16 chunks of 32 words: full chunks, and claims, as often as can be.
pub type Trace = Region<64, 96, CHUNKS, 32>;
/// Chunks of the ring.
pub const CHUNKS: usize = 16;
/// Which word of a region counts the places that were tried.
pub const POSITION: usize = 6;
/// The writers' tracks, from the lowest priority to the highest one.
pub const WRITERS: [&str; 5] = ["thread", "PendSV", "sensor", "control", "top"];
/// Names that take turns.
pub const NAMES: [&str; 3] = ["open", "measure", "a longer name"];
/// How a log begins once the firmware runs.
pub const MAGIC: [u8; 8] = *b"STOPSLOG";
/// Events of a writer in its log: more than it can have in the ring.
pub const ENTRIES: usize = 192;
/// Words of a writer in the log.
pub const ACCOUNT: usize = 2 + 2 * ENTRIES;
/// Most bytes of a text.
pub const TEXT: usize = 40;

/// The text of an event of this number.
pub fn text(number: u32, memory: &mut [u8; TEXT]) -> &str {
    let text = memory.get_mut(..number as usize % TEXT).unwrap_or_default();
    for (letter, at) in text.iter_mut().zip(number..) {
        *letter = b'a' + (at % 26) as u8;
    }
    core::str::from_utf8(text).unwrap_or_default()
}

/// Records the event of this number: eight kinds take turns. Two have names that are only in the program.
pub fn record<T: Timer>(writer: &Writer<'_, Trace, T>, device: TrackId, number: u32) {
    let name = NAMES.get((number / 8) as usize % NAMES.len()).copied().unwrap_or_default();
    match number % 8 {
        0 => writer.begin(name),
        1 => writer.named(linked_name!("level")).count(number as i32),
        2 => writer.count_i64("total", i64::from(number) << 32 | i64::from(!number)),
        3 => writer.instant_with("mark", |details| {
            details.arg("number", number as i32).flow(number);
        }),
        4 => writer.end(),
        5 => writer.on(device).instant(linked_name!("elsewhere")),
        6 => writer.measure("share", number as f32),
        _ => {
            let mut memory = [0; TEXT];
            let text = text(number, &mut memory);
            writer.instant_with("said", |details| {
                details.arg_text("text", text);
            });
        }
    }
}

/// The log.
#[derive(Debug)]
#[repr(C, align(8))]
pub struct Log {
    magic: [AtomicU32; 2],
    /// One for each of [`WRITERS`].
    pub accounts: [Account; WRITERS.len()],
}

impl Log {
    /// An empty log, that of a start that has not come far.
    pub const fn new() -> Self {
        Self { magic: [const { AtomicU32::new(0) }; 2], accounts: [const { Account::new() }; WRITERS.len()] }
    }

    /// Says that what is in it is valid.
    pub fn start(&self) {
        let [a, b, c, d, e, f, g, h] = MAGIC;
        self.magic[0].store(u32::from_le_bytes([a, b, c, d]), SeqCst);
        self.magic[1].store(u32::from_le_bytes([e, f, g, h]), SeqCst);
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::new()
    }
}

/// What a writer has finished.
#[derive(Debug)]
#[repr(C)]
pub struct Account {
    finished: AtomicU32,
    read_last: AtomicU32,
    entries: [[AtomicU32; 2]; ENTRIES],
}

impl Account {
    const fn new() -> Self {
        let entries = [const { [const { AtomicU32::new(0) }; 2] }; ENTRIES];
        Self { finished: AtomicU32::new(0), read_last: AtomicU32::new(0), entries }
    }

    /// Notes what the writer's clock says.
    #[inline(always)]
    pub fn reads(&self, ticks: u32) {
        self.read_last.store(ticks, SeqCst);
    }

    /// How many events it has finished.
    pub fn finished(&self) -> u32 {
        self.finished.load(SeqCst)
    }

    /// Records the next event, and notes that it is finished.
    pub fn note(&self, trace: &Trace, record: impl FnOnce(u32)) {
        let number = self.finished();
        record(number);
        compiler_fence(SeqCst);
        if let Some([time, position]) = self.entries.get(number as usize % ENTRIES) {
            time.store(self.read_last.load(SeqCst), SeqCst);
            position.store(trace.words().nth(POSITION).unwrap_or_default(), SeqCst);
        }
        self.finished.store(number + 1, SeqCst);
    }
}
