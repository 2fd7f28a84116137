//! What files have at every moment.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::*;

const FILE: &str = "TRACEBUF_TEST_FILE";

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tracebuf-file-{}-{name}", std::process::id()))
}

fn create(path: &PathBuf) -> File {
    File::options().read(true).write(true).create(true).truncate(true).open(path).expect("a file")
}

/// Packets of many lengths, each of its own byte.
fn packets(number: usize, count: usize) -> Vec<u8> {
    let packet = |at: usize| {
        let len = [1, 13, 127, 126, 300, 40, 5000][(number + at) % 7] + number % 11;
        let mut packet = vec![PACKET, (len as u8) | 0x80, (len >> 7) as u8, 0x0A];
        packet.resize(3 + len, (number + at) as u8);
        packet
    };
    (0..count).flat_map(packet).collect()
}

/// The packets that have something in them, one behind the other, and the bytes of padding behind them; panics if one
/// is not whole.
fn read(mut bytes: &[u8]) -> (Vec<u8>, usize) {
    let (mut all, mut padding) = (Vec::new(), 0);
    while let Some((tag, rest)) = bytes.split_first() {
        assert_eq!(*tag, PACKET);
        let (len, rest) = varint::split(rest).expect("a size");
        let (packet, rest) = rest.split_at_checked(len as usize).expect("a whole packet");
        let whole = &bytes[..bytes.len() - rest.len()];
        if packet.starts_with(&FIELD) {
            let (size, zeros) = varint::split(&packet[2..]).expect("a size");
            assert!(size == zeros.len() as u64);
            padding += whole.len();
        } else {
            assert_eq!(padding, 0, "nothing is behind it");
            // Those without anything are of the file's making.
            all.extend_from_slice(if packet.is_empty() { &[] } else { whole });
        }
        bytes = rest;
    }
    (all, padding)
}

fn written(path: &PathBuf) -> (Vec<u8>, usize) {
    read(&std::fs::read(path).expect("it is there"))
}

#[test]
fn a_file_has_what_was_written_after_each_write_and_no_padding_at_its_end() {
    let path = scratch("each");
    let before = packets(5, 3);
    // From the page's begin to its end, where there is no room for padding.
    for begin in [0, 1, 100, 4084, 4085, 4086, 4095, 4096] {
        let mut file = create(&path);
        file.write_all(&vec![0; begin]).expect("room");
        file.write_all(&before).expect("room");
        let mut all = before.clone();
        let mut file = TraceFile::new(file);
        for number in 0..300 {
            let new = packets(number, [1, 2, 40, 0][number % 4]);
            all.extend(&new);
            file.write(new).expect("room");
            assert!(read(&std::fs::read(&path).expect("it")[begin..]).0 == all, "{begin}, {number}");
        }
        file.finish().expect("it is there");
        assert!(read(&std::fs::read(&path).expect("it")[begin..]) == (all, 0), "{begin}");
    }
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn a_file_and_a_copy_of_it_end_with_what_was_written_wherever_that_is_in_a_page() {
    let (path, to) = (scratch("end"), scratch("end-copy"));
    for len in 4060..4120_usize {
        let first = [&[PACKET, (len as u8) | 0x80, (len >> 7) as u8][..], &vec![0x0A; len]].concat();
        let mut file = TraceFile::new(create(&path));
        file.write(first.clone()).expect("room");
        let mut copy = TraceFile::new(create(&to));
        copy.copy(file.lend().expect("it is there")).expect("room");
        for file in [copy, file] {
            file.finish().expect("it is there");
        }
        assert!([&path, &to].iter().all(|path| std::fs::read(path).expect("it") == first), "{len}");
    }
    std::fs::remove_file(path).expect("it is there");
    std::fs::remove_file(to).expect("it is there");
}

#[test]
fn a_file_that_is_appended_to_and_one_with_something_behind_take_no_padding() {
    let path = scratch("appended");
    create(&path).write_all(b"there").expect("room");
    let mut appended = TraceFile::new(File::options().append(true).open(&path).expect("it"));
    let mut before = TraceFile::new(File::options().write(true).open(&path).expect("it"));
    appended.write(b"\x0A\x01c".to_vec()).expect("room");
    before.write(b"\x0A\x00".to_vec()).expect("room");
    assert_eq!(std::fs::read(&path).expect("it"), b"\x0A\x00ere\x0A\x01c");
    std::fs::remove_file(path).expect("it is there");
}

/// Has a test of this module done by a process of its own.
fn child(test: &str, path: &PathBuf) -> std::process::Child {
    let mut command = Command::new(std::env::current_exe().expect("this"));
    command.args(["--exact", "--ignored", &format!("trace_file::tests::{test}")]).env(FILE, path);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a process")
}

/// What is written by turns.
fn batches() -> Vec<Vec<u8>> {
    (0..7).map(|number| packets(number, 300)).collect()
}

#[test]
#[ignore = "run by the next test, to be killed"]
fn writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(FILE) else { return };
    let file = File::options().read(true).write(true).open(path).expect("it is there");
    let mut file = TraceFile::new(file);
    let batches = batches();
    loop {
        batches.iter().for_each(|packets| file.write(packets.clone()).expect("room"));
    }
}

#[test]
fn a_kill_in_the_midst_of_writes_leaves_whole_packets_in_order() {
    let path = scratch("killed");
    let batches = batches();
    for kill in 0..40 {
        create(&path);
        let mut child = child("writes_until_it_is_killed", &path);
        while std::fs::metadata(&path).expect("it is there").len() < 1 << 20 {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_micros(97 * kill));
        child.kill().and_then(|()| child.wait()).expect("it runs");
        let (all, _) = written(&path);
        let mut left = all.as_slice();
        let mut written = batches.iter().cycle();
        while let (false, Some(packets)) = (left.is_empty(), written.next()) {
            left = left.strip_prefix(&packets[..]).expect("what was written together");
        }
    }
    std::fs::remove_file(path).expect("it is there");
}

#[test]
#[ignore = "run by the next test, with a limit of its own"]
fn writes_more_than_a_file_may_have() {
    let Some(path) = std::env::var_os(FILE) else { return };
    use rustix::process::{Resource, Rlimit, setrlimit};
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(libc::SIGXFSZ, flag).expect("a handler");
    setrlimit(Resource::Fsize, Rlimit { current: Some(1_000_000), maximum: None }).expect("less");
    let mut file = TraceFile::new(File::options().read(true).write(true).open(path).expect("it"));
    let failed = (0..).find_map(|number| file.write(packets(number, 300)).err());
    assert_eq!(failed.expect("an end").kind(), io::ErrorKind::FileTooLarge);
    file.finish().expect("it is there");
}

#[test]
fn a_file_that_takes_no_more_has_as_many_whole_packets_as_there_was_room_for() {
    let path = scratch("full");
    create(&path);
    assert!(child("writes_more_than_a_file_may_have", &path).wait().expect("it ends").success());
    let (all, padding) = written(&path);
    let given: Vec<u8> = (0..20).flat_map(|number| packets(number, 300)).collect();
    assert!(given.starts_with(&all) && padding == 0);
    // Of the limit's last page, and of a packet, something is left.
    assert!((990_000..1_000_000).contains(&all.len()), "{}", all.len());
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn packets_are_whole_or_are_cut_off() {
    let bytes = b"\x0A\x02ab\x0A\x01c\x0A\x03def";
    let whole: Vec<usize> = (0..=bytes.len()).map(|len| whole_packets(bytes, len)).collect();
    assert_eq!(whole, [0, 0, 0, 0, 4, 4, 4, 7, 7, 7, 7, 7, 12]);
}
