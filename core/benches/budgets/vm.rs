//! A counter's patch: its last packet is kept, by its track.

use crate::sheet::{Sheet, median, seconds};
use std::hint::black_box;
use tracebuf::vm::{Keep, Program, StackFrame, Step, Vm, VmStatus};

/// Nanoseconds for a packet of one of so many counters, all of which are there.
fn patch_ns(counters: u32) -> f64 {
    let (mut bytes, mut steps, mut frames) = ([0; 512], [Step::default(); 64], [StackFrame::default(); 16]);
    let bytes = Program::keep_last_by(&Keep::DESCRIPTIONS, &mut bytes).expect("room");
    let program = Program::new(bytes, &mut steps).expect("steps enough");
    let mut memory = vec![0; 1 << 20];
    let mut vm = Vm::new(&mut memory, program, &mut frames).expect("memory enough");
    // Times of six bytes, tracks of five, values of two: 21 bytes.
    let packet = |counter: u32| {
        let [a, b, c] = [counter & 0x7F, counter >> 7 & 0x7F, counter >> 14].map(|bits| bits as u8);
        let time = [0x40, 0x80, 0x80, 0x80, 0x80, 0x80, 1];
        let track = [0x58, a | 0x80, b | 0x80, c | 0x80, 0x80, 1];
        [&time[..], &[0x5A, 12, 0x48, 4, 0xF0, 1, 0x80, 1], &track].concat()
    };
    let packets: Vec<_> = (0..counters).map(|n| packet(n.wrapping_mul(7919) % counters)).collect();
    packets.iter().for_each(|packet| assert_eq!(vm.apply(packet), VmStatus::Ok));
    let mut next = packets.iter().cycle();
    let times = (0..101).map(|_| {
        let (time, _) =
            seconds(|| next.by_ref().take(200).all(|packet| vm.apply(black_box(packet)) == VmStatus::Ok));
        time * 1e9 / 200.0
    });
    median(times.collect())
}

pub(crate) fn patches(sheet: &mut Sheet) {
    for counters in [10, 10_000] {
        sheet.timed_at_most(&format!("vm-patch-{counters}"), patch_ns(counters), 1000.0, "ns");
    }
}
