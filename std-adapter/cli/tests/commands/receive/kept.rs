//! The former content of an output.

use super::{FIRST, WHOLE, frame, line, packet};
use crate::trace::scratch;
use crate::tracebuf;

#[test]
fn until_there_is_a_packet_the_file_that_was_there_is_left_as_it_was() {
    let (input, output) = (scratch("receive/wrong.bin"), scratch("receive/kept.pftrace"));
    let whole = line(4).concat();
    for (wrong, said) in [
        (&b"no line at all"[..], "not one intact frame came, so nothing is written"),
        (&[], "not one intact frame came, so nothing is written"),
        (&frame(FIRST, 1, &packet(1)), "not one whole packet came, so nothing is written"),
        (&frame(WHOLE, 1, &[0xFF]), "not one whole packet came, so nothing is written"),
    ] {
        std::fs::write(&input, wrong).unwrap();
        for there in [Some("a trace"), None] {
            let _ = std::fs::remove_file(&output);
            if let Some(text) = there {
                std::fs::write(&output, text).unwrap();
            }
            let out = tracebuf(&["receive"]).arg(&input).arg("-o").arg(&output).output().unwrap();
            let error = crate::text(&out.stderr);
            assert!(out.status.code() == Some(1) && error.contains(said), "{error}");
            assert_eq!(std::fs::read_to_string(&output).ok().as_deref(), there);
        }
    }
    std::fs::write(&input, &whole).unwrap();
    std::fs::write(&output, vec![b'x'; 2 * whole.len()]).unwrap();
    assert!(tracebuf(&["receive"]).arg(&input).arg("-o").arg(&output).status().unwrap().success());
    assert_eq!(std::fs::read(&output).unwrap(), (0..4).flat_map(packet).collect::<Vec<_>>());
}
