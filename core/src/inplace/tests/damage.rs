//! Dumps that something has overwritten.

use proptest::prelude::*;
use std::vec::Vec;

use super::super::{Recorder, Region, RegionView};
use super::{dump, told};

/// Decodes all there is; returns how much that was.
fn decode(dump: &[u8]) -> usize {
    let Some(view) = RegionView::find(dump) else { return 0 };
    let records = view.chunks().flat_map(|chunk| chunk.records());
    records.filter_map(|record| record.ok().map(|(_, record)| told(&view, record).len())).sum::<usize>() + 1
}

fn recorded() -> Vec<u8> {
    static TRACE: Region<16, 64, 16, 32> = Region::zeroed();
    let recorder = Recorder::new(&TRACE, || 0, 1_000);
    let writer = recorder.writer("w");
    for value in 0..300 {
        writer.instant_with("x", |details| {
            details.arg("n", value).arg_text("t", "text").flow(3);
        });
    }
    dump(&TRACE)
}

proptest! {
    #[test]
    fn damaged_dumps_are_decoded_as_far_as_they_go(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..60),
        len in any::<prop::sample::Index>(),
    ) {
        let mut dump = recorded();
        prop_assert!(decode(&dump) > 1);
        for (at, byte) in changes {
            *at.get_mut(&mut dump) = byte;
        }
        decode(&dump);
        // The header is what it was, so that the rest is looked at.
        let whole = recorded();
        dump[..64].copy_from_slice(&whole[..64]);
        prop_assert!(decode(&dump) > 0);
        decode(&dump[..len.index(dump.len())]);
    }
}
