//! How long a trace is that was received.

use tracebuf_testing::trace::Trace;

use super::{WHOLE, frame};
use crate::trace::folder;
use crate::tracebuf;

#[test]
fn a_trace_s_span_is_told_and_that_its_clock_stands_still() {
    let folder = folder("receive/span");
    let output = folder.join("oven.pftrace");
    // Field 8 is the time, 10 the sequence, 11 an event.
    let event = |time: u8| [0x0A, 6, 0x40, time, 0x50, 2, 0x5A, 0].to_vec();
    let received = |times: &[u8]| {
        let frames = (0..).zip(times).map(|(number, time)| frame(WHOLE, number, &event(*time)));
        std::fs::write(folder.join("line.bin"), [vec![0], frames.collect::<Vec<_>>().concat()].concat())
            .unwrap();
        let mut command = tracebuf(&["receive"]);
        let out = command.arg(folder.join("line.bin")).arg("-o").arg(&output).output().unwrap();
        assert_eq!(Trace::read(&output).packets().count(), times.len());
        String::from_utf8(out.stdout).unwrap()
    };
    let said = received(&[5, 9]);
    let span = format!("\n{}: 0.0 µs from the first event to the last\n", output.display());
    assert!(said.ends_with(&span), "{said}");
    let said = received(&[5, 5, 5]);
    let still = "all 3 events have the same time, 0.000 s: their clock stands still\n";
    assert!(said.ends_with(still), "{said}");
}
