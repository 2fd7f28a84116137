//! The world around a service: a clock that a test sets, memory, files, and the other ends of connections.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tracebuf_service::wire::frames::{FrameBuffer, MAX_IPC_FRAME};
use tracebuf_service::{Action, Codec, ConnectionId, Event, FileToken, Peer, Port, Service};

use super::host::{BOOT_AHEAD, Shared, SharedWords, TestHost, words};

pub const MS: u64 = 1_000_000;

/// What the other end of a connection has heard.
#[derive(Default)]
struct End {
    frames: Vec<Vec<u8>>,
    bytes: Option<FrameBuffer>,
    files: Vec<FileToken>,
    /// Takes nothing: what is sent waits, and counts as not taken.
    is_stuck: bool,
    waiting: Vec<(Vec<u8>, Option<FileToken>)>,
}

/// A file that the service writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenFile {
    pub bytes: Vec<u8>,
    pub is_complete: bool,
    pub syncs: u32,
}

pub struct World {
    /// What only these connections may hear.
    pub secret: Option<(&'static [u8], BTreeSet<ConnectionId>)>,
    pub service: Service<TestHost>,
    shared: Rc<Shared>,
    ends: BTreeMap<ConnectionId, End>,
    pub closed: BTreeSet<ConnectionId>,
    pub files: BTreeMap<u64, WrittenFile>,
    /// Descriptors that the service has closed without using them.
    pub discarded: Vec<FileToken>,
    pub log: Vec<String>,
    /// How often the service has worked.
    pub turns: usize,
    last_connection: ConnectionId,
    last_number: u64,
    /// Files take nothing, for now: bytes of each that wait.
    pub files_are_stuck: bool,
    /// Files cannot be copied into others.
    pub copies_fail: bool,
    /// Who connects is of a namespace in which the service has no numbers for processes.
    pub has_no_pids: bool,
    failed: BTreeSet<u64>,
    unwritten: Vec<(FileToken, usize)>,
    finishing: Vec<FileToken>,
}

impl Default for World {
    fn default() -> Self {
        let shared = Rc::<Shared>::default();
        shared.now.set(10_000 * MS);
        Self {
            secret: None,
            service: Service::new(TestHost::new(shared.clone())),
            shared,
            ends: BTreeMap::new(),
            closed: BTreeSet::new(),
            files: BTreeMap::new(),
            discarded: Vec::new(),
            log: Vec::new(),
            turns: 0,
            last_connection: 0,
            last_number: 0,
            files_are_stuck: false,
            copies_fail: false,
            has_no_pids: false,
            failed: BTreeSet::new(),
            unwritten: Vec::new(),
            finishing: Vec::new(),
        }
    }
}

impl World {
    pub fn handle(&mut self, event: Event<'_>) {
        self.service.handle(event);
        self.run();
    }

    /// Lets the service work until it has nothing more to do.
    pub fn run(&mut self) {
        for _ in 0..100_000 {
            let has_more = self.service.turn();
            self.turns += 1;
            let actions: Vec<Action> = self.service.actions().collect();
            let is_done = actions.is_empty() && !has_more;
            actions.into_iter().for_each(|action| self.act(action));
            if is_done {
                return;
            }
        }
        panic!("the service is never done");
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Send { connection, bytes, file } => {
                let Some(end) = self.ends.get_mut(&connection) else { return };
                if end.is_stuck {
                    return end.waiting.push((bytes, file));
                }
                self.take(connection, &bytes, file);
            }
            Action::Close { connection } => {
                self.closed.insert(connection);
            }
            Action::Discard(file) => self.discarded.push(file),
            // One that has failed takes nothing more.
            Action::Write { file, .. } if self.failed.contains(&file.0) => {}
            Action::Write { file, bytes } => {
                let len = bytes.len();
                self.files.entry(file.0).or_default().bytes.extend(bytes);
                match self.files_are_stuck {
                    true => self.unwritten.push((file, len)),
                    false => self.service.handle(Event::Written { file, bytes: len }),
                }
            }
            Action::Copy { from, to } => {
                let copy = self.files.get(&from.0).map(|file| file.bytes.clone()).expect("it was written");
                assert!(self.files.get(&to.0).is_none_or(|file| file.bytes.is_empty()), "it comes first");
                if self.copies_fail {
                    self.files.entry(to.0).or_default();
                    self.failed.insert(to.0);
                    return self.service.handle(Event::Failed { file: to, error: "no copy".into() });
                }
                self.files.entry(to.0).or_default().bytes = copy;
            }
            Action::Sync(file) => self.files.entry(file.0).or_default().syncs += 1,
            Action::Finish(file) => match self.files_are_stuck {
                true => self.finishing.push(file),
                false => self.finish(file),
            },
            Action::Log(line) => self.log.push(line),
        }
    }

    fn finish(&mut self, file: FileToken) {
        self.files.entry(file.0).or_default().is_complete = true;
        self.service.handle(Event::Finished { file });
    }

    /// Files take everything again.
    pub fn unstick_files(&mut self) {
        self.files_are_stuck = false;
        for (file, bytes) in std::mem::take(&mut self.unwritten) {
            self.service.handle(Event::Written { file, bytes });
        }
        self.run();
        for file in std::mem::take(&mut self.finishing) {
            self.finish(file);
        }
        self.run();
    }

    /// A file takes nothing more.
    pub fn fail(&mut self, file: FileToken) {
        self.unwritten.retain(|(other, _)| *other != file);
        self.handle(Event::Failed { file, error: "the disk is full".into() });
    }

    /// Bytes given to files that these have not taken.
    pub fn unwritten(&self) -> usize {
        self.unwritten.iter().map(|(_, bytes)| bytes).sum()
    }

    fn take(&mut self, connection: ConnectionId, bytes: &[u8], file: Option<FileToken>) {
        let Some(end) = self.ends.get_mut(&connection) else { return };
        if let Some((secret, confidants)) = &self.secret {
            let is_told = bytes.windows(secret.len()).any(|part| part == *secret);
            assert!(!is_told || confidants.contains(&connection), "{connection} hears what is not for it");
        }
        end.files.extend(file);
        let frames = end.bytes.get_or_insert_with(|| FrameBuffer::new(MAX_IPC_FRAME));
        frames.push(bytes);
        while let Some(frame) = frames.next().expect("no frame is longer than clients take") {
            end.frames.push(frame.to_vec());
        }
        self.service.handle(Event::Sent { connection, bytes: bytes.len() });
    }

    /// The other end takes nothing more, or all again. How much waits for it is returned.
    pub fn stick(&mut self, connection: ConnectionId, is_stuck: bool) -> usize {
        let end = self.ends.get_mut(&connection).expect("a connection");
        end.is_stuck = is_stuck;
        let waiting = if is_stuck { Vec::new() } else { std::mem::take(&mut end.waiting) };
        let waits = end.waiting.iter().map(|(bytes, _)| bytes.len()).sum();
        for (bytes, file) in waiting {
            self.take(connection, &bytes, file);
        }
        self.run();
        waits
    }

    /// A number that is new with each call.
    pub fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub fn connect(&mut self, port: Port, uid: u32) -> ConnectionId {
        self.last_connection += 1;
        let connection = self.last_connection;
        self.ends.insert(connection, End::default());
        let pid = if self.has_no_pids { -1 } else { 1000 + connection as i32 };
        self.handle(Event::Connected { connection, port, peer: Peer { uid, pid } });
        connection
    }

    pub fn hang_up(&mut self, connection: ConnectionId) {
        self.handle(Event::Closed { connection });
        self.ends.remove(&connection);
    }

    /// What has come for the other end, frame by frame.
    pub fn frames(&self, connection: ConnectionId) -> &[Vec<u8>] {
        self.ends.get(&connection).map_or(&[], |end| &end.frames)
    }

    pub fn forget_frames(&mut self, connection: ConnectionId) {
        self.ends.get_mut(&connection).expect("a connection").frames.clear();
    }

    /// The descriptors that have come for the other end.
    pub fn files_for(&self, connection: ConnectionId) -> &[FileToken] {
        self.ends.get(&connection).map_or(&[], |end| &end.files)
    }

    pub fn memory_of(&self, file: FileToken) -> SharedWords {
        self.shared.memories.borrow()[&file.0].clone()
    }

    /// How many buffers have memory, and how much shared memory the service has.
    pub fn memory_in_use(&self) -> (usize, usize) {
        let memories = self.shared.memories.borrow();
        (self.shared.buffers.get(), memories.values().filter(|words| Rc::strong_count(words) > 1).count())
    }

    /// Memory that a producer brings.
    pub fn memory(&self, bytes: usize) -> FileToken {
        let file = self.file();
        self.shared.memories.borrow_mut().insert(file.0, words(bytes));
        file
    }

    /// A descriptor.
    pub fn file(&self) -> FileToken {
        self.shared.last_file.set(self.shared.last_file.get() + 1);
        FileToken(self.shared.last_file.get())
    }

    /// The file that the service has created at a path.
    pub fn created(&self, path: &str) -> Option<&WrittenFile> {
        self.shared.created.borrow().get(path).and_then(|file| self.files.get(file))
    }

    pub fn limit_memory(&self, bytes: usize) {
        self.shared.memory_left.set(Some(bytes));
    }

    pub fn can_compress(&self, by_deflate: bool, by_zstd: bool) {
        self.shared.codecs.set([by_deflate, by_zstd]);
    }

    /// What was compressed into this, and how.
    pub fn inflate(&self, packed: &[u8]) -> (Codec, Vec<u8>) {
        let place = u32::from_le_bytes(*packed.first_chunk().expect("its place"));
        self.shared.packed.borrow()[place as usize].clone()
    }

    pub fn boot_time(&self) -> u64 {
        self.shared.now.get() + BOOT_AHEAD + self.shared.slept.get()
    }

    /// Time passes, and the service is woken whenever it wants to be.
    pub fn pass(&mut self, ms: u64) {
        let end = self.shared.now.get() + ms * MS;
        while let Some(wake) = self.service.wake_at().filter(|wake| *wake <= end) {
            self.shared.now.set(wake.max(self.shared.now.get()));
            self.handle(Event::Woken);
        }
        self.shared.now.set(end);
        self.handle(Event::Woken);
    }

    /// Looking at clocks takes so many nanoseconds.
    pub fn slow_clocks(&mut self, nanoseconds: u64) {
        self.shared.look.set(nanoseconds);
    }

    /// The machine sleeps.
    pub fn sleep(&mut self, ms: u64) {
        self.shared.slept.set(self.shared.slept.get() + ms * MS);
    }
}
