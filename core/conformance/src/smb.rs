//! Shared memory images as text: pages, chunks, headers, packets, and what is wrong with them.
//!
//! ```
//! use tracebuf::producer::{SharedMemory, atomic_words};
//!
//! let mut words = vec![0u32; 1024];
//! let memory = SharedMemory::new(atomic_words(&mut words), 4096)?;
//! let mut text = Vec::new();
//! tracebuf_conformance::smb::dump(memory, &mut text)?;
//! assert!(text.starts_with(b"smb size=4096 page_size=4096 pages=1\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod sample;

pub use sample::{SampleError, sample};
use std::io::{self, Write};

use tracebuf::producer::{ChunkState, ChunkView, Fragment, FragmentKind, HeaderFlags, Page, SharedMemory};

use tracebuf_std::display::Count;

/// The words of an image: whole words of `bytes`, in memory's order. A rest that is no word is dropped.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|four| four.try_into().map_or(0, u32::from_ne_bytes)).collect()
}

/// Prints an image: every page and chunk in address order, then the chunks that a scrape looks at, which takes each id
/// of a writer once, the oldest first.
///
/// Lines that begin with `!` report what the layout does not allow; the second number of the last line is their count.
/// Content is shown up to its first 24 bytes. Fails only when `out` does.
pub fn dump(memory: SharedMemory<'_>, out: &mut impl Write) -> io::Result<()> {
    dump_with_rest(memory, 0, out)
}

/// Like [`dump`], for an image followed by `rest` bytes, too few for a page: only their presence is reported.
pub fn dump_with_rest(memory: SharedMemory<'_>, rest: usize, out: &mut impl Write) -> io::Result<()> {
    let (size, page_size, pages) = (memory.size(), memory.page_size(), memory.pages());
    writeln!(out, "smb size={size} page_size={page_size} pages={pages}")?;
    let mut scrapable = Vec::new();
    let mut anomalies = 0;
    for (page, index) in memory.all_pages().zip(0..) {
        anomalies += dump_page(&page, index, out)?;
        for chunk in page.chunks() {
            anomalies += dump_chunk(&chunk, index * page_size, out)?;
            let complete = chunk.state() == ChunkState::Complete;
            let visible = chunk.state() == ChunkState::BeingWritten && chunk.header().fragments >= 2;
            if complete || visible {
                scrapable.push((chunk.header(), u8::from(complete)));
            }
        }
    }
    if rest > 0 {
        let (rest, are) = (Count(rest as u64, "byte"), if rest == 1 { "is" } else { "are" });
        writeln!(out, "! {rest} behind the last page {are} too few for another")?;
        anomalies += 1;
    }
    for (header, complete) in &scrapable {
        let (writer, id, packets) = (header.writer_id, header.chunk_id, header.fragments);
        let flags = header.flags.bits();
        writeln!(
            out,
            "scrapable writer_id={writer} chunk_id={id} complete={complete} packets={packets} flags={flags}"
        )?;
    }
    writeln!(out, "{} scrapable chunks, {anomalies} anomalies", scrapable.len())
}

fn dump_page(page: &Page<'_>, index: u32, out: &mut impl Write) -> io::Result<usize> {
    let bitmap = page.bitmap();
    let chunks = bitmap.layout().map_or(0, |layout| layout.chunks());
    let all = (0..chunks).all(|chunk| bitmap.state(chunk) == ChunkState::Complete);
    // As in the ABI's own code, which compares the states of all chunks that a page could have.
    let complete = chunks > 0 && all && !bitmap.has_stray_states();
    writeln!(
        out,
        "page {index} bitmap={:#010x} layout={} chunks={chunks}{} reserved={}",
        bitmap.0,
        bitmap.layout_bits(),
        if complete { " COMPLETE" } else { "" },
        page.reserved()
    )?;
    let wrong = [
        (bitmap.reserved_bit(), "bit 31 of the page bitmap is set"),
        (page.reserved() != 0, "reserved word of the page header is not zero"),
        (bitmap.layout_bits() > 5, "reserved layout"),
        (bitmap.has_stray_states(), "state bits set for chunks beyond the layout"),
        (page.chunks().count() < chunks as usize, "the page is too small for its layout"),
    ];
    report(&wrong, out)
}

fn dump_chunk(chunk: &ChunkView<'_>, page_offset: u32, out: &mut impl Write) -> io::Result<usize> {
    let header = chunk.header();
    write!(
        out,
        "  chunk {} state={:?} off={} size={} payload={} writer_id={} chunk_id={} packets={} flags={}",
        chunk.index(),
        chunk.state(),
        page_offset + chunk.offset(),
        chunk.payload_len() + 8,
        chunk.payload_len(),
        header.writer_id,
        header.chunk_id,
        header.fragments,
        header.flags.bits()
    )?;
    let names = [
        (HeaderFlags::CONTINUES_FROM_PREVIOUS, " first-continues"),
        (HeaderFlags::CONTINUES_ON_NEXT, " last-continues"),
        (HeaderFlags::NEEDS_PATCHING, " needs-patching"),
    ];
    for (flag, name) in names {
        if header.flags.contains(flag) {
            out.write_all(name.as_bytes())?;
        }
    }
    writeln!(out)?;
    let used = matches!(chunk.state(), ChunkState::BeingWritten | ChunkState::Complete);
    // In a free chunk, nothing but zero is right.
    let undefined = !header.flags.difference(HeaderFlags::all()).is_empty();
    let wrong = [
        (undefined && chunk.state() != ChunkState::Free, "undefined flags are set"),
        (chunk.state() == ChunkState::Complete && header.writer_id == 0, "invalid writer_id 0"),
        (
            chunk.state() == ChunkState::Free && header != Default::default(),
            "header of a free chunk is not zero",
        ),
    ];
    let mut anomalies = report(&wrong, out)?;
    if !used {
        return Ok(anomalies);
    }
    let writing = chunk.state() == ChunkState::BeingWritten;
    let mut end = 0;
    for (fragment, index) in chunk.fragments().zip(0..) {
        let last = index + 1 == header.fragments;
        if fragment.kind == FragmentKind::Valid {
            end = fragment.offset + fragment.header + fragment.size;
        }
        anomalies += dump_fragment(chunk, &fragment, index, last, writing, out)?;
    }
    writeln!(out, "    used {end} of {} payload bytes", chunk.payload_len())?;
    Ok(anomalies)
}

fn dump_fragment(
    chunk: &ChunkView<'_>,
    fragment: &Fragment,
    index: u16,
    last: bool,
    writing: bool,
    out: &mut impl Write,
) -> io::Result<usize> {
    let flags = chunk.header().flags;
    let continues = index == 0 && flags.contains(HeaderFlags::CONTINUES_FROM_PREVIOUS);
    let kind = match (continues, last && flags.contains(HeaderFlags::CONTINUES_ON_NEXT)) {
        (false, false) => "",
        (false, true) => "[begin]",
        (true, false) => "[end]",
        (true, true) => "[continue]",
    };
    let offset = fragment.offset;
    match fragment.kind {
        FragmentKind::Aborted => {
            let space = if kind.is_empty() { "" } else { " " };
            writeln!(out, "    packet {index} off={offset} DROPPED (kPacketSizeDropPacket){space}{kind}")?;
        }
        FragmentKind::Malformed if writing && last => {
            writeln!(out, "    packet {index} off={offset} (maybe in progress: not scraped)")?;
        }
        FragmentKind::Malformed => {
            writeln!(out, "    packet {index} off={offset} MALFORMED")?;
            return report(&[(true, "a fragment's size is no varint or leaves the chunk")], out);
        }
        FragmentKind::Valid => {
            write!(out, "    packet {index} off={offset} hdr={} size={} ", fragment.header, fragment.size)?;
            if !kind.is_empty() {
                write!(out, "{kind} ")?;
            }
            if writing && last {
                write!(out, "(maybe in progress: not scraped) ")?;
            }
            let mut content = [0; 24];
            let shown = content.get_mut(..fragment.size.min(24)).unwrap_or_default();
            chunk.fill(offset + fragment.header, shown);
            for byte in shown {
                write!(out, "{byte:02x}")?;
            }
            writeln!(out, "{}", if fragment.size > 24 { ".." } else { "" })?;
        }
    }
    Ok(0)
}

fn report(wrong: &[(bool, &str)], out: &mut impl Write) -> io::Result<usize> {
    let mut count = 0;
    for (_, text) in wrong.iter().filter(|(is, _)| *is) {
        writeln!(out, "! {text}")?;
        count += 1;
    }
    Ok(count)
}
