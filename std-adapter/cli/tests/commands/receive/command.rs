//! What the command writes and tells, and files that it cannot have.

use tracebuf::proto::TracePackets;

use super::line;
use crate::trace::scratch;
use crate::tracebuf;

#[test]
fn the_command_writes_a_trace_and_tells_what_was_lost() {
    let (input, output) = (scratch("receive/line.bin"), scratch("receive/line.pftrace"));
    let mut frames = line(12);
    frames.remove(2);
    std::fs::write(&input, frames.concat()).unwrap();
    let out = tracebuf(&["receive"]).arg(&input).arg("-o").arg(&output).output().unwrap();
    assert!(out.status.success());
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.starts_with("11 packets") && text.contains(" 1 lost"), "{text}");
    let trace = std::fs::read(&output).unwrap();
    assert_eq!(TracePackets::new(&trace).filter(|packet| packet.is_ok()).count(), 11);
}

#[cfg(target_os = "linux")]
#[test]
fn packets_that_the_disk_did_not_take_are_not_told_to_be_in_the_file() {
    let input = scratch("receive/full.bin");
    // As much as is gathered, and more: the first that no longer fits is refused.
    for count in [12, 400] {
        std::fs::write(&input, line(count).concat()).unwrap();
        let out = tracebuf(&["receive"]).arg(&input).args(["-o", "/dev/full"]).output().unwrap();
        let (text, errors) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
        assert_eq!(out.status.code(), Some(1));
        assert!(errors.starts_with("error: /dev/full: cannot be written: No space"), "{errors}");
        assert!(text.starts_with("0 packets from ") && !text.contains("nothing lost"), "{text}");
        let unwritten = text.trim_end().strip_suffix(" not written").and_then(|text| text.rsplit(' ').next());
        let unwritten: u32 = unwritten.expect("a number").parse().expect("a number");
        assert!(if count == 12 { unwritten == 12 } else { (100..400).contains(&unwritten) }, "{text}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_is_not_there_is_told_with_the_system_s_number() {
    let out =
        tracebuf(&["receive", "--once", "no such port", "-o"]).arg(scratch("receive/none")).output().unwrap();
    let errors = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(errors, "error: no such port: No such file or directory (os error 2)\n");
}

#[cfg(target_os = "linux")]
#[test]
fn any_file_name_will_do_and_a_failure_names_the_file_that_it_is_about() {
    use std::os::unix::ffi::OsStrExt;
    let input = scratch("receive/name").with_file_name(std::ffi::OsStr::from_bytes(b"\xFF.bin"));
    std::fs::write(&input, line(3).concat()).unwrap();
    for (output, code, said) in
        [("/dev/null", 0, ""), ("/nonexistent/x", 1, "error: /nonexistent/x: cannot be written: No such")]
    {
        let out = tracebuf(&["receive"]).arg(&input).args(["-o", output]).output().unwrap();
        let errors = String::from_utf8(out.stderr).unwrap();
        assert!(out.status.code() == Some(code) && errors.starts_with(said), "{errors}");
    }
}
