//! Events that found no place: who lost how many, said once.

use std::vec::Vec;

use super::super::{Recorder, Region, RegionView, Writer};
use super::{by_writer, dump};

/// Details are part of an event, and a chunk that was never claimed has no number.
#[test]
fn each_writer_says_once_how_many_it_has_lost_itself_in_its_first_chunk() {
    static TRACE: Region<16, 64, 8, 32> = Region::zeroed();
    let recorder = Recorder::new(&TRACE, || 0, 1_000);
    let mut holders: Vec<Writer<'_, _, _>> = (0..8).map(|_| recorder.writer("h")).collect();
    holders.iter().for_each(|holder| holder.end());
    let writers = [(recorder.writer("one"), 3), (recorder.writer("two"), 70_000)];
    for (writer, times) in &writers {
        (1..*times).for_each(|_| writer.end());
        writer.instant_with("x", |details| {
            details.arg("n", 1);
        });
    }
    holders.truncate(2);
    for (writer, _) in &writers {
        (0..20).for_each(|value| writer.count("n", value));
    }
    let dump = dump(&TRACE);
    let view = RegionView::find(&dump).expect("a region");
    for (number, said) in [(8, "lost 3"), (9, "lost 65535")] {
        let chunks = view.chunks().filter(|chunk| chunk.writer() == number);
        let mut numbers: Vec<_> = chunks.map(|chunk| chunk.number()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [0, 1]);
        let all = by_writer(&dump);
        let told: Vec<_> = all[&(1, number)].iter().map(|(_, told)| told.clone()).collect();
        let expected = core::iter::once(said.into()).chain((0..20).map(|value| std::format!("n {value}")));
        assert_eq!(told, expected.collect::<Vec<_>>());
    }
    assert_eq!(recorder.dropped(), 70_003);
}
