//! A check of dumps of a target's RAM: what is recovered from them is what the target logged as recorded.
//!
//! usage: check_crash DUMP...             of the firmware `crash`, stopped anywhere
//!        check_crash inplace PROGRAM DUMP...     of the firmware `crash_inplace`
//!
//! The log in the dump says what was done to the ring, and what was being done when the target stopped. The same is
//! done to a ring here. What was in it both before and after the operation that was cut short must be recovered from
//! the dump, and nothing that was in it at neither time: bit for bit, each writer's packets in order. The log says
//! nothing of what lay in shared memory, but its packets must follow the others, each with the content that its number
//! implies. The last line says how many dumps were checked and how many operations were cut short.

#[cfg(target_os = "none")]
compile_error!("this runs on the host");

mod inplace;

use std::process::ExitCode;
use tracebuf::buffer::{FillPolicy, Patch, ReadOnlyTraceBuffer, Reader, TraceBuffer};
use tracebuf::proto::varint;
use tracebuf_analysis::recover::{Dump, Place, RecoverError};
use tracebuf_embedded::recorder;
use tracebuf_firmware::crash_log::{self, ENTRY, HEAD, Kind, MAGIC, Operation, TEXT};

/// A packet's writer, and the packet.
type Said = (u16, Vec<u8>);
type Ring = TraceBuffer<Vec<u8>>;

fn said(mut reader: Reader<'_>) -> Vec<Said> {
    let mut all = Vec::new();
    while let Some(packet) = reader.next_packet() {
        all.push((packet.writer_id(), packet.slices().flatten().copied().collect()));
    }
    all
}

/// What can be read when no more patches come: everything that can be read now, and what waits behind a missing patch.
fn in_ring(ring: &Ring) -> Vec<Said> {
    let mut memory = vec![0; ring.clone_size()];
    ring.clone_read_only(&mut memory[..]).expect("it fits");
    let now = said(ring.clone_read_only(vec![0; ring.clone_size()]).expect("it fits").read());
    let (mut ended, salvage) = ReadOnlyTraceBuffer::attach_ended(memory).expect("a clone");
    assert_eq!(salvage.chunks_dropped(), 0, "a clone is whole: {salvage}");
    let at_the_end = said(ended.read());
    assert!(now.iter().all(|one| at_the_end.contains(one)), "what can be read now is not there at the end");
    at_the_end
}

fn apply(ring: &mut Ring, operation: &Operation<'_>) {
    let Operation { kind, flags, writer, chunk_id, fragments, data } = *operation;
    match kind {
        Kind::Commit | Kind::Scrape => {
            ring.commit_with(&operation.header(), data.len(), |offset, to| {
                to.iter_mut().zip(&data[offset..]).for_each(|(to, from)| *to = *from);
            });
        }
        Kind::Patch => {
            let patch = Patch { offset: fragments.into(), data: data.try_into().expect("four bytes") };
            ring.try_patch_chunk_contents(1, writer, chunk_id, &[patch], flags != 0);
        }
        Kind::Read => {
            let mut reader = ring.read();
            for _ in 0..fragments {
                reader.next_packet();
            }
        }
    }
}

/// How many operations were started and finished, and the operations.
fn log(dump: &[u8]) -> Option<(usize, usize, &[u8])> {
    let at = dump.windows(MAGIC.len()).position(|window| window == MAGIC)?;
    let word = |at: usize| Some(u32::from_le_bytes(dump.get(at..at + 4)?.try_into().ok()?) as usize);
    Some((word(at + 8)?, word(at + 12)?, dump.get(at + HEAD..)?))
}

/// A packet's number, which is its timestamp, if it ends with the text that the firmware writes for that number.
fn number_of(packet: &[u8]) -> Option<u32> {
    // The writer's first packet, and one after dropped packets, begin with a field that says so.
    let marks = [&[0xB8, 5, 1][..], &[0xD0, 2, 0x81, 0], &[0xD0, 2, 0x81, 2]];
    let fields = marks.iter().fold(packet, |rest, mark| rest.strip_prefix(*mark).unwrap_or(rest));
    let fields = fields.strip_prefix(&[0x40])?;
    let number = varint::split(fields)?.0.try_into().ok()?;
    packet.ends_with(crash_log::text(number, &mut [0; TEXT])).then_some(number)
}

/// How many packets come from shared memory. Checks that they follow the ring's, and are what the firmware writes.
fn check_shared(dump: &[u8], recovered: &[Said]) -> Result<usize, String> {
    let found = Dump::parse(dump).and_then(|parsed| parsed.find(Place::Anywhere));
    let (mut found, _) = found.map_err(|error| error.to_string())?.bring_in();
    let all = said(found.buffer.read());
    if let Some((writer, packet)) = recovered.iter().find(|one| !all.contains(one)) {
        return Err(format!("a packet of writer {writer} is not there with shared memory: {packet:x?}"));
    }
    let mut last = [None; recorder::WRITERS + 1];
    for (writer, packet) in &all {
        let number = number_of(packet);
        let last = last.get_mut(usize::from(*writer)).ok_or("a writer that there is not")?;
        if number.is_none() || number <= *last {
            return Err(format!("a packet of writer {writer} behind {last:?}: {packet:x?}"));
        }
        *last = number;
    }
    Ok(all.len() - recovered.len())
}

/// The kind of operation that was cut short, the patches before it, and the packets in shared memory.
fn check(path: &str) -> Result<(Option<Kind>, u64, usize), String> {
    let dump = std::fs::read(path).map_err(|error| error.to_string())?;
    let found = Dump::parse(&dump).and_then(|parsed| parsed.find(Place::Anywhere));
    let Some((started, finished, operations)) = log(&dump) else {
        // The recorder was not there yet.
        return match found {
            Ok(found) if found.salvage.chunks_kept > 0 => Err("chunks from nowhere".into()),
            Ok(_) | Err(RecoverError::Attach(_)) => Ok((None, 0, 0)),
            Err(error) => Err(error.to_string()),
        };
    };
    let mut found = found.map_err(|error| error.to_string())?;
    let recovered = said(ReadOnlyTraceBuffer::read(&mut found.buffer));

    let config = recorder::CONFIG;
    let size = found.buffer.stats().buffer_size;
    let mut ring =
        Ring::new(vec![0; config.region_size(size as u32) as usize], config).map_err(|e| e.to_string())?;
    if (ring.stats().buffer_size, ring.policy()) != (size, FillPolicy::RingBuffer) {
        return Err(format!("a ring of {size} bytes is not to be had here"));
    }
    let (entries, _) = operations.as_chunks::<ENTRY>();
    let mut operations = entries.iter().map(|entry| Operation::read(entry).expect("an operation"));
    operations.by_ref().take(finished).for_each(|operation| apply(&mut ring, &operation));
    let before = in_ring(&ring);
    let cut_short = (started > finished).then(|| operations.next()).flatten();
    if let Some(operation) = cut_short {
        apply(&mut ring, &operation);
    }
    let after = in_ring(&ring);

    if let Some((writer, packet)) = recovered.iter().find(|one| !before.contains(one) && !after.contains(one))
    {
        return Err(format!("a packet of writer {writer} that was not recorded: {packet:x?}"));
    }
    if let Some((writer, packet)) = before.iter().find(|one| after.contains(one) && !recovered.contains(one))
    {
        let (of, salvage) = (cut_short.map(|operation| operation.kind), found.salvage);
        return Err(format!("{of:?}: a packet of writer {writer} is missing: {packet:x?}; {salvage}"));
    }
    for writer in 1..=recorder::WRITERS as u16 {
        let order = |all: &[Said]| {
            let mut ours = all.iter().filter(|one| one.0 == writer && recovered.contains(one));
            ours.by_ref().map(|one| one.1.clone()).collect::<Vec<_>>()
        };
        let ours = order(&recovered);
        // An operation removes the oldest packets. What it adds may be in the middle, where a patch was missing.
        let mut union = order(&before);
        union.retain(|one| !after.contains(&(writer, one.clone())));
        union.extend(order(&after));
        if ours != union {
            return Err(format!("the packets of writer {writer} are not in its order"));
        }
    }
    let kind = cut_short.map(|operation| operation.kind);
    Ok((kind, ring.stats().patches_succeeded, check_shared(&dump, &recovered)?))
}

fn main() -> ExitCode {
    let mut paths = std::env::args().skip(1).peekable();
    match paths.next_if(|first| first == "inplace") {
        Some(_) => inplace::check_all(paths),
        None => check_all(paths),
    }
}

fn check_all(paths: impl Iterator<Item = String>) -> ExitCode {
    let (mut good, mut cut_short) = (0, [0; 5]);
    let (mut bad, mut most_patches, mut from_shared) = (0, 0, 0);
    for path in paths {
        match check(&path) {
            Ok((kind, patches, shared)) => {
                good += 1;
                most_patches = most_patches.max(patches);
                from_shared += shared;
                cut_short[kind.map_or(0, |kind| kind as usize)] += 1;
            }
            Err(why) => {
                eprintln!("{path}: {why}");
                bad += 1;
            }
        }
    }
    let [idle, commits, scrapes, patches, reads] = cut_short;
    println!(
        "{good} dumps as they should be, {bad} not; cut short: {commits} commits, {scrapes} scrapes, \
         {patches} patches, {reads} reads; {idle} between operations; up to {most_patches} patches before; \
         {from_shared} packets from shared memory"
    );
    if bad > 0 || most_patches == 0 || from_shared == 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
