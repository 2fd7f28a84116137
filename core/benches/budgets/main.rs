//! `cargo bench -p tracebuf --bench budgets`: each budget next to what is measured now.
//!
//! `-- --slack F` multiplies the limits of what is timed by F, and divides those of ratios that must be reached: for
//! machines that others are using at the same time.
//!
//! One line each, `budget NAME MEASURED LIMIT UNIT ok|over`; exit status 1 if one is over. Because machines are
//! noisy, commits are medians of ratios to a copy taken in turn with them; the other times are medians in
//! nanoseconds.

mod producer;
mod sheet;
#[cfg(feature = "vm")]
mod vm;
#[path = "../workload/mod.rs"]
mod workload;

use sheet::{Sheet, median, seconds};
use std::hint::black_box;
use std::process::ExitCode;
use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, Patch, TraceBuffer};
use workload::{
    Copier, MIB, READ_CHUNKS, REFERENCE_CHUNK, Template, Writers, fill_for_patches, read_all, ring, templates,
};

fn main() -> ExitCode {
    let templates = templates();
    let mut sheet = Sheet::new();
    write(&mut sheet, "write-single", &templates, 1, 0.75);
    write(&mut sheet, "write-multi-1000", &templates, 1000, 0.65);
    read(&mut sheet, &templates);
    patch(&mut sheet);
    overhead(&mut sheet);
    producer::events(&mut sheet);
    #[cfg(feature = "vm")]
    vm::patches(&mut sheet);
    sheet.finish()
}

/// Commits into a ring that laps, against a loop of copies of the same chunks into as much memory.
fn write(sheet: &mut Sheet, name: &str, templates: &[Template], writers: u16, limit: f64) {
    const ROUND: u32 = 12_000;
    let mut buffer = ring(64 * MIB, 1024);
    let mut writers = Writers::new(templates, writers);
    let mut copier = Copier::new(templates, 64 * MIB);
    // Two laps: memory is touched and evicting has begun.
    writers.commit(&mut buffer, 60_000);
    copier.copy(60_000);
    let (mut ratios, mut commits, mut copies, mut bytes) = (vec![], vec![], vec![], 0);
    for _ in 0..41 {
        let (copy, _) = seconds(|| copier.copy(ROUND));
        let (commit, payload) = seconds(|| writers.commit(&mut buffer, ROUND));
        bytes = payload;
        ratios.push(copy / commit);
        commits.push(commit);
        copies.push(copy);
    }
    let (commit, copy) = (median(commits), median(copies));
    let gigabytes = |seconds: f64| bytes as f64 / seconds / 1e9;
    println!(
        "{name}: {:.0} ns a chunk, {:.2} GB/s of payload ({:.2} GB/s as the reference counts); memcpy {:.0} ns, {:.2} GB/s",
        commit / f64::from(ROUND) * 1e9,
        gigabytes(commit),
        (u64::from(ROUND) * REFERENCE_CHUNK) as f64 / commit / 1e9,
        copy / f64::from(ROUND) * 1e9,
        gigabytes(copy),
    );
    sheet.timed_at_least(name, median(ratios), limit, "of-memcpy");
}

/// Reads a filled ring to its end, against a loop that touches one byte of each packet.
fn read(sheet: &mut Sheet, templates: &[Template]) {
    let mut buffer = ring(128 * MIB, 64);
    Writers::new(templates, 1).commit(&mut buffer, READ_CHUNKS);
    let places = {
        let mut clone = buffer.clone_read_only(vec![0u8; buffer.clone_size()]).expect("room for a clone");
        let mut places = Vec::new();
        let mut reader = clone.read();
        let mut at = 0usize;
        while let Some(packet) = reader.next_packet() {
            // What matters is the distance between packets, not where they are.
            places.push(at);
            at += packet.len() + 2;
        }
        places
    };
    let touched = vec![1u8; 128 * MIB as usize];
    let (mut reads, mut touches, mut packets, mut bytes) = (vec![], vec![], 0, 0);
    for _ in 0..9 {
        let mut clone = buffer.clone_read_only(vec![0u8; buffer.clone_size()]).expect("room for a clone");
        black_box(clone.stats());
        let (touch, _) = seconds(|| places.iter().map(|place| u64::from(touched[*place])).sum::<u64>());
        let mut reader = clone.read();
        let (read, (count, sum)) = seconds(|| {
            let (mut packets, mut bytes) = (0u64, 0u64);
            while let Some(packet) = reader.next_packet() {
                bytes += packet.slices().map(|slice| slice.len() as u64).sum::<u64>();
                packets += 1;
            }
            (packets, bytes)
        });
        (packets, bytes) = (count, sum);
        reads.push(read / count as f64 * 1e9);
        touches.push(touch / count as f64 * 1e9);
    }
    let read = median(reads);
    println!(
        "read: {packets} packets, {bytes} bytes, {read:.1} ns a packet, {:.2} GB/s of payload ({:.2} GB/s as the reference counts); one byte of each: {:.1} ns",
        bytes as f64 / (read * packets as f64),
        (u64::from(READ_CHUNKS) * REFERENCE_CHUNK) as f64 / (read * packets as f64),
        median(touches),
    );
    sheet.timed_at_most("read", read, 30.0, "ns/packet");
    let (_, read_bytes) = read_all(&mut buffer);
    assert_eq!(read_bytes, bytes);
}

/// Patches into a ring of 4,096 chunks of one writer.
fn patch(sheet: &mut Sheet) {
    let mut buffer = ring(16 * MIB, 64);
    let chunks = 4096 + 1000;
    fill_for_patches(&mut buffer, chunks);
    let patches = [Patch { offset: 100, data: [0; 4] }];
    let mut time = |chunk_id: u32, there: bool| {
        let times = (0..101).map(|_| {
            let (time, _) = seconds(|| {
                for _ in 0..100 {
                    assert_eq!(
                        buffer.try_patch_chunk_contents(1, 1, black_box(chunk_id), &patches, true),
                        there
                    );
                }
            });
            time * 1e9 / 100.0
        });
        median(times.collect())
    };
    let (newest, tenth) = (time(chunks - 1, true), time(chunks - 10, true));
    println!("patch: newest {newest:.1} ns, 10th newest {tenth:.1} ns");
    sheet.timed_at_most("patch-gone", time(10, false), 100.0, "ns");
    sheet.timed_at_most("patch-not-yet-there", time(chunks + 10, false), 100.0, "ns");
}

/// What the region takes besides the payload.
fn overhead(sheet: &mut Sheet) {
    let fixed = Config::new(FillPolicy::RingBuffer).sequences(4).region_size(0) - 4 * 48;
    sheet.at_most("region-fixed", fixed as f64, 256.0, "bytes");
    let sequence = Config::new(FillPolicy::RingBuffer).sequences(1004).region_size(0) - fixed - 4 * 48;
    sheet.at_most("region-per-sequence", sequence as f64 / 1000.0, 48.0, "bytes");
    let mut buffer = ring(MIB, 64);
    for chunk_id in 0..1000 {
        let header =
            ChunkHeader { producer_id: 1, chunk_id, complete: true, fragments: 1, ..Default::default() };
        buffer.copy_chunk_untrusted(&Chunk { header, payload: b"\x07seven b" });
    }
    sheet.at_most("region-per-chunk", (buffer.stats().bytes_written as f64 / 1000.0) - 8.0, 24.0, "bytes");
    sheet.at_most("control-block", size_of::<TraceBuffer<&mut [u8]>>() as f64, 64.0, "bytes");
}
