//! `tracebuf inspect`: regions and traces, as text and as pictures, small and large.

use std::path::PathBuf;
use std::process::Output;

use crate::trace::scratch;
use crate::{gzipped, tracebuf};
use tracebuf::buffer::{
    Chunk, ChunkFlags, ChunkHeader, Config, FillPolicy, Patch, RingContent, RingItem, RingView, TraceBuffer,
};
use tracebuf_analysis::recover::{Dump, Place};

/// A lapped ring of this many bytes: three writers, and the oldest chunks of one partly read.
fn region(ring: u32, payload: usize) -> Vec<u8> {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    let mut buffer = TraceBuffer::new(vec![0u8; config.region_size(ring) as usize], config).expect("room");
    let chunks = ring / (payload as u32 + 24) * 3 / 2;
    for number in 0..chunks {
        let header = ChunkHeader {
            producer_id: 1,
            // The second writes most.
            writer_id: [1, 2, 2, 3][number as usize % 4],
            chunk_id: number,
            fragments: 2,
            flags: ChunkFlags::empty(),
            complete: true,
            pid: 77,
            ..ChunkHeader::default()
        };
        // In many sizes, so that there is padding.
        let len = payload - number as usize % 3 * payload / 4;
        let half = len / 2 - 2;
        let mut bytes = vec![0u8; len];
        for at in [0, half + 2] {
            bytes[at] = half as u8 | 0x80;
            bytes[at + 1] = (half >> 7) as u8;
        }
        bytes.truncate(2 * (half + 2));
        buffer.copy_chunk_untrusted(&Chunk { header, payload: &bytes });
    }
    let mut reader = buffer.read();
    for _ in 0..chunks / 4 {
        reader.next_packet();
    }
    buffer.into_memory()
}

pub(super) fn inspect(path: &PathBuf, more: &[&str]) -> Output {
    tracebuf(&["inspect"]).arg(path).args(more).output().expect("it runs")
}

fn of(name: &str, contents: &[u8], more: &[&str]) -> (String, String) {
    let (path, svg) = (scratch(&format!("inspect/{name}")), scratch(&format!("inspect/{name}.svg")));
    std::fs::write(&path, contents).expect("a file");
    let output = inspect(&path, &[&["--svg", svg.to_str().expect("a path")], more].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let svg = std::fs::read_to_string(svg).expect("a picture");
    (String::from_utf8(output.stdout).expect("text"), svg)
}

/// Every tag is closed by its own, so that browsers accept it.
pub(super) fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("a tag ends");
        assert!(!text.contains('>') && !text.contains("& "), "{text}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("a name"));
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
    }
    assert!(open.is_empty());
}

#[test]
fn a_small_ring_is_listed_and_drawn_chunk_by_chunk() {
    let (text, svg) = of("small.region", &region(64 << 10, 500), &["--chunks", "3"]);
    for part in [
        "trace buffer at 0x0: 65536 bytes",
        "write cursor at ",
        "oldest unread chunk at ",
        "3 sequences",
        "A producer 1 writer 1, process 77: ",
        "packets overwritten",
        "chunks overwritten unread",
        "each sign stands for 32 bytes",
        "the newest 3 of ",
        ", 2 packets, ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let map: Vec<&str> =
        text.lines().skip_while(|line| !line.starts_with("each sign")).skip(1).take(32).collect();
    let signs = |sign| map.iter().map(|row| row[11..].matches(sign).count()).sum::<usize>();
    assert_eq!(signs('>'), 1, "one write cursor: {text}");
    assert!(signs('B') > signs('A') && signs('B') > signs('C') && signs('C') > 10, "{text}");
    assert!(signs('.') > 10, "what was read is free: {text}");
    assert_eq!(map.iter().map(|row| row[11..].chars().count()).sum::<usize>(), 2048);
    assert_well_formed(&svg);
    assert!(svg.matches("<title>producer 1 writer 2").count() > 20, "each chunk says what it is");
    assert!(svg.contains("write cursor at") && svg.contains("oldest unread chunk at"));
}

#[test]
fn the_list_of_chunks_has_a_heading_whether_all_are_listed_or_some_or_none() {
    let region = region(4096, 500);
    let (all, _) = of("all.region", &region, &["--chunks", "100"]);
    let count = all.lines().filter(|line| line.contains(", 2 packets, ")).count();
    assert!(count > 3 && all.contains(&format!("\n{count} chunks:\n")), "{all}");
    let (some, _) = of("some.region", &region, &["--chunks", "2"]);
    assert!(some.contains(&format!("\nthe newest 2 of {count} chunks:\n")), "{some}");
    let (none, _) = of("none.region", &region, &["--chunks", "0"]);
    assert!(!none.contains("chunks:\n"), "{none}");
}

#[test]
fn a_large_ring_is_drawn_in_cells_that_a_browser_can_take() {
    let (text, svg) = of("large.region", &region(64 << 20, 2000), &["--chunks", "0"]);
    assert!(text.contains("67108864 bytes") && text.contains("each sign stands for 32768 bytes"), "{text}");
    assert!(text.lines().count() < 50, "{}", text.lines().count());
    assert_well_formed(&svg);
    assert!(svg.len() < 8 << 20, "{} bytes", svg.len());
    assert!(svg.matches("<rect").count() > 1000);
}

/// Bytes of a kind, as the text says.
fn bytes_of(text: &str, kind: &str) -> u64 {
    let (_, rest) = text.split_once(&format!("{kind} ")).expect(kind);
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().expect("a number");
    digits.parse().expect("a number")
}

/// How often a sign is in the map, and how many bytes it stands for.
fn signs(text: &str, sign: char) -> (u64, u64) {
    let map = text.lines().skip_while(|line| !line.starts_with("each sign")).skip(1).take(32);
    let count = map.map(|row| row.get(11..).unwrap_or_default().matches(sign).count() as u64).sum();
    (count, bytes_of(text, "each sign stands for"))
}

#[test]
fn a_damaged_region_says_so_and_shows_where() {
    let mut damaged = region(64 << 10, 500);
    let start = 256 + 4 * 48;
    damaged[start + 20_000..start + 30_000].fill(0xFF);
    let (text, svg) = of("damaged.region", &damaged, &[]);
    assert!(text.contains("when it was found: "), "{text}");
    // A chunk begins where the damage does, so none is dropped, and all of it makes no sense.
    let salvage = Dump::parse(&damaged).unwrap().find(Place::Anywhere).unwrap().salvage;
    let unreadable = bytes_of(&text, "unreadable");
    assert!(unreadable >= 10_000 && salvage.chunks_dropped() == 0, "{text}");
    assert_eq!(unreadable, salvage.bytes_unreadable, "{text}");
    let (count, cell) = signs(&text, '?');
    assert!(unreadable.abs_diff(count * cell) <= 2 * cell, "{count} signs: {text}");
    assert!(svg.contains("<title>unreadable"), "{svg}");
}

/// A chunk of one fragment, offered to the buffer.
fn offer(
    buffer: &mut TraceBuffer<Vec<u8>>,
    writer_id: u16,
    chunk_id: u32,
    flags: ChunkFlags,
    payload: &[u8],
) {
    let header =
        ChunkHeader { producer_id: 1, writer_id, chunk_id, fragments: 1, flags, ..ChunkHeader::default() };
    buffer.copy_chunk_untrusted(&Chunk { header, payload });
}

/// A chunk whose first word is no longer that of an item.
fn damage(memory: &mut [u8], offset: u32) {
    let at = 256 + 4 * 48 + offset as usize;
    memory[at..at + 4].copy_from_slice(&0x8000_0000u32.to_le_bytes());
}

fn items(memory: &[u8]) -> Vec<RingItem> {
    RingView::find(memory).expect("a region").items().collect()
}

#[test]
fn a_chunk_that_makes_no_sense_hides_none_that_another_points_to() {
    let mut buffer = small_buffer();
    for (writer_id, chunk_id) in [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)] {
        offer(&mut buffer, writer_id, chunk_id, ChunkFlags::empty(), b"\x05whole");
    }
    let mut memory = buffer.into_memory();
    let whole = items(&memory);
    damage(&mut memory, whole[2].offset);
    let (text, _) = of("one-chunk.region", &memory, &[]);
    assert_eq!(bytes_of(&text, "unreadable"), u64::from(whole[2].size), "{text}");
    assert_eq!(signs(&text, '?'), (u64::from(whole[2].size) / 4, 4), "{text}");
    assert!(text.contains("writer 1: 2 chunks") && text.contains("writer 2: 3 chunks"), "{text}");
}

#[test]
fn what_was_free_before_the_damage_is_free() {
    let mut buffer = small_buffer();
    offer(&mut buffer, 1, 0, ChunkFlags::empty(), b"\x05whole");
    assert!(buffer.read().next_packet().is_some());
    (0..3).for_each(|chunk_id| offer(&mut buffer, 2, chunk_id, ChunkFlags::empty(), b"\x05whole"));
    let mut memory = buffer.into_memory();
    let whole = items(&memory);
    assert!(whole.len() == 4 && whole[0].content == RingContent::Free, "{whole:?}");
    // Nothing before it points to the chunk after it.
    damage(&mut memory, whole[1].offset);
    let (text, _) = of("behind-free.region", &memory, &[]);
    assert_eq!(bytes_of(&text, "free"), u64::from(whole[0].size), "{text}");
    assert_eq!(bytes_of(&text, "unreadable"), u64::from(whole[1].size + whole[2].size), "{text}");
    assert!(text.contains("writer 2: 1 chunk,"), "{text}");
}

#[test]
fn a_chunk_that_recovery_drops_is_unreadable() {
    let mut buffer = small_buffer();
    (0..3).for_each(|chunk_id| offer(&mut buffer, 1, chunk_id, ChunkFlags::empty(), b"\x05whole"));
    let mut memory = buffer.into_memory();
    let whole = items(&memory);
    // The size of its packet.
    memory[256 + 4 * 48 + whole[1].offset as usize + 24] = 0x7F;
    let (text, _) = of("dropped.region", &memory, &[]);
    assert!(text.contains("1 chunk dropped as malformed"), "{text}");
    assert_eq!(bytes_of(&text, "unreadable"), u64::from(whole[1].size), "{text}");
}

#[test]
fn chunks_that_wait_for_more_are_shown_as_they_were_found() {
    let mut buffer = small_buffer();
    let scraped =
        ChunkHeader { producer_id: 1, writer_id: 1, fragments: 2, complete: false, ..ChunkHeader::default() };
    buffer.copy_chunk_untrusted(&Chunk { header: scraped, payload: b"\x05whole\x05whole" });
    offer(&mut buffer, 1, 1, ChunkFlags::empty(), b"\x05whole");
    let waits = ChunkFlags::NEEDS_PATCHING | ChunkFlags::CONTINUES_ON_NEXT;
    offer(&mut buffer, 2, 0, waits, b"\x85\x80\x80\x00begin");
    let (text, _) = of("waiting.region", &buffer.into_memory(), &[]);
    let line = |start: &str| text.lines().find(|line| line.contains(start)).expect(start);
    assert!(line("chunk 0 of producer 1 writer 1").ends_with(", scraped"), "{text}");
    let flags = ", continues on next, needs patching";
    assert!(line("chunk 0 of producer 1 writer 2").ends_with(flags), "{text}");
    assert!(text.contains("2 of them without their end"), "what recovery gives up: {text}");
}

/// Reads all of a buffer and looks at it: this is lost, and only this.
fn assert_lost(name: &str, mut buffer: TraceBuffer<Vec<u8>>, loss: &str) {
    let mut reader = buffer.read();
    while reader.next_packet().is_some() {}
    let (text, svg) = of(name, &buffer.into_memory(), &[]);
    assert!(text.contains(&format!("\n{loss}\neach sign stands for")), "{text}");
    let shown = |sequences| svg.contains(&format!("{sequences}, {loss}</text>"));
    assert!(shown("1 sequence") || shown(" sequences"), "{svg}");
}

/// A buffer for 4 sequences.
fn small_buffer() -> TraceBuffer<Vec<u8>> {
    let config = Config::new(FillPolicy::RingBuffer).sequences(4);
    TraceBuffer::new(vec![0u8; config.region_size(1024) as usize], config).expect("room")
}

#[test]
fn a_packet_whose_end_never_came_is_a_loss_of_the_whole_too() {
    let mut buffer = small_buffer();
    offer(&mut buffer, 1, 0, ChunkFlags::CONTINUES_ON_NEXT, b"\x05begin");
    offer(&mut buffer, 1, 2, ChunkFlags::empty(), b"\x05whole");
    assert_lost("broken.region", buffer, "1 packet could not be put together");
}

#[test]
fn chunks_that_the_table_has_no_room_for_and_those_that_a_patch_broke_are_losses() {
    let mut buffer = small_buffer();
    (1..=5).for_each(|writer_id| offer(&mut buffer, writer_id, 0, ChunkFlags::empty(), b"\x05whole"));
    assert_lost("refused.region", buffer, "1 chunk refused");
    let mut buffer = small_buffer();
    offer(&mut buffer, 1, 0, ChunkFlags::NEEDS_PATCHING, b"\x85\x80\x80\x00whole");
    let patch = Patch { offset: 0, data: [0xFF, 0xFF, 0xFF, 0x7F] };
    assert!(buffer.try_patch_chunk_contents(1, 1, 0, &[patch], false));
    assert_lost("patched.region", buffer, "1 chunk malformed");
}

#[cfg(unix)]
#[test]
fn a_trace_is_shown_by_its_sequences() {
    use tracebuf_session::Session;

    let session = Session::builder().start().expect("a session");
    // This thread keeps its writer while the other has one.
    let recorder = session.recorder();
    recorder.instant("event");
    std::thread::spawn(move || (0..500).for_each(|_| recorder.instant("event"))).join().expect("its end");
    let path = scratch("inspect/inspected.pftrace");
    session.stop().expect("a stop").write_to(&path).expect("a file");
    let trace = std::fs::read(&path).expect("the trace");
    let (text, svg) = of("whole.pftrace", &trace, &[]);
    let pid = std::process::id();
    for part in
        ["trace: ", "3 sequences", "A the service: ", &format!(", process {pid}: "), "nothing was lost"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_well_formed(&svg);
    let (text, _) = of("cut.pftrace", &trace[..trace.len() - 3], &[]);
    assert!(text.contains("no whole packet in the last "), "{text}");
}

#[test]
fn sequences_beyond_the_most_that_are_told_one_by_one_are_shown_together() {
    // Packets of nine bytes: the sequence's number in three, and a note that a loss comes before.
    let packet = |id: u32| {
        let number = [id as u8 | 0x80, (id >> 7) as u8 | 0x80, (id >> 14) as u8];
        [&[0x0A, 7, 0x50], &number[..], &[0xD0, 0x02, 65]].concat()
    };
    let trace: Vec<u8> = (2..65_538 + 10).flat_map(packet).collect();
    let (text, svg) = of("many sequences.pftrace", &trace, &[]);
    assert!(text.contains("\nmore than 65536 sequences\n"), "{text:.999}");
    assert!(text.contains("sequence 65537: 1 packet, 9 bytes; lost: 1 packet follows a loss\n"));
    let others = " all other sequences: 10 packets, 90 bytes; lost: 10 packets follow a loss\n";
    assert_eq!((text.matches(others).count(), text.contains("sequence 65538")), (1, false));
    assert!(svg.contains(" more than 65536 sequences, "));
    assert_well_formed(&svg);
    let (text, _) = of("many sequences.pftrace", &trace[..trace.len() - 10 * 9], &[]);
    assert!(text.contains("\n65536 sequences\n") && !text.contains("all other"), "{text:.999}");
}

#[test]
fn what_is_neither_is_an_error() {
    let path = scratch("inspect/nothing");
    std::fs::write(&path, [0x55; 1000]).expect("a file");
    let output = inspect(&path, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("neither a trace nor memory with a trace buffer")
    );
    assert_eq!(inspect(&scratch("inspect/not there"), &[]).status.code(), Some(1));
}

#[test]
fn a_gzipped_file_is_shown_as_the_plain_one() {
    let (plain, packed) = (scratch("inspect/plain.region"), scratch("inspect/packed.region.gz"));
    let region = region(4096, 200);
    std::fs::write(&plain, &region).expect("a file");
    std::fs::write(&packed, gzipped(&region)).expect("a file");
    let [plain, packed] = [plain, packed].map(|path| inspect(&path, &[]));
    assert!(packed.status.success() && packed.stdout == plain.stdout, "{packed:?}");
}
