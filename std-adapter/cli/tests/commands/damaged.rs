//! Files that anything may have happened to, examined with everything that the commands use. The damage is always the
//! same.

use object::Endianness;
use tracebuf::buffer::{Chunk, ChunkHeader, Config, FillPolicy, TraceBuffer};
use tracebuf::service::{TraceExporter, sequence_id};
use tracebuf_analysis::inspect::Inspection;
use tracebuf_analysis::recover::{Dump, Place};
use tracebuf_analysis::trace_stats::TraceReport;

use crate::inspect::assert_well_formed;
use crate::mix::{STEP, mix};
use crate::recover::cores::elf;
use crate::recover::hex;

const ROUNDS: u64 = 120;
/// Three packets of a timestamp each.
const PACKETS: &[u8] = &[2, 0x40, 5, 2, 0x40, 6, 2, 0x40, 7];

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        (number % end as u64) as usize
    }
}

/// A lapped ring with checksums, and what three writers left in it.
fn buffer() -> TraceBuffer<Vec<u8>> {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4).crc(true);
    let memory = vec![0u8; config.region_size(2000) as usize];
    let mut buffer = TraceBuffer::new(memory, config).expect("room");
    for chunk_id in 0..80 {
        let writer_id = 1 + (chunk_id % 3) as u16;
        let header = ChunkHeader {
            producer_id: 1,
            writer_id,
            chunk_id,
            fragments: 3,
            complete: true,
            ..<_>::default()
        };
        buffer.copy_chunk_untrusted(&Chunk { header, payload: PACKETS });
    }
    buffer
}

/// Flips bits, takes pieces out and cuts the end off.
fn damage(file: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..1 + rng.below(6) {
        let at = rng.below(file.len());
        match rng.below(12) {
            0 => file.truncate(at.max(1)),
            1 => drop(file.drain(at.max(1)..(at + rng.below(60)).clamp(at.max(1), file.len()))),
            _ => file[at] ^= 1 << rng.below(8),
        }
    }
}

/// Looks at a file in every way; returns whether a buffer was found in it, and whether there was something to draw.
fn look_at(file: &[u8]) -> (bool, bool) {
    let report = TraceReport::of(file);
    assert_eq!(report.bytes + report.rest, file.len() as u64);
    let _ = (report.to_string(), report.has_losses());
    let mut found = false;
    for place in [Place::Anywhere, Place::Address(0x2000_0100), Place::Symbol("TRACE".to_owned())] {
        let Ok(mut region) = Dump::parse(file).and_then(|dump| dump.find(place)) else { continue };
        found = true;
        let mut reader = region.buffer.read();
        while let Some(packet) = reader.next_packet() {
            let bytes: Vec<u8> = packet.slices().flatten().copied().collect();
            assert!(PACKETS.chunks(3).any(|written| written[1..] == bytes), "{bytes:x?} was not written");
        }
    }
    let Ok(inspection) = Inspection::of_file(file) else { return (found, false) };
    assert_well_formed(&inspection.svg());
    let _ = (inspection.to_string(), inspection.map(80, 24, true));
    (found, true)
}

/// Damages a file again and again; returns in how many a buffer was found, and how many were drawn.
fn look_at_damaged(file: &[u8]) -> (u64, u64) {
    assert!(look_at(file).1, "undamaged");
    let (mut found, mut drawn) = (0, 0);
    for seed in 0..ROUNDS {
        let mut damaged = file.to_vec();
        damage(&mut damaged, &mut Rng(seed));
        let (is_found, is_drawn) = look_at(&damaged);
        found += u64::from(is_found);
        drawn += u64::from(is_drawn);
    }
    (found, drawn)
}

#[test]
fn damaged_regions_are_told_or_refused() {
    let (found, drawn) = look_at_damaged(&buffer().into_memory());
    assert!(found > ROUNDS / 4 && drawn >= found, "{found} {drawn}");
}

#[test]
fn damaged_traces_are_told_to_where_they_are_sound() {
    let mut exporter = TraceExporter::new(Vec::new());
    exporter.drain(&mut buffer().read(), sequence_id).expect("memory");
    let (found, drawn) = look_at_damaged(&exporter.into_output());
    assert!(found == 0 && drawn > ROUNDS / 2, "{found} {drawn}");
}

#[test]
fn damaged_dumps_give_what_was_written_or_nothing() {
    let memory = buffer().into_memory();
    let core = elf(Endianness::Little, false, 0x2000_0100, &memory, "TRACE");
    for (kind, dump) in [("hex", hex(0x2000, 0x100, &memory).into_bytes()), ("elf", core)] {
        let (found, drawn) = look_at_damaged(&dump);
        // Intel HEX records have checksums: with a wrong one it is no dump.
        let least = if kind == "hex" { 0 } else { ROUNDS / 4 };
        assert!(found >= least && drawn >= least, "{kind}: {found} {drawn}");
    }
}
