//! Buffers in mapped files, whose content survives the process. They are made on Unix only; Windows can read them.
//!
//! ```
//! use tracebuf_analysis::recover::Survivor;
//! use tracebuf_session::{BufferConfig, Session};
//!
//! let folder = std::env::temp_dir().join(format!("doc-region-{}", std::process::id()));
//! std::fs::create_dir_all(&folder)?;
//! let region = folder.join("trace.region");
//! // What a service does at its start: see what the last one left. The first time there is nothing.
//! assert_eq!(Survivor::open(&region).unwrap_err().kind(), std::io::ErrorKind::NotFound);
//!
//! let session = Session::builder().buffer(BufferConfig::ring(1 << 20).in_file(&region)).start()?;
//! session.recorder().instant("the last thing that happened");
//! session.flush(std::time::Duration::from_secs(1))?;
//! # drop(session); // stands for kill -9
//! // The process is killed, by whatever means. The next one:
//! let written = Survivor::open(&region)?.write_to(&folder.join("recovered.pftrace"))?;
//! assert!(written.packets >= 3);
//! # std::fs::remove_dir_all(folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What survives
//! What was committed when the process dies, even by `kill -9`, is in the file: the pages belong to the system. What
//! still lay in shared memory is lost, at most the last second and each thread's last event, unless [that is in the
//! file too](#with-shared-memory-in-it). After a power cut, pages that the system had not written are missing: recovery
//! leaves out chunks that make no sense and, in a slot, everything after the first damage.
//!
//! While the session runs, **never make the file shorter**, as `> FILE`, `truncate` and some log rotation do:
//! touching a page that is gone ends the process by SIGBUS. Removing or renaming the file does no harm.
//!
//! # With a long trace beside it
//! What the long trace has read must stay in the file until it is in the trace's. So the file has two *halves*. The
//! buffer lies in the first one. Before packets are read, its used part is copied into the second half, and one store
//! of eight bytes makes that the valid one. Then packets are consumed and put, in the form that they will have in the
//! trace, into a *slot*, and a second store makes the first half and the slot valid together. When the trace's file has
//! taken the slot, a third one frees it. So at any instant each packet is in the valid half, in a slot, or in the file.
//!
//! A slot knows where in the trace's file it goes, so that recovery can leave out what is there already. A kill loses
//! a packet of more than a mebibyte, and the last that a full file takes, while it is being written.
//!
//! Cost: the file has twice the buffer and two slots, each a quarter of it, 256 KiB to 16 MiB, and a mebibyte more.
//! Each period, and each slot filled in it, copies the used part of the buffer.
//!
//! # With shared memory in it
//! After [`shared_memory_in_file`](crate::SessionBuilder::shared_memory_in_file), recovery brings what the session's
//! own threads had finished into the buffer, each thread's events in order and none twice, while the buffer's table has
//! room for [all sequences](crate::BufferConfig::sequences). Not brought in are what a thread was just writing, chunks
//! for other buffers, what other processes had not sent, and an event over more than two chunks whose sizes the drain
//! thread had not received. After a power cut packets of this part may be damaged: it has no checksums.
//!
//! # What the ring forgets
//! With [`keep_descriptions`](crate::SessionBuilder::keep_descriptions), the file of a ring has it too: the last
//! description of each track and value of each counter, and the clock and names of each sequence at the ring's end,
//! without which no name would be known that was written before what the ring still holds. Each is replaced whole or
//! not at all, before its packet leaves the ring, so a kill at any moment leaves what belongs together. All of it has
//! checksums: after a power cut what is damaged, or does not fit the ring, is dropped. Then readers skip a sequence up
//! to its next state. It lies in two areas of the memory that was given: in one new content is made when the other one
//! is full. Beside a long trace, which has all of that, there is none.
//!
//! # At the next start
//! A file that an earlier session left is moved to `FILE.previous`, and what was there to `FILE.previous.previous`,
//! which is removed once the session has started. So there must be room for three. If the start fails, both are put
//! back. It fails if another session has a buffer in one of these files.
//!
//! A file left by a killed start holds nothing and is replaced: it begins with `TRACENEW`, or is all zeros. What was
//! there before is then in `FILE.previous`, as recovery says.
//!
//! # Layout
//! All numbers are little-endian. The file is a page of 4 KiB, then the halves, the slots, the table of writers followed
//! by shared memory, and the descriptions kept, each from the next multiple of 4 KiB on.
//!
//! | offset | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `TRACEMAP`; `TRACENEW` until the session has started |
//! | 8 | 8 | version, 1 |
//! | 16 | 8 | bytes of a half |
//! | 24 | 8 | halves: 1, or 2 with a long trace |
//! | 32 | 8 | slots: 0, or 2 |
//! | 40 | 8 | bytes of a slot |
//! | 48 | 8 | bit 0: the half that is valid; bit 1 + n: slot n is valid |
//! | 64 + 24 n | 24 | slot n: its length, its place in the file (all ones if not known yet), its number |
//! | 112 | 8 | bytes of shared memory; 0 if there is none, or when the session has stopped |
//! | 120 | 8 | bytes of a page of it: 4,096 |
//! | 128 | 8 | writers in the table, a multiple of 128: 32,768; 1,024 in files of version 0.1 |
//! | 136 | 8 | the buffer's number in its session |
//! | 144 | 24 | of its writers: the producer's number, the process's, the user's |
//! | 168 | 24 | of the descriptions kept: bytes of an area, where the first one is (the other one lies behind it), which one counts: 1, 2, or 0 for none |
//! | 256 | 8 + 512 | length and bytes of a packet with the clocks at the start, with which the long trace begins too |
//! | 1,024 + 32 n | 32 | pair of clocks n, of 96: boot time, steady clock, time of day, and a check of these three |
//!
//! In the table each writer, from 1 on, has four words of eight bytes. Bits 0–15: the number of the buffer that its
//! chunks are for; bit 16: 1 if the word is valid; bit 17: 1 if that holds for all of its chunks, otherwise it holds
//! for those from the number in bits 32–63 on. Where several words apply to a chunk, the last one counts.
//!
//! Either half may be the valid one.

mod clock_table;
mod contents;
mod create;
mod kept_memory;
mod memory;
mod outbox;
mod own_memory;
mod previous_file;
mod writers;

use crate::limits::WRITERS;
use writers::ENTRIES;

pub use contents::{Contents, Damage, PendingWrite, RecoveredSmb, cut_region, parse, read};
pub use previous_file::moved_by_a_start;
pub use tracebuf_std::free_file::{check_is_free, create_if_free};

pub(crate) use clock_table::{ClockTable, PAIRS_MAX};
pub(crate) use create::{RegionSpec, create};
pub(crate) use kept_memory::{KeptMemory, VmMemory};
pub(crate) use memory::{BufferMemory, OwnMark};
pub(crate) use outbox::{Outbox, Slot};
pub(crate) use own_memory::{OwnMemory, SharedMemorySpec};

/// The first bytes of the file.
pub const MAGIC: &[u8; 8] = b"TRACEMAP";
/// The same for a session that has not started yet.
pub const BEGUN: &[u8; 8] = b"TRACENEW";
const VERSION: u64 = 1;
const PAGE: u64 = 4096;
/// More than a part can have: a buffer has less than 4 GiB, and its table less than 1 GiB.
const LARGEST: u64 = 5 << 30;
const SLOTS: usize = 2;
/// Where things lie in the first page.
const HALF: usize = 16;
const HALVES: usize = 24;
const COUNT: usize = 32;
const SLOT: usize = 40;
const WORD: usize = 48;
const ABOUT: usize = 64;
const OWN: usize = 112;
const OWN_PAGE: usize = 120;
const WRITERS_AT: usize = 128;
const BUFFER: usize = 136;
const PRODUCER: usize = 144;
const PROCESS: usize = 152;
const USER: usize = 160;
const KEPT: usize = 168;
const KEPT_AT: usize = 176;
const KEPT_COUNTS: usize = 184;
const CLOCKS: usize = 256;
const CLOCKS_MAX: usize = 512;
/// Bytes before shared memory that say which buffer each of so many writers writes to: whole pages.
const fn table(writers: u64) -> u64 {
    writers * (ENTRIES * 8) as u64
}
const TABLE: u64 = table(WRITERS as u64);
/// In place of a slot's offset in the file while that is not known.
const NO_OFFSET: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    half: u64,
    halves: u64,
    slots: u64,
    slot: u64,
    /// Bytes of shared memory, without the table before it.
    own: u64,
    /// Bytes of that table.
    table: u64,
    /// Bytes of each of the two areas of what is kept.
    kept: u64,
}

impl Places {
    fn half_at(&self, half: u64) -> u64 {
        PAGE.saturating_add(whole_pages(self.half).saturating_mul(half))
    }

    fn slot_at(&self, slot: u64) -> u64 {
        self.half_at(self.halves).saturating_add(whole_pages(self.slot).saturating_mul(slot))
    }

    fn own_at(&self) -> u64 {
        self.slot_at(self.slots)
    }

    /// Only while the file is made: afterwards shared memory may count no more.
    fn kept_at(&self) -> u64 {
        let own = if self.own > 0 { self.table.saturating_add(self.own) } else { 0 };
        whole_pages(self.own_at().saturating_add(own))
    }

    fn end(&self) -> u64 {
        self.kept_at().saturating_add(self.kept.saturating_mul(2))
    }
}

/// Any number is possible: the header may be damaged.
fn whole_pages(len: u64) -> u64 {
    len.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

fn number(file: &[u8], at: usize) -> Option<u64> {
    let bytes = file.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}
