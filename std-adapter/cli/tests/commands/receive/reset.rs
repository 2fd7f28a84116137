//! A device that is reset in the middle of a frame, or while its line is interrupted, and what only looks like that.

use std::convert::Infallible;

use tracebuf_analysis::receive::Receiver;

use super::{FIRST, WHOLE, content, frame, frames_of, receive};

/// Packets of sequence 2, with a text each.
fn packet_of(text: &[u8]) -> Vec<u8> {
    let length = text.len() as u8;
    [&[0x0A, length + 5, 0x50, 2, 0xD2, 0x05, length], text].concat()
}

#[test]
fn a_device_that_is_reset_in_its_second_frame_has_not_gone_on() {
    let [a, b] = [[b'a'; 73], [b'b'; 73]].map(|text| packet_of(&text));
    let (a, b) = (frames_of(&a, 1), frames_of(&b, 1));
    let line = [&a[0][..], &a[1][..9], &b[0], &b[1], &frame(WHOLE, 3, &packet_of(b"ccc"))].concat();
    let (packets, report) = receive(&line, 64);
    // Not half of one and half of the other.
    let after_loss = |text| [&content(&packet_of(text))[..], &[0xD0, 0x02, 1]].concat();
    assert_eq!(packets.iter().map(|packet| content(packet)).collect::<Vec<_>>(), [after_loss(b"ccc")]);
    let told = (report.frames_lost, report.frames_corrupt, report.packets_incomplete);
    assert_eq!(told, (0, 1, 1), "{report}");

    // Packets of one frame each: the second one's is lost, and the next says so.
    let [first, cut] =
        [frame(WHOLE, 1, &packet_of(b"aaa")), frame(WHOLE, 2, &packet_of(b"bbb"))[..6].to_vec()];
    let after =
        [(1, b"AAA"), (2, b"BBB"), (3, b"CCC")].map(|(number, text)| frame(WHOLE, number, &packet_of(text)));
    let (packets, _) = receive(&[first, cut, after.concat()].concat(), 64);
    let packets: Vec<_> = packets.iter().map(|packet| content(packet)).collect();
    assert_eq!(packets, [content(&packet_of(b"aaa")), after_loss(b"BBB"), content(&packet_of(b"CCC"))]);
}

/// The packet that was on its way had been read, and is not sent again: the next start goes on with what followed it.
#[test]
fn a_device_that_is_reset_in_its_first_frame_has_lost_what_is_in_it() {
    let [lost, next] = [b"aaa", b"bbb"].map(|text| frame(WHOLE, 1, &packet_of(text)));
    let after_loss = [&content(&packet_of(b"bbb"))[..], &[0xD0, 0x02, 1]].concat();
    // The shortest frame has seven bytes, plus the one of COBS.
    for (cut, told) in [(7, content(&packet_of(b"bbb"))), (8, after_loss)] {
        let line = [&[0], &lost[..cut], &[0], &next, &frame(WHOLE, 2, &packet_of(b"ccc"))].concat();
        let (packets, report) = receive(&line, 64);
        let packets: Vec<_> = packets.iter().map(|packet| content(packet)).collect();
        assert_eq!(packets, [told, content(&packet_of(b"ccc"))], "{cut}");
        assert_eq!((report.frames_corrupt, report.beginning_missing), (1, false));
    }
}

#[test]
fn the_second_frame_of_another_start_is_not_taken_for_the_firsts() {
    let [a, b] = [[b'a'; 73], [b'b'; 73]].map(|text| frames_of(&packet_of(&text), 1));
    let [c, d] = [[b'c'; 140], [b'd'; 140]].map(|text| frames_of(&packet_of(&text), 1));
    let next = |number| frame(WHOLE, number, &packet_of(b"next"));
    // Of the second start, neither the zero nor the first frame arrives, and in one case not the second either.
    let lines = [[&a[0][..], &b[1], &next(3)], [&c[..2].concat(), &d[2], &next(4)]];
    for line in lines.map(|line| line.concat()).iter().chain([&[&c[0], &d[1], &d[2], &next(4)[..]].concat()])
    {
        let (packets, report) = receive(line, 64);
        let told = [&content(&packet_of(b"next"))[..], &[0xD0, 0x02, 1]].concat();
        assert_eq!(packets.iter().map(|packet| content(packet)).collect::<Vec<_>>(), [told]);
        let counts = (report.frames_lost, report.frames_corrupt, report.packets_incomplete, report.restarts);
        assert_eq!(counts, (0, 0, 2, 1), "{report}");
    }
    // The same packet once more is the same packet.
    let (packets, report) = receive(&[&a[0][..], &a[1]].concat(), 64);
    assert_eq!((packets.len(), report.restarts), (1, 0));
    // Where there is no room for it, nothing is said about the other frames.
    let (packets, report) = receive(&[a[0].clone(), frame(super::LAST, 2, &[1; 3])].concat(), 64);
    assert_eq!((packets.len(), report.packets_incomplete), (0, 2));
}

#[test]
fn noise_that_is_too_short_for_a_frame_or_before_all_of_them_costs_no_packet() {
    let packet = packet_of(&[b'a'; 73]);
    let frames = frames_of(&packet, 1);
    let [first, last] = [&frames[0], &frames[1]];
    // The shortest frame has seven bytes, plus the one of COBS.
    let noise = |length| [vec![0xFF; length], vec![0]].concat();
    for (before, between, packets) in [(200, 7, 1), (200, 8, 0)] {
        let line = [noise(before), first.clone(), noise(between), last.clone()].concat();
        let (received, report) = receive(&line, 64);
        assert_eq!((received.len(), report.frames_corrupt), (packets, 2), "{report}");
        // What came before all of them may have been one.
        let told = [&content(&packet)[..], &[0xD0, 0x02, 1]].concat();
        assert!(received.iter().all(|received| content(received) == told));
    }
}

#[test]
fn after_an_interruption_every_sequence_misses_something_and_a_restart_is_noticed_whatever_its_numbers() {
    /// A packet of sequence 2, at this time by its own clock.
    fn timed(time: u8) -> Vec<u8> {
        // A clock snapshot with the clock 64.
        vec![0x0A, 10, 0x50, 2, 0x32, 6, 0x0A, 4, 0x08, 64, 0x10, time]
    }
    for (number, time, starts) in [(4, 90, 1), (4, 5, 2), (500, 5, 2), (500, 90, 1), (1, 5, 2)] {
        let mut receiver = Receiver::new();
        let mut got = Vec::new();
        let mut push = |receiver: &mut Receiver, bytes: &[u8]| {
            let Ok(()) = receiver.push(bytes, |start, packet| {
                got.push((start, packet.to_vec()));
                Ok::<_, Infallible>(())
            });
        };
        let mut line: Vec<u8> = (1..4).flat_map(|n| frame(WHOLE, n, &timed(70 + n as u8))).collect();
        let cut = frame(FIRST, 4, &timed(80));
        line.extend(&cut[..6]);
        push(&mut receiver, &line);
        receiver.interrupt();
        push(&mut receiver, &frame(WHOLE, number, &timed(time)));
        push(&mut receiver, &frame(WHOLE, number + 1, &timed(time + 1)));
        let report = receiver.finish();
        assert_eq!((got.len(), report.starts), (5, starts), "{number} {time}: {report}");
        let lost = |packet: &[u8]| packet.ends_with(&[0xD0, 0x02, 1]);
        // What a start lacks at its beginning is that start's own loss only if its first frame is missing.
        let told = got.iter().map(|(_, packet)| lost(packet)).collect::<Vec<_>>();
        assert_eq!(told, [false, false, false, number != 1, false], "{number} {time}");
        assert_eq!((report.interruptions, report.frames_unfinished), (1, 1), "{report}");
        assert!(!report.to_string().contains("nothing lost"), "{report}");
    }
}
