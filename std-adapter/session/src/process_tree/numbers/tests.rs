//! What becomes of descriptions of processes and threads in containers.

use tracebuf_testing::trace::{message, number};

use super::super::{Presence, TreeThread};
use super::*;

/// A process 4711, which is 1 in its container, with threads 1 and 7 there.
fn tree() -> (ProcessTree, Presence) {
    let tree = ProcessTree::default();
    let process = TreeProcess {
        pid: 4711,
        ppid: 7,
        nspid: vec![33, 1],
        command_line: "bin/camera\0--fast\0".to_owned(),
        name: "camera".to_owned(),
        ..TreeProcess::default()
    };
    let presence = tree.come(process, 5);
    let thread = |tid, inner| TreeThread { tid, nstid: vec![tid - 1, inner], name: "t".to_owned() };
    tree.add(&presence, &[4711, 4800], vec![thread(4711, 1), thread(4800, 7)]);
    (tree, presence)
}

fn field(number: u8, inside: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, inside.len() as u8], inside].concat()
}

/// A packet of process 4711 with this description, and more before and after it.
fn packet(track: &[u8]) -> Vec<u8> {
    let content =
        [&[0x68, 2][..], &[0xE2, 3, track.len() as u8], track, &[0x50, 9, 0xF8, 4, 0xE7, 0x24]].concat();
    field(1, &content)
}

fn of_process(pid: u8, name: &str) -> Vec<u8> {
    packet(&[&[8, 99][..], &field(3, &[&[8, pid][..], &field(6, name.as_bytes())].concat())].concat())
}

fn of_thread(pid: u8, tid: &[u8]) -> Vec<u8> {
    packet(&[&[8, 98][..], &field(4, &[&[8, pid, 16][..], tid, &field(5, b"main")].concat())].concat())
}

/// What is made of packets, after something that a piece has already.
fn applied(numbers: &mut Numbers, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let before = packet(&[8, 1]);
    let mut piece = Piece { bytes: before.clone(), packets: 1 };
    piece.bytes.extend(packets.concat());
    numbers.apply(&mut piece, before.len());
    let all: Vec<_> =
        TracePackets::new(&piece.bytes).map(|packet| packet.expect("a packet").to_vec()).collect();
    assert_eq!(all[0], before[2..]);
    all[1..].to_vec()
}

fn numbers() -> Numbers {
    let mut numbers = Numbers::default();
    numbers.refresh(&tree().0);
    numbers
}

#[test]
fn processes_and_threads_have_the_numbers_of_the_service_and_all_else_stays() {
    let packets = applied(&mut numbers(), &[of_thread(1, &[1]), of_thread(1, &[7]), of_process(1, "")]);
    let described =
        |at: usize, of| message(message(&packets[at], 60).expect("a track"), of).expect("it is one");
    let both = |at| [1, 2].map(|of| number(described(at, 4), of).expect("a number"));
    assert_eq!((both(0), both(1)), ([4711, 4711], [4711, 4800]));
    assert_eq!(number(described(2, 3), 1), Some(4711));
    let name = message(described(0, 4), 5);
    let rest = [13, 10, 79].map(|field| number(&packets[0], field));
    assert_eq!((name, rest), (Some(&b"main"[..]), [Some(2), Some(9), Some(4711)]));
    assert_eq!(number(message(&packets[0], 60).expect("a track"), 1), Some(98));
}

#[test]
fn a_thread_that_is_not_known_or_has_a_number_again_is_no_other_thread() {
    // 10,000,007: the second one with the number 7.
    let packets = applied(&mut numbers(), &[of_thread(1, &[9]), of_thread(1, &[0x87, 0xAD, 0xE2, 0x04])]);
    let tid = |packet: &Vec<u8>| number(message(message(packet, 60)?, 4)?, 2);
    assert_eq!(packets.iter().map(tid).collect::<Vec<_>>(), [Some(4711 << 32 | 9), Some(10_004_800)]);
}

#[test]
fn a_name_comes_once_with_the_command_line() {
    let mut numbers = numbers();
    let packets = applied(&mut numbers, &[of_process(1, "eye"), of_process(1, "eye")]);
    assert_eq!(packets.len(), 3);
    let process = message(message(&packets[1], 2).expect("a tree"), 1).expect("a process");
    assert_eq!((number(process, 1), number(&packets[1], 10)), (Some(4711), Some(1)));
    assert!(
        process.windows(24).any(|words| words == b"\x1A\x03eye\x1A\x0Abin/camera\x1A\x06--fas"),
        "{process:?}"
    );
}

#[test]
fn files_that_begin_later_have_the_name_from_their_beginning() {
    let (tree, _presence) = tree();
    let first_words = || {
        let mut piece = Piece::default();
        piece.processes(&tree, 0).expect("memory");
        let packet = TracePackets::new(&piece.bytes).next().expect("one").expect("a packet").to_vec();
        let process = message(message(&packet, 2).expect("a tree"), 1).expect("a process");
        let words = Fields::of(process).filter(|field| field.number == 3);
        words.map(|word| String::from_utf8_lossy(&word.whole[2..]).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(first_words(), ["bin/camera", "--fast"]);
    // Also where others number the packets of the same session.
    for _ in 0..2 {
        let mut numbers = Numbers::default();
        numbers.refresh(&tree);
        let packets = applied(&mut numbers, &[of_process(1, "eye")]);
        assert_eq!(packets.len(), 2);
        assert_eq!(first_words(), ["eye", "bin/camera", "--fast"]);
    }
}

#[test]
fn packets_of_other_processes_and_about_others_stay_as_they_are() {
    let other = |bytes: Vec<u8>| [&bytes[..bytes.len() - 2], &[0xE8, 0x24]].concat();
    let packets = [
        other(of_process(1, "init")),
        of_process(2, "not its own number"),
        of_thread(33, &[1]),
        packet(&[8, 99, 0x12, 1, b'x']),
        field(1, &[0xF8, 4, 0xE7, 0x24]),
        // Not well-formed.
        field(1, &[0xF8, 4, 0xE7, 0x24, 0xE2, 3, 200]),
    ];
    let kept: Vec<_> = packets.iter().map(|packet| packet[2..].to_vec()).collect();
    assert_eq!(applied(&mut numbers(), &packets), kept);
    assert_eq!(applied(&mut Numbers::default(), &[of_process(1, "x")]), [of_process(1, "x")[2..].to_vec()]);
}
