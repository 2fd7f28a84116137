//! The cost of a large buffer in paged memory, by the system's own account.
#![cfg(target_os = "linux")]

use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
use tracebuf_std::PagedMemory;

const MIB: usize = 1 << 20;

/// The physical memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: usize = statm.split(' ').nth(1).and_then(|field| field.parse().ok()).expect("a page count");
    // Where pages are larger, this counts too little and the lower bounds below say so.
    pages * 4096
}

/// Alone in its program: another test's memory would be counted too.
#[test]
#[ignore = "measures the memory of its process"]
fn a_gibibyte_of_which_a_mebibyte_is_used_costs_that_and_so_does_a_clone() {
    // A clone needs a second one, more than the address space of 32 bits can hold besides the rest.
    let ring: u32 = if cfg!(target_pointer_width = "64") { 1 << 30 } else { 1 << 28 };
    let config = Config::new(FillPolicy::RingBuffer);
    let region = usize::try_from(config.region_size(ring)).expect("it fits the address space");
    let payload = [&[0xE8, 0x07][..], &[7; 1000]].concat();

    let before = resident();
    let memory = PagedMemory::new(region).expect("address space");
    let mut buffer = TraceBuffer::new(memory, config).expect("a region of the right size");
    let mut written = 0;
    for chunk_id in 0.. {
        if written >= MIB {
            break;
        }
        let header =
            ChunkHeader { producer_id: 1, writer_id: 1, chunk_id, fragments: 1, ..Default::default() };
        buffer.copy_chunk_untrusted(&Chunk { header, payload: &payload });
        written += payload.len();
    }
    let used = resident() - before;
    // Headers, the sequence table and whole pages come on top of the mebibyte.
    assert!((MIB..3 * MIB).contains(&used), "{used} bytes");

    let before = resident();
    let memory = PagedMemory::new(buffer.clone_size()).expect("address space");
    let mut clone = buffer.clone_read_only(memory).expect("a region of the right size");
    let used = resident() - before;
    assert!((MIB / 2..3 * MIB).contains(&used), "{used} bytes");

    let mut packets = 0;
    let mut reader = clone.read();
    while reader.next_packet().is_some() {
        packets += 1;
    }
    assert_eq!(packets, written / payload.len());
}
