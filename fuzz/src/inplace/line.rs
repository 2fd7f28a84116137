//! What a recorder sends, in any pieces, with bytes flipped, lost and added, and frames of anything at all.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use cobs::encode_vec;
use crc::{CRC_32_ISO_HDLC, Crc};
use tracebuf::inplace::{Recorder, Sender};
use tracebuf::proto::PacketView;
use tracebuf::proto::fields::track_event;
use tracebuf::proto::reader::number;
use tracebuf_analysis::receive::{ReceiveReport, Receiver};

use super::{TIME, TRACE};
use crate::input::Input;

const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// Runs one input.
pub(super) fn run(mut input: Input<'_>) {
    let cut = usize::from(input.byte()).max(1);
    let is_of_anything = input.byte().is_multiple_of(2);
    if is_of_anything {
        of_anything(input, cut);
    } else {
        recorded(input, cut);
    }
}

/// The values of counters in packets, each behind its start, and the report.
fn receive(line: &[u8], cut: usize) -> (Vec<(u64, i64)>, ReceiveReport) {
    let mut receiver = Receiver::new();
    let (mut values, mut packets) = (Vec::new(), 0);
    let mut pass = |start, packet: &[u8]| {
        packets += 1;
        let view = PacketView::of_file(packet).expect("a whole packet");
        let value = view.event.and_then(|event| number(event, track_event::COUNTER_VALUE));
        values.extend(value.map(|value| (start, value as i64)));
        Ok::<_, ()>(())
    };
    for piece in line.chunks(cut) {
        receiver.push(piece, &mut pass).expect("it passes");
    }
    receiver.release(&mut pass).expect("it passes");
    let report = receiver.finish();
    assert_eq!((report.packets, report.bytes), (packets, line.len() as u64));
    (values, report)
}

/// Frames that are intact, of any kind and content.
fn of_anything(mut input: Input<'_>, cut: usize) {
    let mut line = Vec::new();
    while !input.is_over() {
        let kind = [0x10, 0x14, 0x18, 0x1C, input.byte()][usize::from(input.byte() % 5)];
        let mut frame = vec![kind];
        frame.extend(input.u16().to_le_bytes());
        let len = usize::from(input.byte());
        frame.extend(input.bytes(len));
        if kind == 0x10 && len.is_multiple_of(2) {
            // A header that is right.
            Recorder::new(&TRACE, || 0, 1_000);
            let header = TRACE.words().take(16).flat_map(u32::to_le_bytes);
            frame.splice(3..3.max(frame.len().min(67)), header);
        }
        frame.extend(CRC.checksum(&frame).to_le_bytes());
        line.extend(encode_vec(&frame));
        line.push(0);
    }
    assert_eq!(receive(&line, cut), receive(&line, line.len().max(1)));
}

/// Events of three writers and resets, sent between them, on a line that is damaged.
fn recorded(mut input: Input<'_>, cut: usize) {
    let timer = || TIME.load(Ordering::Relaxed);
    let mut recorder = Recorder::new(&TRACE, timer, 1_000);
    let (mut sender, mut line, mut values, mut starts) = (Sender::new(recorder), Vec::new(), 0, 1);
    let mut writers = [(); 3].map(|()| recorder.writer("w"));
    let mut drain = |sender: &mut Sender<'_, _, _>, flushes: bool| {
        let mut piece = [0; 50];
        if flushes {
            sender.flush();
        }
        while let len @ 1.. = sender.fill(&mut piece) {
            line.extend(&piece[..len]);
        }
    };
    for _ in 0..input.byte() {
        let step = input.byte();
        TIME.fetch_add(u32::from(step >> 4), Ordering::Relaxed);
        match (writers.get(usize::from(step & 3)), step >> 2 & 3) {
            (Some(writer), 0) => writer.instant("i"),
            (Some(writer), _) => {
                writer.count("n", values);
                values += 1;
            }
            (None, 0) => {
                writers.into_iter().for_each(core::mem::forget);
                recorder = Recorder::attach_or_new(&TRACE, timer, 1_000).0;
                writers = [(); 3].map(|()| recorder.writer("w"));
                sender = Sender::new(recorder);
                starts += 1;
                // What is sent at once tells who it is.
                drain(&mut sender, false);
            }
            (None, how) => drain(&mut sender, how == 1),
        }
    }
    drain(&mut sender, true);
    let (whole, report) = receive(&line, cut);
    assert_eq!(report.frames_lost + report.frames_corrupt + report.chunks_damaged, 0, "{report}");
    assert!(report.starts <= starts, "{report}");
    let unique: BTreeSet<_> = whole.iter().map(|(_, value)| *value).collect();
    assert_eq!(unique.len(), whole.len(), "each once");
    if report.chunks_missing == 0 && starts == 1 {
        assert_eq!(unique.len() as i32, values, "{report}");
    }
    while !input.is_over() && !line.is_empty() {
        let at = usize::from(input.u16()) % line.len();
        match input.byte() {
            0 => drop(line.remove(at)),
            1 => line.insert(at, 0),
            2 => drop(line.drain(..at)),
            3 => drop(line.drain(at..(at + usize::from(input.byte()) * 2).min(line.len()))),
            flips => line[at] ^= flips,
        }
    }
    let (left, _) = receive(&line, cut);
    // Where what tells of a restart is lost, what that start sends again of the one before may be in both.
    let once: BTreeSet<_> = left.iter().copied().collect();
    assert_eq!(once.len(), left.len(), "each once in a start");
    assert!(once.iter().all(|(_, value)| (0..i64::from(values)).contains(value)), "{once:?}");
}
