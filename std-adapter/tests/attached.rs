//! Producers that a session, or a service of one's own, gets from elsewhere: how they come and go.
#![cfg(target_os = "linux")]

use memmap2::MmapMut;
use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
use tracebuf::producer::{Consumer, SharedMemory, atomic_words_in};
use tracebuf::service::{ProducerEndpoint, ProducerIdentity};

/// Page faults of this thread for which nothing was read from a disk.
fn page_faults() -> usize {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux");
    let behind_name = stat.rsplit(')').next().expect("a name in brackets");
    behind_name.split_whitespace().nth(7).and_then(|field| field.parse().ok()).expect("a count")
}

#[test]
fn a_producer_without_writers_goes_without_a_look_at_its_memory() {
    const PAGES: usize = 2048;
    let file = rustix::fs::memfd_create("producer", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
    let file = std::fs::File::from(file);
    file.set_len(PAGES as u64 * 4096).expect("so many pages");
    // SAFETY: nobody else has the file.
    let mut map = unsafe { MmapMut::map_mut(&file) }.expect("address space");
    let memory = SharedMemory::new(atomic_words_in(&mut map), 4096).expect("a size that can be");
    let mut buffers = [TraceBuffer::new(vec![0; 8192], Config::new(FillPolicy::RingBuffer)).expect("room")];
    let identity = ProducerIdentity { producer_id: 2, uid: 0, pid: -1 };
    let mut endpoint = ProducerEndpoint::<64>::new(Consumer::new(memory), identity);
    assert!(endpoint.allow(0));
    let mut faults = |endpoint: &mut ProducerEndpoint<'_, 64>| {
        let before = page_faults();
        assert_eq!(endpoint.disconnect(&mut buffers), 0);
        page_faults() - before
    };
    let without = faults(&mut endpoint);
    assert!(without < PAGES / 8, "{without} page faults");
    // A writer may have written anywhere.
    assert!(endpoint.register_writer(1, 0));
    let with = faults(&mut endpoint);
    assert!(with > PAGES / 2, "{with} page faults");
}
