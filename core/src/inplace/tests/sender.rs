//! What a sender sends, received again.

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::vec::Vec;

use super::super::frame::Frame;
use super::super::{Memory, Message, Record, Recorder, Region, Sender, Timer};
use super::timer;
use crate::atomics::watched::interrupted_at;
use crate::proto::frame::FrameDecoder;

/// A receiver that keeps the longest of what came for each chunk, as a host does.
#[derive(Default)]
struct Host {
    hellos: u32,
    times: Vec<u64>,
    names: BTreeMap<u32, Vec<u8>>,
    /// Values by start, writer and chunk's number.
    chunks: BTreeMap<(u32, u32, u32), Vec<String>>,
    chunk_frames: u32,
    next: Option<u16>,
    lost: u32,
    /// A chunk came before a name that is in it.
    is_unnamed: bool,
}

impl Host {
    fn take(&mut self, line: &[u8]) {
        let (mut decoder, mut line) = (FrameDecoder::new([0; 600]), line);
        while let Some(frame) = decoder.next(&mut line) {
            let frame = frame.expect("intact");
            let number = frame.number;
            match self.next {
                Some(next) => self.lost += u32::from(number.wrapping_sub(next)),
                None => assert_eq!(number, 0),
            }
            self.next = Some(number.checked_add(1).unwrap_or(1));
            self.say(Message::of(frame.flags, frame.piece).expect("known"));
        }
        assert!(!decoder.is_within_frame());
    }

    fn say(&mut self, message: Message<'_>) {
        match message {
            Message::Hello(hello) => {
                self.hellos += 1;
                self.times.push(hello.now);
            }
            Message::Time { now, .. } => self.times.push(now),
            Message::Name { number, name, .. } => {
                self.names.insert(number, name.text.into_iter().flat_map(|text| text.bytes()).collect());
            }
            Message::Chunk(chunk) => {
                self.is_unnamed |= !self.names.contains_key(&chunk.track());
                let mut records = Vec::new();
                for record in chunk.records() {
                    let (name, told) = match record.expect("whole").1 {
                        Record::Count { counter, value } => (counter, format!("{value}")),
                        Record::Instant { name } => (name, "instant".into()),
                        Record::Lost { events } => (1, format!("lost {events}")),
                        other => panic!("{other:?}"),
                    };
                    self.is_unnamed |= !self.names.contains_key(&name);
                    records.push(told);
                }
                // A writer's chunks come in their order.
                let later = (chunk.start(), chunk.writer(), chunk.number() + 1)
                    ..(chunk.start(), chunk.writer() + 1, 0);
                assert!(self.chunks.range(later).next().is_none());
                let kept = self.chunks.entry((chunk.start(), chunk.writer(), chunk.number())).or_default();
                // It only grows.
                let both = kept.len().min(records.len());
                assert_eq!(kept[..both], records[..both]);
                if records.len() > kept.len() {
                    *kept = records;
                }
                self.chunk_frames += 1;
            }
        }
    }

    fn of(&self, start: u32, writer: u32) -> Vec<&str> {
        let whose = (start, writer, 0)..(start, writer + 1, 0);
        self.chunks.range(whose).flat_map(|(_, records)| records).map(String::as_str).collect()
    }
}

/// All that it sends now, in pieces of so many bytes.
fn sent<M: Memory, T: Timer>(sender: &mut Sender<'_, M, T>, piece: usize) -> Vec<u8> {
    let (mut line, mut room) = (Vec::new(), std::vec![0xEE; piece]);
    loop {
        let len = sender.fill(&mut room);
        line.extend(&room[..len]);
        if len < piece {
            return line;
        }
    }
}

#[test]
fn everything_arrives_whatever_the_line_takes_at_once() {
    for piece in [1, 2, 7, 64, 100_000] {
        timer!(TIME, ticks);
        let region = std::boxed::Box::leak(std::boxed::Box::new(Region::<16, 64, 8, 128>::zeroed()));
        let recorder = Recorder::new(&*region, ticks, 1_000);
        let (one, two) = (recorder.writer("one"), recorder.writer("two"));
        for value in 0..200 {
            // No zero, zeros, and runs of more than 254 bytes without one.
            one.count("n", if value < 100 { value } else { 0x0101_0101 + value });
        }
        two.instant("rare");
        let mut sender = Sender::new(recorder);
        let line = sent(&mut sender, piece);
        assert_eq!((line[0], line.iter().filter(|byte| **byte == 0).count()), (0, 1 + 1 + 4 + 5));
        let mut host = Host::default();
        host.take(&line);
        let expected = (0..200).map(|value| if value < 100 { value } else { 0x0101_0101 + value });
        assert_eq!(host.of(1, 0), expected.map(|value| format!("{value}")).collect::<Vec<_>>());
        assert_eq!(host.of(1, 1), ["instant"]);
        let names: Vec<_> = host.names.values().map(|name| String::from_utf8_lossy(name)).collect();
        assert_eq!((names.len(), host.is_unnamed, host.lost), (4, false, 0), "{names:?}");
        assert_eq!((host.hellos, host.times.len()), (1, 1));
        // Nothing twice.
        assert!(sent(&mut sender, piece).is_empty());
    }
}

#[test]
fn an_open_chunk_comes_when_it_has_grown_and_its_time_has_come() {
    static TRACE: Region<16, 64, 4, 32> = Region::zeroed();
    timer!(TIME, ticks);
    let recorder = Recorder::new(&TRACE, ticks, 1_000);
    let writer = recorder.writer("w");
    let (mut sender, mut host) = (Sender::new(recorder), Host::default());
    let mut expected = Vec::new();
    for (value, advance, comes) in [(0, 0, true), (1, 100, false), (2, 200, true), (3, 0, false)] {
        TIME.fetch_add(advance, Ordering::Relaxed);
        writer.count("n", value);
        expected.push(format!("{value}"));
        host.take(&sent(&mut sender, 64));
        assert_eq!(host.of(1, 0) == expected, comes, "{value}");
    }
    sender.flush();
    host.take(&sent(&mut sender, 64));
    assert_eq!(host.of(1, 0), expected);
    // A period without anything new has the time alone.
    let before = host.chunk_frames;
    TIME.fetch_add(250, Ordering::Relaxed);
    let line = sent(&mut sender, 64);
    host.take(&line);
    assert_eq!((host.chunk_frames, line.len()), (before, 3 + 12 + 4 + 2));
    // The chunk that is complete comes as a whole, and its place is free.
    drop(writer);
    host.take(&sent(&mut sender, 64));
    assert_eq!(
        (host.of(1, 0), host.chunk_frames),
        (expected.iter().map(String::as_str).collect(), before + 1)
    );
    assert!(recorder.copy_chunk(&mut [0; 32]).is_none());
}

#[test]
fn who_joins_late_knows_all_names_after_a_while_and_the_time_comes_four_times_a_second() {
    static TRACE: Region<16, 64, 4, 32> = Region::zeroed();
    timer!(TIME, ticks);
    let recorder = Recorder::new(&TRACE, ticks, 1_000);
    let writer = recorder.writer("w");
    ["a", "b", "c", "d", "e", "f"].iter().for_each(|name| writer.instant(name));
    let mut sender = Sender::new(recorder);
    sent(&mut sender, 64);
    let mut host = Host { next: Some(8 + 1), ..Host::default() };
    for _ in 0..80 {
        TIME.fetch_add(100, Ordering::Relaxed);
        host.take(&sent(&mut sender, 64));
    }
    assert_eq!((host.names.len(), host.lost), (7, 0));
    // 8 seconds, in which it was asked each 100 ms.
    assert_eq!((host.hellos, host.times.len()), (6, 26));
    assert!(host.times.windows(2).all(|two| two[1] - two[0] == 300));
}

#[test]
fn what_writers_overwrite_before_it_is_sent_is_missing_and_the_rest_is_whole() {
    static TRACE: Region<16, 64, 4, 32> = Region::zeroed();
    timer!(TIME, ticks);
    let recorder = Recorder::new(&TRACE, ticks, 1_000_000);
    let writer = recorder.writer("w");
    let (mut sender, mut line, mut piece) = (Sender::new(recorder), Vec::new(), [0; 16]);
    // The line has room for 16 bytes of the 40 that are recorded.
    for value in 0..5_000 {
        writer.count("n", value);
        if value % 5 == 0 {
            let len = sender.fill(&mut piece);
            line.extend(&piece[..len]);
        }
    }
    drop(writer);
    line.extend(sent(&mut sender, 64));
    let mut host = Host::default();
    host.take(&line);
    let values: Vec<i32> = host.of(1, 0).iter().map(|value| value.parse().expect("a number")).collect();
    assert!(values.is_sorted_by(|a, b| a < b) && values.last() == Some(&4_999));
    let chunks = host.chunks.len();
    assert!((100..380).contains(&chunks), "{chunks}");
    assert_eq!(host.lost, 0);
}

#[test]
fn the_next_start_sends_what_the_last_one_has_not() {
    static TRACE: Region<16, 64, 8, 32> = Region::zeroed();
    let (recorder, _) = Recorder::attach_or_new(&TRACE, || 7, 1_000);
    let writer = recorder.writer("w");
    // More names than are sent again and again.
    ["a", "b", "c", "d", "e", "f", "g", "h"].iter().for_each(|name| writer.instant(name));
    (0..40).for_each(|value| writer.count("n", value));
    let mut sender = Sender::new(recorder);
    // A reset comes while the first chunk is on its way.
    let mut piece = [0; 400];
    assert_eq!(sender.fill(&mut piece), 400);
    core::mem::forget(writer);
    let (recorder, _) = Recorder::attach_or_new(&TRACE, || 0, 1_000);
    recorder.writer("other").instant("x");
    let mut host = Host::default();
    host.take(&sent(&mut Sender::new(recorder), 64));
    let values = (0..40).map(|value| format!("{value}"));
    let values: Vec<_> = core::iter::repeat_n("instant".into(), 8).chain(values).collect();
    assert_eq!(
        (host.of(1, 0), host.of(2, 0)),
        (values.iter().map(String::as_str).collect(), Vec::from(["instant"]))
    );
    assert!(!host.is_unnamed);
}

#[test]
fn threads_record_while_a_sender_sends() {
    const EVENTS: i32 = if cfg!(miri) { 100 } else { 20_000 };
    static TRACE: Region<64, 64, 32, 32> = Region::zeroed();
    timer!(TIME, ticks);
    let recorder = Recorder::new(&TRACE, ticks, 100_000);
    let is_over = AtomicBool::new(false);
    let line = thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(move || {
                    let writer = recorder.writer("w");
                    for value in 0..EVENTS {
                        TIME.fetch_add(1, Ordering::Relaxed);
                        writer.count("n", value);
                    }
                })
            })
            .collect();
        let sender = scope.spawn(|| {
            let (mut sender, mut line) = (Sender::new(recorder), Vec::new());
            loop {
                let last = is_over.load(Ordering::Acquire);
                line.extend(sent(&mut sender, 64));
                if last {
                    return line;
                }
                thread::yield_now();
            }
        });
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        is_over.store(true, Ordering::Release);
        sender.join().expect("the sender")
    });
    let mut host = Host::default();
    host.take(&line);
    assert!(!host.is_unnamed);
    for writer in 0..3 {
        let values: Vec<i32> =
            host.of(1, writer).iter().map(|value| value.parse().expect("a number")).collect();
        assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
    }
    assert!((0..3).any(|writer| host.of(1, writer).last() == Some(&&*format!("{}", EVENTS - 1))));
}

#[test]
fn content_of_any_length_is_what_cobs_makes_of_it() {
    for pattern in [0u32, 0x0101_0101, 0x0001_0203, u32::MAX] {
        let mut frame = Frame::new([pattern; 128]);
        for len in 0..=128 {
            frame.start(0x1C, 0x0102, len);
            let mut line: Vec<u8> = core::iter::from_fn(|| frame.next_byte()).collect();
            assert_eq!(line.pop(), Some(0));
            assert!(!line.contains(&0) && frame.has_ended());
            let mut content = std::vec![0; 600];
            let size = cobs::decode(&line, &mut content).expect("COBS").frame_size();
            let words: Vec<u8> = (0..len).flat_map(|_| pattern.to_le_bytes()).collect();
            assert_eq!(content[..size - 4], [&[0x1C, 2, 1], &words[..]].concat());
        }
    }
}

/// Writers interrupt the sender before any of its accesses, and lap the ring: what is newest comes all the same.
#[test]
fn a_sender_that_is_interrupted_anywhere_sends_all_that_stays() {
    // At one address, whatever the compiler makes of two.
    static N: &str = "n";
    const FULL: i32 = if cfg!(feature = "inplace-crc") { 12 } else { 13 };
    for (access, more) in (1..).flat_map(|access| [(access, 1), (access, FULL), (access, 5 * FULL + 3)]) {
        let region = &*std::boxed::Box::leak(std::boxed::Box::new(Region::<16, 64, 4, 32>::zeroed()));
        let recorder = Recorder::new(region, || 7, 1_000);
        let writer = std::rc::Rc::new(recorder.writer("w"));
        (0..3 * FULL + 5).for_each(|value| writer.count(N, value));
        let mut sender = Sender::new(recorder);
        let (mut line, last) = (Vec::new(), 3 * FULL + 5 + more);
        // A name that was never sent goes out before anything else.
        let (interrupting, names) = (std::rc::Rc::clone(&writer), more <= FULL);
        let came = interrupted_at(
            access,
            move || {
                (3 * FULL + 5..last).for_each(|value| interrupting.count(N, value));
                if names {
                    interrupting.instant("newest name");
                }
            },
            || line = sent(&mut sender, 64),
        );
        sender.flush();
        line.extend(sent(&mut sender, 64));
        let mut host = Host::default();
        host.take(&line);
        let told = host.of(1, 0);
        let last = if came { last } else { 3 * FULL + 5 };
        let values: Vec<i32> = told.iter().filter_map(|told| told.parse().ok()).collect();
        assert!(
            values.is_sorted_by(|a, b| a < b) && values.last() == Some(&(last - 1)),
            "{access}: {told:?}"
        );
        assert_eq!(told.last() == Some(&"instant"), came && names, "{access}: {told:?}");
        // The last two that were full, and what was there when it began, stay.
        assert!(
            values.iter().filter(|value| **value >= last - 2 * FULL).count() as i32 == 2 * FULL,
            "{access}: {told:?}"
        );
        assert!(!host.is_unnamed && host.lost == 0, "{access}");
        if !came {
            assert!(access > 100, "{access}");
            break;
        }
    }
}

#[test]
fn numbers_of_frames_go_from_65535_to_1_as_0_is_a_sender_s_first() {
    static TRACE: Region<16, 64, 4, 32> = Region::zeroed();
    timer!(TIME, ticks);
    let mut sender = Sender::new(Recorder::new(&TRACE, ticks, 4));
    let (mut decoder, mut numbers) = (FrameDecoder::new([0; 600]), Vec::new());
    // Each time is due at once.
    while numbers.len() < 0x1_0010 {
        TIME.fetch_add(1, Ordering::Relaxed);
        let line = sent(&mut sender, 128);
        let mut line = &line[..];
        while let Some(frame) = decoder.next(&mut line) {
            numbers.push(frame.expect("intact").number);
        }
    }
    assert_eq!((numbers[0], numbers[0xFFFF], numbers[0x1_0000]), (0, 0xFFFF, 1));
}

/// Later in what the line takes at once, it would be late.
#[test]
fn a_time_is_the_first_of_what_the_line_is_given() {
    static TRACE: Region<16, 64, 8, 32> = Region::zeroed();
    static TIME: AtomicU32 = AtomicU32::new(0);
    // Each reading takes long.
    let recorder = Recorder::new(&TRACE, || TIME.fetch_add(100, Ordering::Relaxed), 1_000);
    let writer = recorder.writer("w");
    (0..60).for_each(|value| writer.count("n", value));
    let (mut sender, mut line) = (Sender::new(recorder), [0; 2_000]);
    for _ in 0..3 {
        let len = sender.fill(&mut line);
        let (mut decoder, mut rest, mut kinds) = (FrameDecoder::new([0; 600]), &line[..len], Vec::new());
        while let Some(frame) = decoder.next(&mut rest) {
            kinds.push(frame.expect("intact").flags);
        }
        assert!(kinds.iter().skip(1).all(|kind| ![0x10, 0x14].contains(kind)), "{kinds:x?}");
        (0..60).for_each(|value| writer.count("n", value));
    }
}
