//! What is recorded in place, over lines that are slow, or absent.

use crate::export::Uart;
use tracebuf_embedded::export::{Export, NonBlocking, Progress};
use tracebuf_embedded::inplace::{Recorder, Region};
use tracebuf_embedded::outlet::Outlet;
use tracebuf_embedded::rtt::Rtt;

#[test]
fn a_line_gets_what_it_has_room_for_and_all_of_it_in_the_end() {
    let sent = |room: usize| {
        let region = Region::<16, 64, 8>::zeroed();
        let recorder = Recorder::new(&region, || 5, 1_000);
        let writer = recorder.writer("w");
        (0..100).for_each(|value| writer.count("n", value));
        let mut outlet = Outlet::new(recorder, NonBlocking(Uart::default()));
        assert_eq!(outlet.poll(), Ok(Progress::Busy));
        loop {
            outlet.line().0.room = room;
            match outlet.poll() {
                Ok(Progress::Idle) => return outlet.line().0.sent.clone(),
                Ok(Progress::Sent) => {}
                busy => panic!("{busy:?}"),
            }
        }
    };
    let all = sent(1_000_000);
    assert!(all.len() > 900);
    for room in [1, 63, 64, 65] {
        assert_eq!(sent(room), all);
    }
}

#[test]
fn without_a_probe_recording_goes_on_and_the_newest_stay() {
    static TRACE: Region<16, 64, 8> = Region::zeroed();
    static RTT: Rtt<64> = Rtt::new();
    let recorder = Recorder::new(&TRACE, || 5, 1_000);
    let writer = recorder.writer("w");
    let mut outlet = Outlet::new(recorder, RTT.channel());
    for value in 0..10_000 {
        writer.count("n", value);
        assert!(outlet.poll().is_ok());
    }
    assert_eq!((outlet.poll(), recorder.dropped()), (Ok(Progress::Busy), 0));
}

#[test]
fn an_error_of_the_line_loses_nothing() {
    let region = Region::<16, 64, 8>::zeroed();
    let recorder = Recorder::new(&region, || 5, 1_000);
    recorder.writer("w").instant("n");
    let (mut sent, mut calls) = (Vec::new(), 0);
    let line = |bytes: &[u8]| {
        calls += 1;
        if calls % 2 == 1 {
            return Err("unplugged");
        }
        sent.extend(bytes);
        Ok(bytes.len())
    };
    fn all<E: Export<Error = &'static str>>(
        line: E,
        recorder: Recorder<'_, Region<16, 64, 8>, impl Fn() -> u32 + Copy>,
    ) {
        let mut outlet = Outlet::new(recorder, line);
        while outlet.finish().is_err() {}
    }
    all(line, recorder);
    assert!(
        sent.starts_with(&[0])
            && sent.ends_with(&[0])
            && sent.windows(1).filter(|byte| *byte == [0]).count() > 3
    );
}
