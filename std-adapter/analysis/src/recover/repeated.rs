//! Packets that a trace has already, so that none comes twice.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use tracebuf::proto::fields::trace_packet::PREVIOUS_PACKET_DROPPED;
use tracebuf::proto::reader::Fields;
use tracebuf::proto::{MAX_LENGTH, PacketView, WireType, fields, tag, varint};

/// Packets of a trace, each as often as it is there: some 16 bytes for each.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    counts: HashMap<u64, u32>,
    /// Of this process alone, so that nobody can make a packet that counts as another.
    hashes: RandomState,
    /// Whether the last of them has statistics.
    pub(super) ends_with_statistics: bool,
}

impl Repeated {
    /// The packets of at most `longest` bytes between two places of a trace at which packets begin or end.
    pub(super) fn of(trace: &mut File, from: u64, to: u64, longest: u64) -> io::Result<Self> {
        let mut this = Self::default();
        walk(trace, from, to, longest, |packet| {
            if !packet.is_empty() {
                *this.counts.entry(this.hash(packet)).or_default() += 1;
            }
            this.ends_with_statistics = PacketView::of(packet).statistics.is_some();
        })?;
        Ok(this)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Whether the trace has this packet once more than it was asked for.
    pub(super) fn has(&mut self, packet: &[u8]) -> bool {
        let hash = self.hash(packet);
        let count = self.counts.get_mut(&hash).filter(|count| **count > 0);
        count.map(|count| *count -= 1).is_some()
    }

    /// Whatever it says of losses before it: that differs with what was there before it.
    fn hash(&self, packet: &[u8]) -> u64 {
        let fields = Fields::of(packet).filter(|field| field.number != PREVIOUS_PACKET_DROPPED);
        self.hashes.hash_one(fields.map(|field| field.whole).collect::<Vec<_>>())
    }
}

/// Walks over the whole packets of a trace from one place on, up to another at most; returns where they end. `each` gets
/// those of at most `longest` bytes, and nothing for others: the trace may be larger than memory.
pub(super) fn walk(
    trace: &mut File,
    from: u64,
    to: u64,
    longest: u64,
    mut each: impl FnMut(&[u8]),
) -> io::Result<u64> {
    let mut at = from;
    trace.seek(SeekFrom::Start(at))?;
    let mut file = BufReader::new(trace);
    let (mut head, mut packet) = (Vec::with_capacity(2 * varint::MAX_LEN), Vec::new());
    loop {
        head.clear();
        let most = to.saturating_sub(at).min(2 * varint::MAX_LEN as u64);
        file.by_ref().take(most).read_to_end(&mut head)?;
        let place = place_of_packet(&head).filter(|(begin, len)| begin + len <= to - at);
        let Some((begin, len)) = place else { return Ok(at) };
        file.seek_relative(begin as i64 - head.len() as i64)?;
        packet.clear();
        if len > longest {
            file.seek_relative(len as i64)?;
        } else if file.by_ref().take(len).read_to_end(&mut packet)? as u64 != len {
            return Ok(at);
        }
        each(&packet);
        at += begin + len;
    }
}

/// Where the content of the packet that begins like this begins, and its bytes.
fn place_of_packet(head: &[u8]) -> Option<(u64, u64)> {
    let (found, rest) = varint::split(head)?;
    let (length, rest) = varint::split(rest)?;
    let is_packet = found == u64::from(tag(fields::trace::PACKET, WireType::Length));
    let length = Some(length).filter(|length| is_packet && *length <= u64::from(MAX_LENGTH))?;
    Some(((head.len() - rest.len()) as u64, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_is_there_as_often_as_the_trace_has_it_whatever_it_says_of_losses() {
        let path = std::env::temp_dir().join(format!("tracebuf-repeated-{}", std::process::id()));
        let long = [&[0x22, 0xA0, 0x1F][..], &[7; 4000]].concat();
        let lost = [0x40, 5, 0xD0, 2, 1];
        let statistics = [0x9A, 2, 0];
        let packets: [&[u8]; 6] = [&[0x40, 9], &long, &[0x40, 5], &lost, &[], &statistics];
        let in_file = |packet: &&[u8]| match packet.len() {
            len @ 0..=127 => [&[0x0A, len as u8][..], packet].concat(),
            len => [&[0x0A, len as u8 | 0x80, (len >> 7) as u8][..], packet].concat(),
        };
        let trace: Vec<u8> = packets.iter().flat_map(in_file).collect();
        // A packet that is cut is none.
        for behind in [&[][..], &[0x0A, 9, 1], &[0x12, 0]] {
            std::fs::write(&path, [&trace[..], behind].concat()).expect("a file");
            let mut file = File::open(&path).expect("a file");
            let to = file.metadata().expect("a file").len();
            let mut there = Repeated::of(&mut file, 4, to, long.len() as u64).expect("a trace");
            assert!(there.ends_with_statistics);
            assert!(!there.has(&[0x40, 9]), "it lies before");
            let twice = [&lost[..], &[0x40, 5], &[0x40, 5]].map(|packet| there.has(packet));
            assert_eq!(twice, [true, true, false]);
            assert_eq!([&long[..], &long, &[1]].map(|packet| there.has(packet)), [true, false, false]);
            // What nothing there can be as long as is passed over.
            let mut short = Repeated::of(&mut file, 4, to, long.len() as u64 - 1).expect("a trace");
            assert_eq!([&long[..], &lost].map(|packet| short.has(packet)), [false, true]);
        }
        assert!(!Repeated::of(&mut File::open(&path).expect("a file"), 4, 4, 9).expect("none").has(&lost));
        std::fs::remove_file(path).expect("it is there");
    }
}
