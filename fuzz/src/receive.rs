//! `receive`: a line of frames, in any pieces and with any damage.
//!
//! What the receiver makes of a line must not depend on how its bytes come; and of packets that were framed and
//! then damaged, only whole ones come out, each once.

use crate::input::Input;
use cobs::encode_vec;
use crc::{CRC_32_ISO_HDLC, Crc};
use tracebuf_std::receive::{ReceiveReport, Receiver};

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
        // All of it came in frames, and a mark of what was lost.
        let bytes: usize = whole.iter().map(Vec::len).sum();
        assert!(bytes <= line.len() + 16 * whole.len(), "{bytes} of {}", line.len());
    } else {
        damaged(&mut input, cut);
    }
}

fn receive(line: &[u8], cut: usize) -> (Vec<Vec<u8>>, ReceiveReport) {
    let mut receiver = Receiver::new();
    let mut packets = Vec::new();
    for piece in line.chunks(cut) {
        let passed = receiver.push(piece, |packet| -> Result<(), ()> {
            packets.push(packet.to_vec());
            Ok(())
        });
        assert_eq!(passed, Ok(()));
    }
    let report = receiver.finish();
    assert_eq!(report.packets, packets.len() as u64);
    (packets, report)
}

/// One packet of a trace file: its number as the timestamp, a sequence, and bytes to tell it by.
fn packet(number: u8, size: usize) -> Vec<u8> {
    let mut content = vec![0x40, number & 0x7F, 0x50, 2, 0xA2, 0x38];
    content.extend([(size & 0x7F) as u8 | 0x80, (size >> 7) as u8]);
    content.extend(std::iter::repeat_n(number | 0x80, size));
    let mut packet = vec![0x0A, (content.len() & 0x7F) as u8 | 0x80, (content.len() >> 7) as u8];
    packet.extend(content);
    packet
}

/// Frames packets, damages the line, and looks for packets that were never sent.
fn damaged(input: &mut Input<'_>, cut: usize) {
    let count = input.byte() % 20;
    let (mut line, mut number) = (Vec::new(), u16::from(input.byte()) << 8 | 0xFC);
    for n in 0..count {
        let packet = packet(n, usize::from(input.byte()) * 2);
        let (last, mut others) = (packet.chunks(64).len() - 1, 0);
        for (i, piece) in packet.chunks(64).enumerate() {
            let flags = u8::from(i == 0) | u8::from(i == last) << 1;
            let mut frame = vec![flags];
            frame.extend(number.to_le_bytes());
            frame.extend(piece);
            if flags == 2 {
                frame.extend(u32::to_le_bytes(others));
            }
            let check = CRC.checksum(&frame);
            others ^= check;
            frame.extend(check.to_le_bytes());
            line.extend(encode_vec(&frame));
            line.push(0);
            number = number.wrapping_add(1);
        }
    }
    let clean = receive(&line, cut);
    assert_eq!(clean.0.len(), usize::from(count), "{:?}", clean.1);
    assert_eq!(clean.1.frames_lost + clean.1.frames_corrupt + clean.1.packets_incomplete, 0);
    while !input.is_over() && !line.is_empty() {
        let at = usize::from(input.u16()) % line.len();
        match input.byte() {
            0 => drop(line.remove(at)),
            1 => line.insert(at, 0),
            2 => line.truncate(at),
            flips => line[at] ^= flips,
        }
    }
    let (packets, _) = receive(&line, cut);
    let mut next = 0;
    for packet in &packets {
        // Past the head the packet is as it was sent; what was lost is said behind it or in it.
        let is_it =
            |n: &u8| clean.0[usize::from(*n)].windows(8).next().is_some() && same(packet, *n, &clean.0);
        let Some(n) = (next..count).find(is_it) else { panic!("{packet:?} was never sent, or before") };
        next = n + 1;
    }
}

/// Whether a packet is the one of this number, but for what is said of losses.
fn same(packet: &[u8], number: u8, sent: &[Vec<u8>]) -> bool {
    let body = |packet: &[u8]| {
        let start = packet.windows(2).position(|two| two == [0xA2, 0x38])?;
        let size = usize::from(packet.get(start + 2)? & 0x7F) | usize::from(*packet.get(start + 3)?) << 7;
        Some(packet.get(start..start + 4 + size)?.to_vec())
    };
    let stamp = |packet: &[u8]| packet.windows(2).any(|two| two == [0x40, number & 0x7F]);
    stamp(packet) && body(packet).is_some() && body(packet) == body(&sent[usize::from(number)])
}
