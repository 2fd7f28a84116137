//! `cargo bench -p tracebuf --bench throughput`: the reference's workloads, and bare loops alongside them.

mod workload;

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use tracebuf::buffer::Patch;
use workload::{Copier, MIB, READ_CHUNKS, Writers, fill_for_patches, read_all, ring, templates};

fn main() {
    divan::main();
}

/// Chunks committed in one measured run.
const ROUND: u32 = 4000;

/// Commits of 2.7 KB chunks into a 64 MiB ring that is never read, from the given number of writers in turn.
#[divan::bench(args = [1, 1000], sample_count = 50)]
fn write(bencher: Bencher<'_, '_>, writers: u16) {
    let templates = templates();
    let mut buffer = ring(64 * MIB, 1024);
    let mut writers = Writers::new(&templates, writers);
    let bytes = writers.commit(&mut buffer, ROUND);
    writers.commit(&mut buffer, 60_000);
    bencher
        .counter(BytesCount::new(bytes))
        .counter(ItemsCount::new(ROUND))
        .bench_local(|| writers.commit(&mut buffer, ROUND));
}

/// The same chunks copied one after the other into as much memory.
#[divan::bench(sample_count = 50)]
fn write_memcpy(bencher: Bencher<'_, '_>) {
    let templates = templates();
    let mut copier = Copier::new(&templates, 64 * MIB);
    let bytes = copier.copy(ROUND);
    copier.copy(60_000);
    bencher
        .counter(BytesCount::new(bytes))
        .counter(ItemsCount::new(ROUND))
        .bench_local(|| copier.copy(ROUND));
}

/// Reads 32,767 chunks of one writer to the end.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn read(bencher: Bencher<'_, '_>) {
    let templates = templates();
    let fill = || {
        let mut buffer = ring(128 * MIB, 64);
        Writers::new(&templates, 1).commit(&mut buffer, READ_CHUNKS);
        buffer
    };
    let (packets, bytes) = read_all(&mut fill());
    bencher
        .counter(ItemsCount::new(packets))
        .counter(BytesCount::new(bytes))
        .with_inputs(fill)
        .bench_local_refs(|buffer| read_all(black_box(buffer)));
}

/// Patches the n-th newest of 4,096 chunks; the last is one that is gone.
#[divan::bench(args = [1, 10, 1000, 5000])]
fn patch(bencher: Bencher<'_, '_>, age: u32) {
    let mut buffer = ring(16 * MIB, 64);
    fill_for_patches(&mut buffer, 8192);
    let patches = [Patch { offset: 100, data: [0; 4] }];
    bencher.bench_local(|| buffer.try_patch_chunk_contents(1, 1, black_box(8192 - age), &patches, true));
}
