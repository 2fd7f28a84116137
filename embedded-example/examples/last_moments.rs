//! The trace in a recorder's region out of a dump of a target's RAM, with what its drain had not moved into the ring.
//!
//! usage: last_moments DUMP OFFSET BYTES OUT      the region's place in the raw dump, 0x718 or decimal, and its size
//!
//! `tracebuf recover` takes the ring as it is. The last moments before a crash lie beside it, in shared memory: here
//! they are brought in as the next start on the device does.

#[cfg(target_os = "none")]
compile_error!("this runs on the host");

// The inbox masks interrupts, for which the host has a lock: by the feature `std` of this one.
use critical_section as _;
use std::error::Error;
use std::path::Path;
use tracebuf::producer::ProducerStorage;
use tracebuf_firmware::recorder::{Inbox, Recorder, WRITERS};
use tracebuf_std::pftrace::TraceFile;

static STORAGE: ProducerStorage<{ Inbox::CHUNKS }, WRITERS> = ProducerStorage::new();
static INBOX: Inbox = Inbox::new();

fn number(text: &str) -> Result<usize, Box<dyn Error>> {
    let hex = text.strip_prefix("0x").map(|digits| usize::from_str_radix(digits, 16));
    Ok(hex.unwrap_or_else(|| text.parse()).map_err(|error| format!("{text}: {error}"))?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dump, offset, bytes, out] = &arguments[..] else {
        return Err("usage: last_moments DUMP OFFSET BYTES OUT".into());
    };
    recover(&std::fs::read(dump)?, number(offset)?, number(bytes)?, Path::new(out))
}

/// Writes the trace of the region that lies in a dump.
pub(crate) fn recover(dump: &[u8], offset: usize, bytes: usize, out: &Path) -> Result<(), Box<dyn Error>> {
    let region = dump.get(offset..).and_then(|rest| rest.get(..bytes)).ok_or("the dump ends before")?;
    // The memory of a target as it lies there: the words are not looked at as numbers.
    let mut region: Vec<u64> = region.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let mut written = None;
    Recorder::attach_or_new(&mut region, &STORAGE, &INBOX, |ring, salvage| {
        println!("{salvage}");
        let mut write = || {
            let mut file = TraceFile::create(out)?;
            let mut reader = ring.read();
            while let Some(packet) = reader.next_packet() {
                file.write_packet(&packet)?;
            }
            file.finish(Some((&ring.stats(), &ring.sequences().collect::<Vec<_>>())))
        };
        written = Some(write());
    })?;
    written.ok_or("no recorder's region lies there: its whole size is wanted, as the firmware has it")??;
    Ok(())
}
