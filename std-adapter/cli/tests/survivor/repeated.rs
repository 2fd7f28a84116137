//! Traces to which what a session left was appended before, and others that have some of it.

use std::fs;

use tracebuf_session::{BufferConfig, Session};

use super::appended::{Left, VALUES, boundary, recover, run};
use super::values;
use crate::trace::{Trace, folder};

fn assert_is_whole(path: &std::path::Path) {
    let trace = Trace::read(path);
    trace.assert_ends_with_stats();
    assert_eq!((values(&trace), trace.losses()), (Vec::from_iter(0..VALUES), 0));
}

#[test]
fn what_was_appended_once_is_not_appended_again() {
    let folder = folder("twice");
    let mut left = Left::in_folder(&folder);
    let [trace, alone, out] = ["x.pftrace", "alone.pftrace", "out.pftrace"].map(|name| folder.join(name));
    let first = left.trace();
    // The first slot's place in the trace is known, then no slot's, and then the place of what the trace does not have.
    for known in [Some(0), None, Some(1)] {
        match known {
            None => left.goes_to(0, usize::MAX),
            Some(1) => {
                left.has_first();
                left.goes_to(1, first.len());
            }
            Some(_) => {}
        }
        fs::write(&trace, &first).expect("a file");
        let (code, said) = recover(&left.region, "--with", &trace, &trace);
        assert_eq!(code, Some(0), "{said}");
        assert_is_whole(&trace);
        let once = fs::read(&trace).expect("it is there");
        for _ in 0..2 {
            let (code, said) = recover(&left.region, "--with", &trace, &trace);
            assert_eq!(code, Some(0), "{said}");
            assert!(fs::read(&trace).expect("it is there") == once, "{said}");
        }
        let (code, said) = recover(&left.region, "--after", &trace, &out);
        assert!(code == Some(0) && values(&Trace::read(&out)).is_empty(), "{said}");
        Trace::read(&out).assert_ends_with_stats();
    }
    // What it is a trace of without any other.
    let (code, said) = run(&["recover".as_ref(), &left.region, "-o".as_ref(), &alone]);
    assert_eq!(code, Some(0), "{said}");
    let there = values(&Trace::read(&alone)).len();
    let (code, said) = recover(&left.region, "--with", &alone, &out);
    assert_eq!((code, values(&Trace::read(&out)).len()), (Some(0), there), "{said}");
}

#[test]
fn a_recovered_trace_that_was_cut_gets_back_what_it_lacks_and_equal_packets_stay_as_many() {
    let folder = folder("cut and mended");
    let names = ["x.region", "left.region", "whole.pftrace", "out.pftrace"];
    let [region, left, whole, out] = names.map(|name| folder.join(name));
    let buffer = BufferConfig::ring(1 << 20).in_file(&region);
    let session = Session::builder().buffer(buffer).start().expect("a session");
    let mut writer = session.recorder().packet_writer().expect("a writer");
    // One packet many times, byte for byte.
    (0..50).for_each(|_| writer.packet(|packet| packet.message(900).string(1, "twins")));
    super::count(&session, 0..2000);
    drop(writer);
    // As it would be if the session were killed now.
    session.flush(std::time::Duration::from_secs(5)).expect("a flush");
    fs::copy(&region, &left).expect("room");
    drop(session);
    let (code, said) = run(&["recover".as_ref(), &left, "-o".as_ref(), &whole]);
    assert_eq!(code, Some(0), "{said}");
    let bytes = fs::read(&whole).expect("a trace");
    let is_equal = |packet: &&[u8]| packet.windows(5).any(|bytes| bytes == b"twins");
    let equal = |trace: &Trace| trace.packets().filter(is_equal).count();
    let packets = Trace::read(&whole).packets().count();
    assert_eq!(equal(&Trace::read(&whole)), 50);
    for part in [2, 3, 10] {
        let cut = boundary(&bytes, bytes.len() / part);
        fs::write(&out, &bytes[..cut]).expect("a file");
        let (code, said) = recover(&left, "--with", &out, &out);
        let trace = Trace::read(&out);
        assert_eq!((code, values(&trace).len(), equal(&trace)), (Some(0), 2000, 50), "{said}");
        assert_eq!(trace.packets().count(), packets, "{said}");
    }
}
