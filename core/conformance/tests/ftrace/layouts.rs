//! The same recordings as kernels with pages of other layouts have them: of 32 bits, and of 16 and 64 KiB.

use std::io;

use tracebuf_conformance::ftrace::Fixture;
use tracebuf_machine::ftrace::{ClockPair, FtraceReader, TraceFs};

use crate::fixtures;

/// A layout: bytes of the word `commit`, and of data.
const LAYOUTS: [(usize, usize); 4] = [(8, 4080), (4, 4084), (8, 16_368), (8, 65_520)];
/// A page of the recordings.
const PAGE: usize = 4096;
/// Where its data begins.
const DATA: usize = 16;

/// A recording in pages of another layout.
struct Other<'f> {
    of: &'f mut Fixture,
    layout: (usize, usize),
}

impl TraceFs for Other<'_> {
    fn read(&mut self, path: &str) -> io::Result<String> {
        if path != "events/header_page" {
            return self.of.read(path);
        }
        let (word, room) = self.layout;
        Ok(format!(
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield: local_t commit;\toffset:8;\tsize:{word};\tsigned:1;\n\
             \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
             \tfield: char data;\toffset:{};\tsize:{room};\tsigned:0;\n",
            8 + word
        ))
    }

    fn cpus(&mut self) -> io::Result<Vec<u32>> {
        self.of.cpus()
    }

    fn read_page(&mut self, cpu: u32, page: &mut [u8]) -> io::Result<usize> {
        let mut recorded = [0; PAGE];
        assert_eq!(self.of.read_page(cpu, &mut recorded)?, PAGE);
        let (word, room) = self.layout;
        let (head, data) = recorded.split_at(DATA);
        page.fill(0);
        // The timestamp, as much of the word as there is, and the data, with the number of lost events after it.
        page[..8 + word].copy_from_slice(&head[..8 + word]);
        page[8 + word..][..data.len().min(room)].copy_from_slice(data);
        Ok(page.len())
    }

    fn clocks(&mut self) -> io::Result<ClockPair> {
        self.of.clocks()
    }
}

#[test]
fn a_recording_has_the_same_packets_whatever_the_layout_of_pages() {
    for (name, mut fixture) in fixtures() {
        let events = fixture.events().to_vec();
        for compact in [true, false] {
            let told = LAYOUTS.map(|layout| {
                let mut all = Vec::new();
                let names = events.iter().map(String::as_str);
                fixture.begin_round(0);
                let mut kernel = Other { of: &mut fixture, layout };
                let mut reader = FtraceReader::new(&mut kernel, names, compact).expect("a known layout");
                assert_eq!(reader.layout().page_len(), 8 + layout.0 + layout.1);
                for round in 0..kernel.of.rounds() {
                    kernel.of.begin_round(round);
                    let mut keep = |packet: &[u8]| all.push(packet.to_vec());
                    reader.read_pass(&mut kernel, usize::MAX, &mut keep).expect("processors");
                }
                (reader.events(), all)
            });
            let [usual, others @ ..] = &told;
            for (layout, other) in LAYOUTS[1..].iter().zip(others) {
                assert_eq!(usual.0, other.0, "{name} {layout:?}");
                assert!(usual.1 == other.1, "{name} {layout:?}");
            }
            assert!(usual.0 > 0 || name.starts_with("idle"), "{name}");
        }
    }
}
