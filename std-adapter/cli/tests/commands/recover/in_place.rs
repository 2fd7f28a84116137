//! Dumps of firmware that recorded in place.

use tracebuf::inplace::{Recorder, Region};
use tracebuf_analysis::Trace;

use super::recover;

#[test]
fn what_firmware_recorded_in_place_is_a_trace_and_what_is_missing_is_said() {
    static TRACE: Region<16, 8, 4, 32> = Region::zeroed();
    let recorder = Recorder::new(&TRACE, || 5, 1_000_000);
    let writer = recorder.writer("main loop");
    for value in 0..100 {
        writer.count("temperature", value);
    }
    writer.instant("a name for which there is no room");
    let memory: Vec<u8> = [7u8; 24].into_iter().chain(TRACE.words().flat_map(u32::to_le_bytes)).collect();
    let (is_whole, said, trace) = recover("in_place", &memory, &[]);
    assert!(is_whole, "{said}");
    for told in [
        "recorded in place at 0x18: ",
        "of 1 start",
        "the timer stood still",
        "chunks overwritten by newer ones",
        "1 event without a name, or of a track without one",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
    let trace = Trace::of(&trace).expect("a trace");
    assert_eq!(trace.counter("temperature").expect("it").values().next_back(), Some(99.0));

    let (is_whole, said, trace) =
        recover("in_place_cut", &memory[..memory.len() - 200], &["--address", "24"]);
    assert!(!is_whole && said.contains("recorded in place at 0x18: "), "{said}");
    assert!(Trace::of(&trace).is_ok());
}

#[test]
fn of_several_regions_the_first_is_taken_and_the_others_are_told() {
    static FIRST: Region<16, 8, 4, 32> = Region::zeroed();
    static SECOND: Region<16, 8, 4, 32> = Region::zeroed();
    for (region, name) in [(&FIRST, "first"), (&SECOND, "second")] {
        Recorder::new(region, || 5, 1_000_000).writer("w").instant(name);
    }
    let bytes =
        |region: &Region<16, 8, 4, 32>| region.words().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    let mut memory = [vec![7; 24], bytes(&FIRST), vec![9; 64], bytes(&SECOND)].concat();
    let second = format!("{:#x}", memory.len() - bytes(&SECOND).len());
    let (is_whole, said, trace) = recover("in_place_two", &memory, &[]);
    assert!(is_whole && said.contains(&format!("other buffers at {second}: --address")), "{said}");
    let names = |trace: &[u8]| {
        let trace = Trace::of(trace).expect("a trace");
        trace.instants().map(|event| event.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&trace), ["first"]);
    let (is_whole, said, trace) = recover("in_place_two", &memory, &["--address", &second]);
    assert!(is_whole && !said.contains("other buffers"), "{said}");
    assert_eq!(names(&trace), ["second"]);
    // The first word of the first is gone, and the second is not in the dump.
    memory[24..28].fill(0);
    let first = &memory[..24 + bytes(&FIRST).len()];
    let (is_whole, said, trace) = recover("in_place_damaged", first, &[]);
    assert!(!is_whole && said.contains("its header is damaged"), "{said}");
    assert_eq!(names(&trace), ["first"]);
}
