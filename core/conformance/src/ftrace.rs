//! Recordings of the kernel's ring buffers, read as a kernel is: pages, formats and statistics in an archive.
//!
//! A fixture has the files of a tracefs instance, and for each round of recording the pages of each processor, its
//! statistics before and after, and the kernel's own text of the same events.

mod fixture;
mod malformed;

use std::io;

use tracebuf_machine::ftrace::{FtraceReader, PacketSink, StatsPhase};

pub use fixture::Fixture;
pub use malformed::{MalformedPage, MalformedPages};

/// Writes a fixture as Perfetto's recorder would: all rounds, each a read pass, between statistics of its beginning and
/// end. With `compact`, scheduling is in lists.
///
/// # Errors
/// If the fixture lacks what is needed.
pub fn record(fixture: &mut Fixture, compact: bool, out: &mut PacketSink<'_>) -> io::Result<()> {
    let events = fixture.events().to_vec();
    let mut reader = FtraceReader::new(fixture, events.iter().map(String::as_str), compact)?;
    for round in 0..fixture.rounds() {
        fixture.begin_round(round);
        if round == 0 {
            write_stats(&reader, fixture, StatsPhase::Start, out)?;
        }
        fixture.stop();
        reader.read_pass(fixture, usize::MAX, out)?;
    }
    write_stats(&reader, fixture, StatsPhase::End, out)
}

fn write_stats(
    reader: &FtraceReader,
    fixture: &mut Fixture,
    phase: StatsPhase,
    out: &mut PacketSink<'_>,
) -> io::Result<()> {
    let mut stats = reader.stats(fixture, phase)?;
    let asked = fixture.buffer_kib_asked().saturating_mul(1024);
    stats.asked_pages = asked.div_ceil(reader.layout().page_len() as u64);
    FtraceReader::write_stats(&stats, out);
    Ok(())
}
