//! What a service needs of its system: a clock that a test sets, memory that is counted, patterns, and codecs.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use regex::bytes::{Regex, RegexBuilder};
use tracebuf::producer::AtomicU32;
use tracebuf_service::{Clocks, Codec, FileToken, Find, Host, Machine, Pattern};

/// The user that the service works for.
pub const SERVICE: u32 = 90;
/// How far the clocks are ahead of each other at first.
pub const BOOT_AHEAD: u64 = 5_000_000_000;

/// Memory of both a service and a producer.
pub type SharedWords = Rc<[AtomicU32]>;

/// A buffer's memory, which is counted.
pub struct Memory(Vec<u8>, Rc<Cell<usize>>);

impl Memory {
    pub fn new(bytes: usize, count: Rc<Cell<usize>>) -> Self {
        count.set(count.get() + 1);
        Self(vec![0; bytes], count)
    }
}

impl AsRef<[u8]> for Memory {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Memory {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.1.set(self.1.get() - 1);
    }
}

pub fn words(bytes: usize) -> SharedWords {
    (0..bytes / 4).map(|_| AtomicU32::new(0)).collect()
}

#[derive(Default)]
pub struct Shared {
    pub now: Cell<u64>,
    /// Nanoseconds that a look at the clocks takes.
    pub look: Cell<u64>,
    /// Nanoseconds of sleep, by which boot time is ahead too.
    pub slept: Cell<u64>,
    pub memory_left: Cell<Option<usize>>,
    pub memories: RefCell<BTreeMap<u64, SharedWords>>,
    /// How many buffers have memory.
    pub buffers: Rc<Cell<usize>>,
    pub last_file: Cell<u64>,
    pub created: RefCell<BTreeMap<String, u64>>,
    /// Whether there is deflate, and zstd.
    pub codecs: Cell<[bool; 2]>,
    /// Packets that were compressed, by the place that stands for them, and how.
    pub packed: RefCell<Vec<(Codec, Vec<u8>)>>,
}

pub struct TestHost {
    shared: Rc<Shared>,
    machine: Machine,
}

impl TestHost {
    pub fn new(shared: Rc<Shared>) -> Self {
        let machine = Machine {
            uid: SERVICE,
            name: "here".into(),
            sysname: "Test".into(),
            timezone_minutes: Some(-90),
            ..Machine::default()
        };
        Self { shared, machine }
    }

    fn file(&self) -> FileToken {
        self.shared.last_file.set(self.shared.last_file.get() + 1);
        FileToken(self.shared.last_file.get())
    }
}

#[derive(Debug)]
struct TestPattern(Regex);

impl Pattern for TestPattern {
    fn find(&self, text: &[u8], from: usize, groups: &mut Vec<Range<usize>>) -> Option<usize> {
        let found = self.0.captures_at(text, from)?;
        groups.extend(found.iter().skip(1).flatten().map(|group| group.range()));
        found.get(0).map(|all| all.end())
    }
}

impl Host for TestHost {
    type Memory = Memory;
    type Shared = SharedWords;

    fn memory(&mut self, bytes: usize) -> Option<Memory> {
        if let Some(left) = self.shared.memory_left.get() {
            self.shared.memory_left.set(Some(left.checked_sub(bytes)?));
        }
        Some(Memory::new(bytes, self.shared.buffers.clone()))
    }

    fn share(&mut self, bytes: usize) -> Option<(Self::Shared, FileToken)> {
        let (words, file) = (words(bytes), self.file());
        self.shared.memories.borrow_mut().insert(file.0, words.clone());
        Some((words, file))
    }

    fn adopt(&mut self, file: FileToken) -> Option<Self::Shared> {
        self.shared.memories.borrow().get(&file.0).cloned()
    }

    fn create(&mut self, path: &str, uid: u32) -> Result<FileToken, String> {
        if uid != 0 && uid != SERVICE {
            return Err("not allowed".into());
        }
        if self.shared.created.borrow().contains_key(path) {
            return Err("it exists".into());
        }
        let file = self.file();
        self.shared.created.borrow_mut().insert(path.into(), file.0);
        Ok(file)
    }

    fn clocks(&mut self) -> Clocks {
        let monotonic = self.shared.now.get();
        self.shared.now.set(monotonic + self.shared.look.get());
        let boottime = monotonic + BOOT_AHEAD + self.shared.slept.get();
        Clocks {
            boottime,
            monotonic,
            monotonic_raw: monotonic + 1,
            monotonic_coarse: monotonic - 1,
            realtime: boottime + (1 << 60),
            realtime_coarse: boottime + (1 << 60) - 1,
            tsc: 3 * monotonic,
        }
    }

    fn random(&mut self) -> u64 {
        0x1122_3344_5566_7788
    }

    /// Patterns of these tests: `*` alone matches all, and `(` is none.
    fn matches(&mut self, pattern: &str, text: &str) -> Result<bool, String> {
        if pattern == "(" { Err("unclosed".into()) } else { Ok(pattern == "*" || pattern == text) }
    }

    fn pattern(&mut self, pattern: &str, find: Find) -> Result<Box<dyn Pattern>, String> {
        let pattern = if find == Find::Whole { format!(r"\A(?:{pattern})\z") } else { pattern.into() };
        let regex = RegexBuilder::new(&pattern).unicode(false).build().map_err(|error| error.to_string())?;
        Ok(Box::new(TestPattern(regex)))
    }

    /// Stands for a codec: the place of what it was given, and some bytes as a stream would have.
    fn compress(&mut self, codec: Codec, packets: &[u8]) -> Option<Vec<u8>> {
        let [deflates, has_zstd] = self.shared.codecs.get();
        if !(if codec == Codec::Deflate { deflates } else { has_zstd }) {
            return None;
        }
        let mut packed = self.shared.packed.borrow_mut();
        packed.push((codec, packets.to_vec()));
        Some([&(packed.len() as u32 - 1).to_le_bytes()[..], &vec![0; packets.len() / 4]].concat())
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }
}
