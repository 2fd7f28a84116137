//! The limits of a session.

use std::ops::RangeInclusive;

use tracebuf::producer::Layout;

/// Buffers of a session, at most.
pub const BUFFERS_MAX: usize = 32;
/// Threads that can write at a time, each to one buffer. The format has room for twice as many.
pub const WRITERS: usize = 32_768;
/// Chunks of shared memory, at most.
pub const CHUNKS: usize = 32_768;
/// Bytes of a page of shared memory.
pub const PAGE: u32 = 4096;
/// Two chunks a page: 2 KiB each, so that many threads with few events do not use it up.
pub const LAYOUT: Layout = Layout::Two;
/// Sizes that shared memory can have, in bytes: from one page to what the producer's lists have room for.
pub const SHARED_MEMORY: RangeInclusive<usize> = PAGE as usize..=CHUNKS / 2 * PAGE as usize;
/// Bytes of a chunk, its header included.
pub const CHUNK: usize = LAYOUT.chunk_size(PAGE) as usize;
/// The number of the producer that is this process's own threads.
pub const OWN_PRODUCER_ID: u16 = 1;
