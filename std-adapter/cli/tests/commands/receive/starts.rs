//! A device that restarts: each of its starts is a trace of its own.

use std::path::Path;

use tracebuf::proto::TracePackets;
use tracebuf_analysis::receive::{ReceiveReport, Receiver};

use super::{content, frames_of};
use crate::trace::folder;
use crate::tracebuf;

/// The first writers of a device's first and second producer.
const MAIN: u32 = 0x1_0001;
const SENSOR: u32 = 0x1_0002;
const NEXT: u32 = 0x2_0001;
const SERVICE: u32 = 1;

/// What a packet says besides its sequence: nothing, that it is its writer's first, or what its clock read.
#[derive(Clone, Copy)]
enum Says {
    Nothing,
    First(u8),
    Clock(u8),
}
use Says::{Clock, First, Nothing};

fn varint(number: u32) -> Vec<u8> {
    let mut room = [0; 10];
    let size = tracebuf::proto::varint::encode(number.into(), &mut room).unwrap();
    room[..size].to_vec()
}

fn packet(id: u32, says: Says) -> Vec<u8> {
    let mut content = [&[0x50][..], &varint(id)].concat();
    if let First(time) | Clock(time) = says {
        // A state with a snapshot of one clock, BOOTTIME.
        content.extend([0x68, 1, 0x32, 6, 0x0A, 4, 0x08, 6, 0x10, time]);
    }
    if let First(_) = says {
        content.extend([0xB8, 0x05, 1]);
    }
    [&[0x0A, content.len() as u8][..], &content].concat()
}

/// What a start sends, in frames.
fn start(packets: &[(u32, Says)]) -> Vec<Vec<u8>> {
    numbered(1, packets)
}

/// Like [`start`], from a frame with this number on.
fn numbered(first: u16, packets: &[(u32, Says)]) -> Vec<Vec<u8>> {
    let framed = packets.iter().enumerate();
    framed.flat_map(|(at, (id, says))| frames_of(&packet(*id, *says), at as u16 + first)).collect()
}

/// Each packet's start and sequence, and whether it says that something is missing; whatever the pieces.
fn received(starts: &[Vec<Vec<u8>>]) -> (Vec<(u64, u32, bool)>, ReceiveReport) {
    // A device begins with a zero.
    let line: Vec<u8> = starts.iter().flat_map(|frames| [&[0][..], &frames.concat()].concat()).collect();
    let pieces = [1, 7, line.len()].map(|step| {
        let (mut receiver, mut packets) = (Receiver::new(), Vec::new());
        for bytes in line.chunks(step) {
            let keep = |start, packet: &[u8]| {
                let content = content(packet);
                let (id, _) = tracebuf::proto::varint::decode(&content[1..]).expect("the id comes first");
                packets.push((start, id as u32, content.ends_with(&[0xD0, 0x02, 1])));
                Ok::<_, ()>(())
            };
            receiver.push(bytes, keep).unwrap();
        }
        (packets, receiver.finish())
    });
    assert!(pieces.iter().all(|other| *other == pieces[0]));
    pieces.into_iter().next().unwrap()
}

#[test]
fn after_a_power_cycle_all_is_of_the_new_start_also_a_sequence_whose_first_packet_was_lost() {
    let before = start(&[(MAIN, First(1)), (SENSOR, First(2)), (MAIN, Nothing), (SERVICE, Nothing)]);
    let after =
        [(MAIN, First(1)), (SENSOR, First(2)), (MAIN, Nothing), (SENSOR, Nothing), (SERVICE, Nothing)];
    let mut expected = vec![(1, MAIN, false), (1, SENSOR, false), (1, MAIN, false), (1, SERVICE, false)];
    let whole = [MAIN, SENSOR, MAIN, SENSOR, SERVICE].map(|id| (2, id, false));
    let (packets, report) = received(&[before.clone(), start(&after)]);
    assert_eq!(packets, [&expected[..], &whole].concat());
    assert_eq!((report.starts, report.restarts), (2, 1));

    let mut lossy = start(&after);
    lossy.remove(1);
    expected.extend([(2, MAIN, false), (2, MAIN, true), (2, SENSOR, true), (2, SERVICE, true)]);
    assert_eq!(received(&[before, lossy]).0, expected);
}

#[test]
fn a_start_that_was_so_short_that_it_sent_one_packet_is_one_too() {
    let short = start(&[(MAIN, First(1))]);
    let starts = [short.clone(), short.clone(), start(&[(MAIN, First(3)), (SENSOR, First(4))])];
    let (packets, report) = received(&starts);
    let expected = [(1, MAIN, false), (2, MAIN, false), (3, MAIN, false), (3, SENSOR, false)];
    assert_eq!((packets, report.starts), (expected.into(), 3));
    // Nothing tells of a start that sent no whole packet.
    let (packets, report) = received(&[vec![short[0][..9].to_vec()], short.clone(), short]);
    assert_eq!((packets, report.starts), (vec![(1, MAIN, true), (2, MAIN, false)], 2));
}

#[test]
fn what_a_start_had_not_sent_comes_behind_it_in_its_own_trace_when_memory_was_kept() {
    let before = start(&[(MAIN, First(1)), (MAIN, Nothing)]);
    let left = [(MAIN, Nothing), (SENSOR, First(1)), (MAIN, Clock(9))];
    let new = [(NEXT, First(0)), (MAIN, Nothing), (NEXT + 1, First(0)), (SERVICE, Nothing)];
    let (packets, report) = received(&[before.clone(), start(&[&left[..], &new].concat())]);
    let remnants = [(1, MAIN, true), (1, SENSOR, true), (1, MAIN, false)];
    let rest = [(2, NEXT, false), (1, MAIN, false), (2, NEXT + 1, false), (2, SERVICE, false)];
    let first = [(1, MAIN, false), (1, MAIN, false)];
    assert_eq!(packets, [&first[..], &remnants, &rest].concat());
    assert_eq!((report.starts, report.restarts), (2, 1));

    // The second start is reset before it has sent anything of its own.
    let third = [(MAIN, Nothing), (NEXT, First(0)), (NEXT, Nothing), (0x3_0001, First(0))];
    let (packets, _) = received(&[before, start(&left), start(&third)]);
    let expected = [(1, MAIN, true), (2, NEXT, true), (2, NEXT, false), (3, 0x3_0001, true)];
    assert_eq!(packets[5..], expected);
}

#[test]
fn where_the_first_packets_were_lost_the_clock_tells_the_start_at_the_next_state() {
    let before = start(&[(MAIN, First(1)), (MAIN, Nothing), (MAIN, Clock(50))]);
    let mut after = start(&[(MAIN, First(1)), (MAIN, Nothing), (MAIN, Clock(9)), (MAIN, Nothing)]);
    after.remove(0);
    let (packets, report) = received(&[before.clone(), after]);
    // A reader shows nothing of the packet that reports the loss.
    let expected = [(1, MAIN, true), (2, MAIN, true), (2, MAIN, false)];
    assert_eq!((&packets[3..], report.starts), (&expected[..], 2));

    // It goes on: nothing says that it is another start.
    let (packets, report) =
        received(&[before, start(&[(MAIN, Nothing), (MAIN, Clock(50)), (MAIN, Nothing)])]);
    assert!(packets.iter().all(|(start, ..)| *start == 1));
    assert_eq!((report.starts, report.restarts), (1, 1));
}

#[test]
fn several_producers_of_one_start_are_of_one_trace_and_a_restart_makes_one_new_start_at_most() {
    let both =
        start(&[(MAIN, First(1)), (NEXT, First(0)), (MAIN, Clock(5)), (NEXT, First(0)), (MAIN, Clock(3))]);
    // Without a restart nothing begins anew, whatever the packets say.
    let (packets, _) = received(std::slice::from_ref(&both));
    assert!(packets.iter().all(|(start, ..)| *start == 1));
    let (packets, report) = received(&[both.clone(), both]);
    assert!(packets[..5].iter().all(|(start, ..)| *start == 1), "{packets:?}");
    assert!(packets[5..].iter().all(|(start, ..)| *start == 2), "{packets:?}");
    assert_eq!(report.starts, 2);
    // Other producers, as memory was kept.
    let first = start(&[(MAIN, First(1)), (NEXT, First(1))]);
    let (packets, _) =
        received(&[first, start(&[(0x3_0001, First(0)), (0x4_0001, First(0)), (NEXT, Nothing)])]);
    assert_eq!(packets[2..], [(2, 0x3_0001, false), (2, 0x4_0001, false), (1, NEXT, true)]);
}

#[test]
fn a_restart_whose_numbers_are_as_after_a_loss_shows_in_the_clock_and_in_new_producers() {
    let packets = [(MAIN, First(5)), (SENSOR, First(6)), (MAIN, Nothing)];
    let before = numbered(65_000, &packets);
    for (after, found) in
        [(vec![(MAIN, First(1))], true), (vec![(NEXT, First(0))], true), (packets.into(), false)]
    {
        let (received, report) = received(&[before.clone(), start(&after)]);
        let number = if found { 2 } else { 1 };
        // Nothing is missing in the new one.
        let first = (number, after[0].0, !found);
        assert_eq!((received[3], report.starts, report.restarts), (first, number, number - 1));
    }
    // Nor are a loss and damage soon after a start one.
    let two = [(MAIN, First(1)), (MAIN, Nothing), (MAIN, Nothing), (NEXT, First(0)), (MAIN, Clock(0))];
    let mut lossy = start(&two);
    lossy[1] = [vec![0xFF; 20], vec![0]].concat();
    assert_eq!(received(&[vec![vec![0xFF; 20]], lossy.clone()]).1.starts, 1);
    lossy[2].clear();
    assert_eq!(received(&[vec![vec![0xFF; 20]], lossy]).1.starts, 1);
    // Without a loss a number is a number.
    let (_, report) = received(&[numbered(0, &[(MAIN, First(5)), (MAIN, Clock(4)), (NEXT, First(0))])]);
    assert_eq!((report.starts, report.restarts), (1, 0));
}

#[test]
fn a_start_of_which_only_the_sender_was_heard_is_one_with_the_next_whose_losses_are_not_its_own() {
    let both = [(MAIN, First(1)), (NEXT, First(0))];
    let mut lossy = start(&[(SERVICE, Nothing); 3]);
    lossy.remove(1);
    let (packets, report) = received(&[lossy, start(&both)]);
    let expected = [(1, SERVICE, false), (1, SERVICE, true), (1, MAIN, false), (1, NEXT, false)];
    assert_eq!((packets, report.starts, report.restarts), (expected.into(), 1, 1));
    // Also if there may have been no restart.
    let (_, report) = received(&[numbered(65_000, &[(SERVICE, Nothing)]), start(&both)]);
    assert_eq!(report.starts, 1);
    // Two restarts make one new start, if nothing of the first was heard, and what that had is missing.
    let (packets, report) = received(&[start(&both[..1]), start(&[(SERVICE, Nothing)]), start(&both)]);
    let expected = [(1, MAIN, false), (1, SERVICE, true), (2, MAIN, true), (2, NEXT, true)];
    assert_eq!((packets, report.starts, report.restarts), (expected.into(), 2, 2));
}

#[test]
fn the_sender_s_packets_are_of_the_newest_start_that_was_seen() {
    let before = start(&[(MAIN, First(1)), (SERVICE, Nothing)]);
    let after = start(&[(SERVICE, Nothing), (MAIN, Nothing), (NEXT, First(0)), (SERVICE, Nothing)]);
    let expected = [
        (1, MAIN, false),
        (1, SERVICE, false),
        (1, SERVICE, true),
        (1, MAIN, true),
        (2, NEXT, false),
        (2, SERVICE, false),
    ];
    assert_eq!(received(&[before.clone(), after]).0, expected);
    // What was lost before a start is not missing in what the sender says in it.
    let after = start(&[(MAIN, Nothing), (NEXT, First(0)), (SERVICE, Nothing)]);
    assert_eq!(received(&[before, after]).0[2..], expected[3..]);
}

#[test]
fn who_joins_late_is_told_that_something_is_missing_before_the_first_packet_that_is_whole() {
    let (packets, report) = received(&[numbered(5, &[(MAIN, Nothing), (MAIN, Nothing)])]);
    assert_eq!(packets, [(1, MAIN, true), (1, MAIN, false)]);
    assert!(report.beginning_missing);
}

#[test]
fn a_restart_that_shows_in_the_midst_of_a_packet_makes_a_new_start() {
    let long = |letter| [&[0x0A, 78, 0x50, 2, 0xD2, 0x05, 73][..], &[letter; 73]].concat();
    let [cut, other] = [b'a', b'b'].map(|letter| frames_of(&long(letter), 2));
    // Of the second start, neither the zero nor the first two frames arrive.
    let after = numbered(4, &[(NEXT, First(0))]);
    let frames = [start(&[(MAIN, First(1))]), vec![cut[0].clone(), other[1].clone()], after].concat();
    let (packets, report) = received(&[frames]);
    assert_eq!((packets, report.starts), (vec![(1, MAIN, false), (2, NEXT, true)], 2));
}

/// What `tracebuf receive` puts into a folder, and says.
fn command(folder: &Path, output: &Path, starts: &[Vec<Vec<u8>>]) -> (bool, String) {
    let line: Vec<u8> = starts.iter().flat_map(|frames| [&[0][..], &frames.concat()].concat()).collect();
    std::fs::write(folder.join("line.bin"), line).unwrap();
    let out = tracebuf(&["receive"]).arg(folder.join("line.bin")).arg("-o").arg(output).output().unwrap();
    (out.status.success(), String::from_utf8([out.stdout, out.stderr].concat()).unwrap())
}

/// How many packets are in a file, all of them whole.
fn count(file: &Path) -> usize {
    let trace = std::fs::read(file).unwrap();
    let packets: Result<Vec<_>, _> = TracePackets::new(&trace).collect();
    packets.expect("a whole trace").len()
}

fn boot() -> Vec<Vec<u8>> {
    start(&[(MAIN, First(1)), (MAIN, Nothing), (SENSOR, First(2))])
}

#[test]
fn each_start_has_a_file_of_its_own_that_is_named_in_the_report() {
    let folder = folder("receive/starts");
    let output = folder.join("oven.pftrace");
    // A trace of the time before, which is longer.
    std::fs::write(folder.join("oven-2.pftrace"), packet(MAIN, Nothing).repeat(90)).unwrap();
    let (done, said) = command(&folder, &output, &[boot(), boot()]);
    let second = folder.join("oven-2.pftrace");
    let named = format!("; each start is in a file of its own: {}, {}", output.display(), second.display());
    assert!(done && said.starts_with("6 packets from ") && said.contains(&named), "{said}");
    assert!(!said.contains("more of them"), "{said}");
    assert_eq!((count(&output), count(&second)), (3, 3));
    assert_eq!(std::fs::read(&output).unwrap(), std::fs::read(&second).unwrap());
    assert!(!folder.join("oven-3.pftrace").exists());

    let (done, said) = command(&folder, &output, &[boot()]);
    assert!(done && said.ends_with("nothing lost on the line\n"), "{said}");
}

#[test]
fn what_is_no_trace_is_not_written_over() {
    let folder = folder("receive/beside");
    // None is called a trace, as some are none.
    let [output, text, inner, third] =
        ["oven.out", "oven-2.out", "oven-3.out", "oven-4.out"].map(|name| folder.join(name));
    std::fs::write(&text, "\n\x05 what somebody wrote down").unwrap();
    std::fs::create_dir(&inner).unwrap();
    let (done, said) = command(&folder, &output, &[boot(), boot()]);
    assert!(done && said.contains(&format!("own: {}, {}", output.display(), third.display())), "{said}");
    assert_eq!((count(&output), count(&third)), (3, 3));
    assert!(std::fs::read_to_string(&text).unwrap().starts_with("\n\x05 what"));
}

#[test]
fn a_line_of_nothing_but_restarts_makes_a_hundred_files() {
    let folder = folder("receive/storm");
    let output = folder.join("storm.pftrace");
    let (done, said) = command(&folder, &output, &vec![start(&[(MAIN, First(1))]); 1000]);
    assert!(done && said.starts_with("1000 packets from "), "{said}");
    let last = folder.join("storm-100.pftrace");
    let named = format!(
        "own, 100 of them: {} to {}, but the last one has 900 more of them in it, and their times do not go together",
        output.display(),
        last.display()
    );
    assert!(said.contains(&named), "{said}");
    assert_eq!((count(&output), count(&last)), (1, 901));
    // Those, and the line.
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 101);
}

#[cfg(unix)]
#[test]
fn standard_output_gets_all_of_it_and_the_report_says_that_times_do_not_go_together() {
    use std::process::Stdio;

    let folder = folder("receive/stdout");
    let line = [boot().concat(), boot().concat()].concat();
    std::fs::write(folder.join("line.bin"), line).unwrap();
    let to_file = folder.join("both.pftrace");
    for (is_file, output) in [(true, "-"), (true, "/dev/stdout"), (false, "-")] {
        let mut command = tracebuf(&["receive"]);
        command.arg(folder.join("line.bin")).args(["-o", output]).stderr(Stdio::piped());
        if is_file {
            command.stdout(std::fs::File::create(&to_file).unwrap());
        } else {
            command.stdout(Stdio::piped());
        }
        let out = command.spawn().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        let apart = "; all of it is in one file, and times before and after a restart do not go together\n";
        assert!(out.status.success() && said.ends_with(apart), "{said}");
        let trace = if is_file { std::fs::read(&to_file).unwrap() } else { out.stdout };
        assert_eq!(TracePackets::new(&trace).flatten().count(), 6);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_start_whose_file_cannot_be_made_ends_it_with_that_file_s_name() {
    use std::os::unix::ffi::OsStrExt;

    let folder = folder("receive/long-name");
    // As long as names can be.
    let name = [&[b'n'; 247][..], b".pftrace"].concat();
    let output = folder.join(std::ffi::OsStr::from_bytes(&name));
    let (done, said) = command(&folder, &output, &[boot(), boot()]);
    assert!(!done && said.contains(&format!("{}-2.pftrace: cannot be written: ", "n".repeat(247))), "{said}");
    assert!(said.starts_with("3 packets from ") && said.contains(", 1 not written; "), "{said}");
    assert!(!said.contains("with the next 999 numbers"), "no other name is shorter: {said}");
    assert_eq!(count(&output), 3);
}

#[cfg(target_os = "linux")]
#[test]
fn files_lie_beside_a_file_by_any_name_and_not_beside_what_the_system_names() {
    let folder = folder("receive/beside");
    let link = |to: &str, name: &str| {
        std::os::unix::fs::symlink(to, folder.join(name)).expect("a link");
        folder.join(name)
    };
    let shared = std::path::PathBuf::from(format!("/dev/shm/tracebuf-{}.pftrace", std::process::id()));
    let (near, farther) = (link("a.pftrace", "near"), link("near", "farther"));
    let file = std::fs::File::create(folder.join("of-this-process")).expect("a file");
    let open = format!("/proc/{}/fd/{}", std::process::id(), std::os::fd::AsRawFd::as_raw_fd(&file));
    let open = link(&open, "open");
    for (output, has_others) in [
        (folder.join("a.pftrace"), true),
        (near, true),
        (farther, true),
        (shared.clone(), true),
        (open, false),
        ("/dev/null".into(), false),
    ] {
        let (done, said) = command(&folder, &output, &[boot(), boot()]);
        assert!(done && said.contains("all of it is in one file") != has_others, "{said}");
    }
    let second = shared.with_file_name(format!("tracebuf-{}-2.pftrace", std::process::id()));
    for file in [shared, second] {
        std::fs::remove_file(file).unwrap();
    }
    let (done, said) = command(&folder, &link("ring", "ring"), &[boot()]);
    assert!(!done, "{said}");
}

#[cfg(unix)]
#[test]
fn names_that_lead_to_the_first_file_or_to_a_pipe_are_passed_over() {
    let folder = folder("receive/passed-over");
    let output = folder.join("a.pftrace");
    std::fs::write(&output, packet(MAIN, Nothing)).unwrap();
    std::os::unix::fs::symlink("a.pftrace", folder.join("a-2.pftrace")).unwrap();
    std::fs::hard_link(&output, folder.join("a-3.pftrace")).unwrap();
    crate::trace::mkfifo(&folder.join("a-4.pftrace"));
    let (done, said) = command(&folder, &output, &[boot(), boot()]);
    assert!(done, "{said}");
    assert_eq!((count(&output), count(&folder.join("a-5.pftrace"))), (3, 3));
}
