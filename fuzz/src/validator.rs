//! `validator`: the verdict on a packet is the same however it is cut, and agrees with a plain parser's.
//!
//! The first two bytes choose the cuts; the rest is the packet.

use crate::input::Input;
use tracebuf::proto::{
    Fault, InvalidPacket, MAX_LENGTH, PacketValidator, SequenceId, TraceFileWriter, TracePackets,
    TrustedFields, ValidPacket, is_service_only,
};

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut cuts = u32::from(input.u16());
    let packet = input.rest();
    let verdict = PacketValidator::check([packet]);
    assert_eq!(verdict, expected(packet));

    let mut pieces = Vec::new();
    let mut rest = packet;
    while !rest.is_empty() {
        // Pieces of 0 to 15 bytes, chosen by a random number generator.
        cuts = cuts.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (piece, after) = rest.split_at((cuts >> 28) as usize % (rest.len() + 1));
        pieces.push(piece);
        rest = after;
    }
    assert_eq!(PacketValidator::check(pieces.iter().copied()), verdict, "cut into {pieces:?}");
    assert_eq!(PacketValidator::check(packet.chunks(1)), verdict, "cut into bytes");

    let mut validator = PacketValidator::new();
    for piece in &pieces {
        let so_far = validator.push(piece);
        assert!(so_far.is_ok() || so_far.err() == verdict.err(), "a fault is final");
    }
    assert_eq!(validator.finish(), verdict);

    if let Ok(valid) = verdict {
        assert_eq!(valid.len, packet.len());
        framed(&pieces, packet, &valid);
    }
    // Whatever it is when read as a file: the reader ends, and gives no more than is there.
    let total: usize = TracePackets::new(packet).map_while(Result::ok).map(<[u8]>::len).sum();
    assert!(total <= packet.len());
}

/// A valid packet comes out of a file as it went in, plus what was appended.
fn framed(pieces: &[&[u8]], packet: &[u8], valid: &ValidPacket) {
    let trusted = TrustedFields {
        pid: Some(-1),
        previous_packet_dropped: valid.previous_packet_dropped,
        ..TrustedFields::new(7, SequenceId::FIRST_WRITER)
    };
    let mut file = vec![0; packet.len() + 64];
    let mut writer = TraceFileWriter::new(&mut file[..]);
    let written = writer.packet(pieces.iter().copied(), &trusted).expect("room enough");
    let mut packets = TracePackets::new(&file[..written]);
    let out = packets.next().expect("a packet").expect("a whole one");
    assert_eq!(out, [packet, trusted.suffix().as_bytes()].concat());
    assert!(packets.next().is_none());
}

/// The verdict of a parser that has all bytes at hand.
fn expected(packet: &[u8]) -> Result<ValidPacket, InvalidPacket> {
    let mut at = 0;
    let mut valid = ValidPacket { len: packet.len(), previous_packet_dropped: 0 };
    while at < packet.len() {
        let fault = |fault| InvalidPacket { fault, offset: at };
        let (tag, after) = varint(packet, at, 5, Fault::TagTooLarge).map_err(fault)?;
        if tag > u64::from(u32::MAX) {
            return Err(fault(Fault::TagTooLarge));
        }
        let number = (tag >> 3) as u32;
        let kind = (tag & 7) as u8;
        if number == 0 {
            return Err(fault(Fault::FieldNumberZero));
        }
        if !matches!(kind, 0 | 1 | 2 | 5) {
            return Err(fault(Fault::WireType(kind)));
        }
        if is_service_only(number) {
            return Err(fault(Fault::ServiceOnlyField(number)));
        }
        let end = match kind {
            0 => {
                let (value, end) = varint(packet, after, 10, Fault::VarintTooLong).map_err(fault)?;
                if number == tracebuf::proto::fields::trace_packet::PREVIOUS_PACKET_DROPPED {
                    valid.previous_packet_dropped = value as u32;
                }
                end
            }
            1 => after + 8,
            5 => after + 4,
            _ => {
                let (len, end) = varint(packet, after, 5, Fault::LengthTooLarge).map_err(fault)?;
                if len > u64::from(MAX_LENGTH) {
                    return Err(fault(Fault::LengthTooLarge));
                }
                end + len as usize
            }
        };
        if end > packet.len() {
            return Err(fault(Fault::Truncated));
        }
        at = end;
    }
    Ok(valid)
}

/// A varint of at most so many bytes, and where it ends.
fn varint(bytes: &[u8], at: usize, most: usize, too_long: Fault) -> Result<(u64, usize), Fault> {
    let mut value = 0u64;
    for i in 0..most {
        let byte = *bytes.get(at + i).ok_or(Fault::Truncated)?;
        value |= u64::from(byte & 0x7F) << (7 * i);
        if i == 9 && byte > 1 {
            // The tenth byte has the 64th bit.
            return Err(too_long);
        }
        if byte < 0x80 {
            return Ok((value, at + i + 1));
        }
    }
    Err(too_long)
}
