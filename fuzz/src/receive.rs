//! `receive`: a line of frames, in any pieces and with any damage.
//!
//! The receiver's result must not depend on how a line's bytes come; and of packets that were framed and then damaged,
//! only whole ones come out, each once.

use crate::input::Input;
use cobs::encode_vec;
use crc::{CRC_32_ISO_HDLC, Crc};
use tracebuf_analysis::receive::{ReceiveReport, Receiver};

const CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let cut = usize::from(input.byte()).max(1);
    if input.byte().is_multiple_of(2) {
        let line = input.rest();
        let (whole, report) = receive(line, line.len().max(1));
        let (pieces, same) = receive(line, cut);
        assert_eq!((&whole, report), (&pieces, same));
        // All of it came in frames, plus a mark for losses.
        let bytes: usize = whole.iter().map(|(_, packet)| packet.len()).sum();
        assert!(bytes <= line.len() + 16 * whole.len(), "{bytes} of {}", line.len());
    } else {
        damaged(&mut input, cut);
    }
}

/// The packets, each behind the number of its start.
fn receive(line: &[u8], cut: usize) -> (Vec<(u64, Vec<u8>)>, ReceiveReport) {
    let mut receiver = Receiver::new();
    let mut packets = Vec::new();
    for piece in line.chunks(cut) {
        let passed = receiver.push(piece, |start, packet| -> Result<(), ()> {
            packets.push((start, packet.to_vec()));
            Ok(())
        });
        assert_eq!(passed, Ok(()));
    }
    let report = receiver.finish();
    assert_eq!(report.packets, packets.len() as u64);
    assert_eq!(report.starts, packets.iter().map(|(start, _)| *start).max().unwrap_or(0));
    assert!(report.starts <= report.restarts + 1);
    (packets, report)
}

/// One packet of a trace file: its number as the timestamp, a sequence, and bytes to recognise it by.
fn packet(number: u8, size: usize) -> Vec<u8> {
    let mut content = vec![0x40, number & 0x7F, 0x50, 2, 0xA2, 0x38];
    content.extend([(size & 0x7F) as u8 | 0x80, (size >> 7) as u8]);
    content.extend(std::iter::repeat_n(number | 0x80, size));
    let mut packet = vec![0x0A, (content.len() & 0x7F) as u8 | 0x80, (content.len() >> 7) as u8];
    packet.extend(content);
    packet
}

/// What a device puts on a line.
struct Device {
    line: Vec<u8>,
    /// The next frame's number.
    number: u16,
    restarts: u32,
    /// Which packets were sent whole.
    whole: Vec<u8>,
}

impl Device {
    /// Sends so many frames of a packet, and is reset if these are not all.
    fn send(&mut self, n: u8, size: usize, frames: usize) {
        let (packet, mut others) = (packet(n, size), 0);
        let count = packet.chunks(64).len();
        for (i, piece) in packet.chunks(64).enumerate().take(frames) {
            let flags = u8::from(i == 0) | u8::from(i + 1 == count) << 1;
            let mut frame = vec![flags];
            frame.extend(self.number.to_le_bytes());
            frame.extend(piece);
            if flags == 2 {
                frame.extend(u32::to_le_bytes(others));
            }
            let check = CRC.checksum(&frame);
            others ^= check;
            frame.extend(check.to_le_bytes());
            self.line.extend(encode_vec(&frame));
            self.line.push(0);
            self.number = self.number.wrapping_add(1);
        }
        if frames < count {
            self.line.push(0);
            self.number = 1;
            self.restarts += 1;
        } else {
            self.whole.push(n);
        }
    }
}

/// Frames packets, damages the line, and looks for packets that were never sent.
fn damaged(input: &mut Input<'_>, cut: usize) {
    let count = input.byte() % 20;
    let number = u16::from(input.byte()) << 8 | 0xFC;
    let mut device = Device { line: Vec::new(), number, restarts: 0, whole: Vec::new() };
    for n in 0..count {
        let (size, frames) = (usize::from(input.byte()) * 2, usize::from(input.byte()));
        device.send(n, size, if frames < 3 { frames } else { usize::MAX });
    }
    let Device { mut line, restarts, whole, .. } = device;
    let clean = receive(&line, cut);
    assert_eq!(clean.0.len(), whole.len(), "{:?}", clean.1);
    if restarts == 0 {
        assert_eq!(clean.1.frames_lost + clean.1.frames_corrupt + clean.1.packets_incomplete, 0);
    }
    while !input.is_over() && !line.is_empty() {
        let at = usize::from(input.u16()) % line.len();
        match input.byte() {
            0 => drop(line.remove(at)),
            1 => line.insert(at, 0),
            2 => line.truncate(at),
            // All of a frame, or several.
            3 => drop(line.drain(at..(at + usize::from(input.byte()) * 2).min(line.len()))),
            flips => line[at] ^= flips,
        }
    }
    let (packets, _) = receive(&line, cut);
    let mut sent = whole.iter().zip(&clean.0);
    for (_, packet) in &packets {
        // After the head the packet is as it was sent; losses are reported after it or in it.
        let found = sent.any(|(n, (_, sent))| same(packet, *n, sent));
        assert!(found, "{packet:?} was never sent, or before");
    }
}

/// Whether a packet is the one with this number, as it was sent, except for what it says of losses.
fn same(packet: &[u8], number: u8, sent: &[u8]) -> bool {
    let body = |packet: &[u8]| {
        let start = packet.windows(2).position(|two| two == [0xA2, 0x38])?;
        let size = usize::from(packet.get(start + 2)? & 0x7F) | usize::from(*packet.get(start + 3)?) << 7;
        Some(packet.get(start..start + 4 + size)?.to_vec())
    };
    let stamp = |packet: &[u8]| packet.windows(2).any(|two| two == [0x40, number & 0x7F]);
    stamp(packet) && body(packet).is_some() && body(packet) == body(sent)
}
