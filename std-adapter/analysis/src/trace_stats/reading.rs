//! Traces that are read a piece at a time: they may be larger than memory.

use std::io::{self, Read};

use tracebuf::proto::{TraceFileFault, TracePackets};

use super::counters::Counters;
use super::{TraceReport, Whose};
use crate::compressed;

/// Bytes read at once, unless a packet takes more.
const PIECE: usize = 1 << 20;

impl TraceReport {
    /// Reads a trace to its end, like [`of`](Self::of) for one in memory. Takes memory for a mebibyte and at most
    /// 65,536 sequences, or a few times the longest packet, or what a damaged size claims. If it does not begin with a
    /// packet, the rest is not read. If reading fails, the report covers what came before, and says so.
    pub fn read(trace: impl Read) -> (Self, io::Result<()>) {
        let (mut report, mut counters) = (Self::default(), Counters::default());
        let result = report.read_all(trace, &mut counters);
        report.is_cut_off = result.is_err();
        report.take_counters(counters);
        (report, result)
    }

    fn read_all(&mut self, mut trace: impl Read, counters: &mut Counters) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            // For a packet longer than a piece, as much again each time.
            let wanted = PIECE.max(bytes.len());
            let mut result = trace.by_ref().take(wanted as u64).read_to_end(&mut bytes);
            let (used, fault) = self.look_through(&bytes, counters, &mut |_, _, _| ());
            bytes.drain(..used);
            let is_malformed = fault.is_some_and(|fault| fault != TraceFileFault::Truncated);
            if !is_malformed && matches!(result, Ok(1..)) {
                continue;
            }
            (self.rest, self.fault) = (bytes.len() as u64, fault);
            while is_malformed && self.packets > 0 && matches!(result, Ok(1..)) {
                bytes.clear();
                result = trace.by_ref().take(PIECE as u64).read_to_end(&mut bytes);
                self.rest += bytes.len() as u64;
            }
            return result.map(drop);
        }
    }

    /// Looks at the whole packets that bytes begin with; returns how many bytes they take and what is wrong after them.
    pub(super) fn look_through(
        &mut self,
        bytes: &[u8],
        counters: &mut Counters,
        each: &mut impl FnMut(u64, u64, Whose),
    ) -> (usize, Option<TraceFileFault>) {
        let (mut packets, before) = (TracePackets::new(bytes), self.bytes);
        let mut fault = None;
        while let Some(packet) = packets.next() {
            match packet {
                Ok(packet) => {
                    let whose = self.look_at_one(packet, counters);
                    let end = before + packets.offset() as u64;
                    each(self.bytes, end - self.bytes, whose);
                    self.bytes = end;
                }
                Err(error) => fault = Some(error.fault),
            }
        }
        (packets.offset(), fault)
    }

    /// Looks at a packet, or in its place at those that it contains.
    fn look_at_one(&mut self, packet: &[u8], counters: &mut Counters) -> Whose {
        let Some(others) = compressed::within(packet) else {
            self.packets += 1;
            return self.look_at(packet, counters);
        };
        let mut last = Whose::Others;
        for packet in TracePackets::new(&others).map_while(Result::ok) {
            self.packets += 1;
            last = self.look_at(packet, counters);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, and then fails or ends.
    struct Slow<'b>(&'b [u8], Option<io::ErrorKind>);

    impl Read for Slow<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let len = bytes.len().min(100_000);
            match (self.0.read(&mut bytes[..len])?, self.1) {
                (0, Some(kind)) => Err(kind.into()),
                (count, _) => Ok(count),
            }
        }
    }

    /// A packet of sequence 2 with a string; sizes take four bytes each.
    fn packet(len: usize) -> Vec<u8> {
        let size =
            |n: usize| [n as u8 | 0x80, (n >> 7) as u8 | 0x80, (n >> 14) as u8 | 0x80, (n >> 21) as u8];
        let string = vec![0; len - 7];
        [&[0x0A][..], &size(len), &[0x50, 2, 0x22], &size(string.len()), &string].concat()
    }

    #[test]
    fn what_is_read_a_piece_at_a_time_says_what_a_trace_in_memory_says() {
        let packets = [100, 3_000_000, 200_000, 100, 1 << 20].map(packet).concat();
        for behind in [&[][..], &[0x0A], &[0x0A, 100, 1], &[0; 3_000_000]] {
            let trace = [&packets[..], behind].concat();
            let (report, result) = TraceReport::read(Slow(&trace, None));
            assert!(result.is_ok());
            let of = TraceReport::of(&trace);
            assert_eq!(
                (report.packets, report.bytes, report.rest),
                (5, packets.len() as u64, behind.len() as u64)
            );
            assert_eq!((report.to_string(), report.sequences), (of.to_string(), of.sequences));
        }
    }

    #[test]
    fn what_came_before_an_error_is_told_and_what_is_no_trace_is_not_read_on() {
        let trace = packet(2_000_000);
        let failing = Slow(&trace, Some(io::ErrorKind::InvalidData));
        let (report, result) = TraceReport::read(failing);
        assert_eq!(
            (report.packets, result.map_err(|error| error.kind())),
            (1, Err(io::ErrorKind::InvalidData))
        );
        // Damage, after which reading fails.
        let trace = [trace, vec![0; 3_000_000]].concat();
        let (report, result) = TraceReport::read(Slow(&trace, Some(io::ErrorKind::InvalidData)));
        assert!(result.is_err() && (report.packets, report.rest) == (1, 3_000_000), "{report:?}");
        let mut zeros = io::repeat(0).take(1 << 40);
        let (report, result) = TraceReport::read(&mut zeros);
        assert!(result.is_ok() && report.packets == 0 && report.rest == PIECE as u64);
    }

    #[test]
    fn what_is_damaged_is_told_from_what_is_cut_short_and_from_what_cannot_be_read() {
        let packets = packet(100);
        let behind = |rest: &[u8], error| {
            let trace = [&packets[..], rest].concat();
            TraceReport::read(Slow(&trace, error)).0.to_string()
        };
        let damaged =
            "damaged at byte 105: from there on nothing was looked at, 106 bytes\nno statistics before that";
        assert!(behind(&[&[0], &packets[..]].concat(), None).ends_with(damaged));
        let cut = "\nno whole packet in the last 99 bytes: writing was cut short there, or the size at byte 105 is \
                   damaged\nno statistics: ";
        assert!(behind(&packets[..99], None).contains(cut));
        let unread =
            "\nit could not be read to its end: what follows is not known\nno statistics before that";
        let statistics = [0x0A, 7, 0x50, 1, 0x9A, 0x02, 2, 0x0A, 0];
        for (rest, ends) in [
            (&[][..], unread),
            (&packets[..99], unread),
            (&statistics, "what follows is not known\nwhat else was read is whole"),
        ] {
            let said = behind(rest, Some(io::ErrorKind::InvalidData));
            assert!(said.ends_with(ends) && !said.contains("cut short"), "{said}");
        }
    }
}
