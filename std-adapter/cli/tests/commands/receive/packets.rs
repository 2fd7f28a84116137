//! Devices that send packets where only those that record in place can be.

use super::line;
use crate::text;
use crate::trace::scratch;
use crate::tracebuf;

const ALONE: &str = "only a device that records in place can be in a trace with others";

#[test]
fn packets_are_left_out_of_a_trace_of_several_devices_and_that_is_said() {
    let inputs = ["one", "two"].map(|name| scratch(&format!("receive/packets-{name}.bin")));
    let output = scratch("receive/packets.pftrace");
    inputs.iter().for_each(|input| std::fs::write(input, line(12).concat()).unwrap());
    let out = tracebuf(&["receive"]).args(&inputs).arg("-o").arg(&output).output().unwrap();
    let (said, told) = (text(&out.stderr), text(&out.stdout));
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert_eq!(said.matches(ALONE).count(), 2, "{said}");
    // At once, not only when the line ends.
    assert_eq!(said.matches("packets-one.bin sends packets, which are left out").count(), 1, "{said}");
    assert_eq!(told.matches("12 packets left out").count(), 2, "{told}");
    assert!(!output.exists());
}

#[test]
fn a_name_for_a_device_that_sends_packets_is_said_to_be_ignored() {
    let (input, output) = (scratch("receive/packets-named.bin"), scratch("receive/packets-named.pftrace"));
    std::fs::write(&input, line(12).concat()).unwrap();
    let receive = |name: &[&str]| {
        tracebuf(&["receive"]).arg(&input).args(name).arg("-o").arg(&output).output().unwrap()
    };
    let out = receive(&["--device", "oven"]);
    assert!(out.status.success() && text(&out.stdout).starts_with("12 packets"));
    assert!(text(&out.stderr).contains("note: --device names devices that record in place"));
    assert!(!text(&receive(&[]).stderr).contains("note:"));
}
