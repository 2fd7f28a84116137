//! `inplace`: dumps of firmware that recorded in place, with anything in them; a recorder that is interrupted; and lines
//! over which it sends.

mod line;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use tracebuf::inplace::{Record, Recorder, Region, RegionView};
use tracebuf::proto::TracePackets;
use tracebuf_analysis::recover::InPlace;

use crate::input::Input;

type Trace = Region<16, 32, 8, 32>;
static TRACE: Trace = Region::zeroed();
static TIME: AtomicU32 = AtomicU32::new(0);
/// Of the region: seeds may be run by several threads.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs one input.
pub fn run(data: &[u8]) {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut input = Input::new(data);
    match input.byte() % 4 {
        0 | 2 => damaged(input),
        1 => recorded(input),
        _ => line::run(input),
    }
}

fn dump() -> Vec<u8> {
    TRACE.words().flat_map(u32::to_le_bytes).collect()
}

/// A header that is right, and any bytes behind it.
fn damaged(input: Input<'_>) {
    Recorder::new(&TRACE, || 0, 1_000);
    let mut dump = dump();
    let rest = input.rest();
    dump.iter_mut().skip(64).zip(rest).for_each(|(byte, new)| *byte = *new);
    if let Some(view) = RegionView::find(&dump) {
        check(&view);
    }
    if let Some(view) = RegionView::find(rest) {
        check(&view);
    }
}

/// Whatever is in a region, its trace is whole packets, and not much more than it.
fn check(view: &RegionView<'_>) {
    let found = InPlace::of(view);
    let packets = TracePackets::new(found.trace()).inspect(|packet| assert!(packet.is_ok())).count() as u64;
    assert_eq!(packets, found.packets);
    assert!(found.events <= packets);
}

/// Events of several writers, resets among them: what is found was recorded, in order, and the newest is there.
fn recorded(mut input: Input<'_>) {
    let timer = || TIME.load(Ordering::Relaxed);
    let mut recorder = Recorder::new(&TRACE, timer, 1_000);
    let mut writers = [(); 3].map(|()| (recorder.writer("w"), 0));
    let mut start = 1;
    while !input.is_over() {
        let step = input.byte();
        TIME.fetch_add(u32::from(input.byte()) << (step >> 4 & 15), Ordering::Relaxed);
        recorder.keep_time();
        let Some((writer, count)) = writers.get_mut(usize::from(step & 3)) else {
            writers.into_iter().for_each(core::mem::forget);
            recorder = Recorder::attach_or_new(&TRACE, timer, 1_000).0;
            writers = [(); 3].map(|()| (recorder.writer("w"), 0));
            start = (start + 1) & 31;
            continue;
        };
        writer.count("n", *count);
        *count += 1;
        let newest = *count - 1;
        let dump = dump();
        let view = RegionView::find(&dump).expect("the region");
        let mut values = Vec::new();
        for chunk in
            view.chunks().filter(|chunk| chunk.start() == start && chunk.writer() == u32::from(step & 3))
        {
            for record in chunk.records() {
                match record.expect("whole") {
                    (_, Record::Count { value, .. }) => values.push((chunk.number(), value)),
                    other => panic!("{other:?}"),
                }
            }
        }
        values.sort_unstable();
        assert_eq!(values.last().map(|(_, value)| *value), Some(i64::from(newest)));
        assert!(values.is_sorted_by_key(|(_, value)| *value), "{values:?}");
    }
    check(&RegionView::find(&dump()).expect("the region"));
}
