//! Images that Perfetto's own writer left behind read the same here as in Perfetto's own code.

use flate2::read::GzDecoder;
use std::path::Path;
use std::{fs, io::Read};
use tracebuf::producer::*;

use crate::scratch;

fn dump(bytes: &[u8], page_size: u32) -> String {
    let mut words = tracebuf_conformance::smb::words(bytes);
    let memory = SharedMemory::new(atomic_words(&mut words), page_size).unwrap();
    let mut text = Vec::new();
    tracebuf_conformance::smb::dump(memory, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn image(name: &str) -> (Vec<u8>, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/smb");
    let mut bytes = Vec::new();
    let file = fs::File::open(folder.join(format!("{name}.smb.gz"))).unwrap();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    (bytes, fs::read_to_string(folder.join(format!("{name}.dump"))).unwrap())
}

#[test]
fn images_of_all_layouts_and_a_corrupt_one_print_as_the_reference_prints_them() {
    let names = [
        ("sample_4k_div1", 4096),
        ("sample_4k_div2", 4096),
        ("sample_4k_div3", 4096),
        ("sample_4k_div4", 4096),
        ("sample_4k_div5", 4096),
        ("sample_32k_div1", 32768),
        ("corrupt", 4096),
    ];
    for (name, page_size) in names {
        let (bytes, expected) = image(name);
        let text = dump(&bytes, page_size);
        for (line, (ours, theirs)) in text.lines().zip(expected.lines()).enumerate() {
            assert_eq!(ours, theirs, "{name}, line {}", line + 1);
        }
        assert_eq!(text, expected, "{name}");
    }
}

#[test]
fn a_page_with_a_state_of_a_chunk_that_it_does_not_have_is_not_complete() {
    let (mut bytes, expected) = image("sample_4k_div4");
    let complete = |text: &str| text.lines().filter(|line| line.contains(" COMPLETE ")).count();
    let line = expected.lines().find(|line| line.contains(" COMPLETE ")).expect("such a page");
    let page: usize = line.split(' ').nth(1).and_then(|page| page.parse().ok()).expect("its number");
    bytes[page * 4096 + 3] |= 0x0C; // the last chunk of fourteen
    assert_eq!(complete(&dump(&bytes, 4096)), complete(&expected) - 1);
}

#[test]
fn any_bytes_at_all_can_be_printed() {
    let (image, _) = image("sample_4k_div5");
    let mut state = 1u32;
    for round in 0..60 {
        let mut bytes = image.clone();
        for _ in 0..400 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = if round % 2 == 0 { state as usize >> 8 } else { (state as usize >> 8) % 64 * 4096 + 3 };
            let len = bytes.len();
            bytes[at % len] = (state >> 3) as u8;
        }
        for page_size in [64, 72, 4096, 16384, 65536] {
            assert!(dump(&bytes, page_size).ends_with("anomalies\n"));
        }
    }
}

/// Runs the command; returns what it prints, its last words and its exit status.
fn run(arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = crate::command(arguments).output().expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr), output.status.code())
}

#[test]
fn the_command_prints_an_image_gzipped_or_not() {
    let (bytes, expected) = image("sample_4k_div4");
    let file = scratch("smb/plain.smb");
    fs::write(&file, bytes).unwrap();
    let gzipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/smb/sample_4k_div4.smb.gz");
    for file in [&file, &gzipped] {
        let (text, errors, status) = run(&["smb", "dump", file.to_str().unwrap(), "4096"]);
        assert_eq!((status, errors.as_str()), (Some(0), ""));
        assert!(text == expected);
    }
    fs::remove_file(file).unwrap();
}

#[test]
fn of_an_image_that_is_cut_within_gzip_there_is_what_was_unpacked() {
    // Text that hardly shrinks, so that half of the file is about half of the pages.
    let image: Vec<u8> = (0..16_384u32).flat_map(|n| n.wrapping_mul(n | 1).to_le_bytes()).collect();
    let (mut packed, file) = (crate::gzipped(&image), scratch("smb/cut.smb.gz"));
    packed.truncate(packed.len() / 2);
    fs::write(&file, packed).unwrap();
    let (text, errors, status) = run(&["smb", "dump", file.to_str().unwrap(), "4096"]);
    assert!(errors.contains(" cannot be unpacked to its end: ") && status == Some(0), "{errors}");
    let told: usize = errors.rsplit("of the ").next().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(text.starts_with(&format!("smb size={} ", told / 4096 * 4096)), "{told}");
    fs::remove_file(file).unwrap();
}

#[test]
fn samples_of_every_layout_and_page_size_read_without_an_anomaly() {
    let file = scratch("smb/sample.smb");
    let path = file.to_str().unwrap();
    let mut seen = String::new();
    for (size, page_size) in
        [(64, 64), (2048, 256), (16384, 1024), (65536, 4096), (262144, 32768), (131072, 65536)]
    {
        for layout in 1..=5 {
            let arguments = [path, &size.to_string(), &page_size.to_string(), &layout.to_string()];
            let (_, errors, status) = run(&[&["smb", "sample"], &arguments[..]].concat());
            if (page_size - 8) / [1, 2, 4, 7, 14][layout - 1] < 32 {
                // Less than a chunk's header and a packet.
                assert_eq!(status, Some(2));
                assert!(errors.contains("chunks would be smaller"), "{errors}");
                continue;
            }
            assert_eq!((status, errors.as_str()), (Some(0), ""));
            assert_eq!(fs::metadata(&file).unwrap().len(), size);
            let (text, _, status) = run(&["smb", "dump", path, &page_size.to_string()]);
            assert_eq!(status, Some(0));
            assert!(text.ends_with(" 0 anomalies\n"), "{size} {page_size} {layout}: {text}");
            assert!(text.contains(&format!("layout={layout} ")) && text.contains("state=BeingWritten"));
            seen += &text;
        }
    }
    // What a reader has to cope with is there.
    for what in ["[begin]", "[end]", "[continue]", "needs-patching", "COMPLETE", "state=Free", "in progress"]
    {
        assert!(seen.contains(what), "{what}");
    }
    fs::remove_file(file).unwrap();
}

#[test]
fn the_command_says_what_it_cannot_do() {
    let (_, errors, status) = run(&["smb", "dump", "/nonexistent", "4096"]);
    assert_eq!(status, Some(1));
    assert!(errors.starts_with("error: /nonexistent: No such file"), "{errors}");
    for page_size in ["63", "66", "65540"] {
        for arguments in
            [&["smb", "sample", "/nonexistent", "4096", page_size, "1"][..], &["smb", "dump", "-", page_size]]
        {
            let (_, errors, status) = run(arguments);
            assert_eq!(status, Some(2));
            assert!(errors.contains(&format!("'{page_size}' for '<PAGE_SIZE>'")), "{errors}");
        }
    }
    for size in [usize::MAX, usize::MAX >> 2] {
        let size = size.to_string();
        let (_, errors, status) = run(&["smb", "sample", "/nonexistent/image", &size, "4096", "1"]);
        assert_eq!(status, Some(2));
        assert!(errors.contains("room for more than 65536 pages"), "{errors}");
    }
    let (_, errors, status) = run(&["smb", "sample", "/nonexistent/image", "4092", "4096", "1"]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("the memory has no room for a page"), "{errors}");
    let (_, errors, status) = run(&["smb", "sample", "/nonexistent/image", "4096", "4096", "6"]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("LAYOUT"), "{errors}");
    let (_, errors, status) = run(&["smb", "sample", "/dev/full", "4096", "4096", "1"]);
    assert_eq!(status, Some(1));
    assert!(errors.starts_with("error: /dev/full: cannot be written: "), "{errors}");
}

#[test]
fn an_image_of_our_own_writer_has_nothing_wrong_in_any_layout() {
    struct Nowhere;
    impl CommitSink for Nowhere {
        fn commit(&self, _: &CommitRequest<'_>) {}
    }
    for layout in [Layout::One, Layout::Two, Layout::Four, Layout::Seven, Layout::Fourteen] {
        let mut words = vec![0; 16 * 1024];
        let memory = SharedMemory::new(atomic_words(&mut words), 4096).unwrap();
        let storage = ProducerStorage::<256, 2>::new();
        let producer = Producer::new(memory, layout, &storage, &Nowhere).unwrap();
        let mut writers = [(); 2].map(|()| producer.writer(0, Exhaustion::Drop).unwrap());
        for n in 0..40u32 {
            for writer in &mut writers {
                let mut packet = writer.packet();
                packet.varint(8, n.into());
                packet.message(900).bytes(1, &vec![b'a'; n as usize * 97 % 1500]);
            }
        }
        let mut text = Vec::new();
        tracebuf_conformance::smb::dump(memory, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.ends_with(", 0 anomalies\n"), "{layout:?}");
        assert!(text.contains("state=BeingWritten") && text.contains("[begin]") && text.contains("[end]"));
        assert!(!text.contains("MALFORMED"));
    }
}

/// A page of one complete chunk, with a packet of two bytes.
fn one_chunk(flags: u16) -> Vec<u8> {
    let mut image = vec![0; 4096];
    let words =
        [1 << 28 | 3, 0, 7, 1 | u32::from(1 | flags << 10) << 16, u32::from_le_bytes([2, 0x40, 5, 0])];
    for (to, word) in image.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    image
}

#[test]
fn flags_that_are_none_are_shown_and_told_of() {
    let defined = dump(&one_chunk(1), 4096);
    assert!(
        defined.contains(" flags=1 first-continues\n") && defined.ends_with(" 0 anomalies\n"),
        "{defined}"
    );
    for flags in [8, 16, 32, 8 | 1, 63] {
        let text = dump(&one_chunk(flags), 4096);
        assert_eq!(
            text.matches(&format!(" flags={flags}")).count(),
            2,
            "the chunk and what a scrape takes: {text}"
        );
        assert!(text.contains("\n! undefined flags are set\n") && text.ends_with(" 1 anomalies\n"), "{text}");
        // Flags that are defined read as they otherwise would.
        assert_eq!(text.contains("first-continues"), flags & 1 != 0, "{text}");
    }
}

#[test]
fn what_is_behind_the_last_page_is_told_of() {
    let file = scratch("smb/rest.smb");
    let path = file.to_str().unwrap();
    for (rest, content, told) in [
        (2048, 0x11, "2048 bytes behind the last page are"),
        (1, 0, "1 byte behind the last page is"),
        (4095, 0, "4095 bytes behind the last page are"),
    ] {
        let mut image = one_chunk(0);
        let expected = dump(&image, 4096);
        image.resize(4096 + rest, content);
        fs::write(&file, image).unwrap();
        let (text, errors, status) = run(&["smb", "dump", path, "4096"]);
        assert_eq!((status, errors.as_str()), (Some(0), ""));
        let (pages, end) = expected.split_at(expected.find("scrapable").unwrap());
        let said = format!("! {told} too few for another\n");
        assert_eq!(text, [pages, &said, &end.replace(" 0 anomalies", " 1 anomalies")].concat());
    }
    fs::remove_file(file).unwrap();
}

#[test]
fn samples_are_as_large_as_perfettos_shared_memory_and_larger_ones_are_refused_by_name() {
    for (page_size, layout) in [(4096, Layout::Fourteen), (32768, Layout::One)] {
        let image = tracebuf_conformance::smb::sample(32 << 20, page_size, layout).unwrap();
        let mut words = tracebuf_conformance::smb::words(&image);
        let memory = SharedMemory::new(atomic_words(&mut words), page_size).unwrap();
        let used = |page: Page<'_>| page.chunks().filter(|chunk| chunk.state() != ChunkState::Free).count();
        let used: usize = memory.all_pages().map(used).sum();
        let enough = memory.chunks(layout) as usize * 3 / 4;
        assert!((enough..enough + 16).contains(&used), "{used} used of {enough}");
    }
    let size = (32 << 20).to_string();
    let (_, errors, status) = run(&["smb", "sample", "/nonexistent/image", &size, "512", "5"]);
    assert_eq!(status, Some(2));
    assert_eq!(
        errors,
        "error: /nonexistent/image: no such shared memory: a sample has 114688 chunks at most: take fewer \
         or larger ones\n"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn of_what_has_more_pages_than_there_may_be_no_more_is_read_than_that() {
    let file = scratch("smb/sparse.smb");
    fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
    for input in [file.as_os_str(), "/dev/zero".as_ref()] {
        let limited = "ulimit -v 200000; exec \"$0\" smb dump \"$1\" 64";
        let run = std::process::Command::new("sh")
            .args(["-c", limited, env!("CARGO_BIN_EXE_tracebuf-conformance")])
            .arg(input)
            .output();
        let run = run.unwrap();
        let said = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(1), "{said}");
        assert!(
            said.contains("no such shared memory: the memory has room for more than 65536 pages"),
            "{said}"
        );
    }
    fs::remove_file(file).unwrap();
}
