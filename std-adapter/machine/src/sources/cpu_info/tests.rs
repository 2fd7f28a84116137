//! Tests of what is told of processors and interrupts.

use super::*;
use crate::linux::tests::machine::{Machine, Recording};
use tracebuf::proto::TracePackets;
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, number};

fn text(of: &[u8], field: u32) -> String {
    String::from_utf8_lossy(message(of, field).expect("a text")).into_owned()
}

fn numbers(of: &[u8]) -> Vec<(u32, u64)> {
    let fields = Fields::of(of);
    fields
        .filter_map(
            |one| if let FieldValue::Number(value) = one.value { Some((one.number, value)) } else { None },
        )
        .collect()
}

#[test]
fn each_processor_is_in_the_place_of_its_number_with_what_it_can() {
    let machine = Machine::new("cpu-info");
    machine.says(
        "cpuinfo",
        "processor\t: 0\nBogoMIPS\t: 38.40\nFeatures\t: fp mte3 mte\nCPU implementer\t: 0x41\nCPU architecture: 8\n\
         CPU variant\t: 0x1\nCPU part\t: 0xd44\nCPU revision\t: 2\n\nprocessor\t: 3\nCPU part\t: 0xd44\n\n\
         processor\t: 99999999\nProcessor\t: AArch64 rev 2\n",
    );
    machine.has("devices/system/cpu/cpu3/cpufreq/scaling_available_frequencies", "300000 x 576000 \n");
    machine.has("devices/system/cpu/cpu3/cpufreq/scaling_boost_frequencies", "900000\n");
    machine.has("devices/system/cpu/cpu3/cpu_capacity", "1024\n");
    let told = processors(&machine.proc());
    let all: Vec<_> = messages(&told, cpu_info::CPUS).collect();
    assert_eq!((all.len(), all[1], all[2]), (4, &b""[..], &b""[..]), "two are off");
    assert_eq!(
        [0, 3].map(|at: usize| text(all[at], field::PROCESSOR)),
        ["AArch64 rev 2"; 2].map(str::to_owned)
    );
    assert_eq!(numbers(all[0]), [(field::FEATURES, 3)]);
    let identifier = message(all[0], field::ARM_IDENTIFIER).expect("well-formed");
    assert_eq!(numbers(identifier), [(1, 0x41), (2, 8), (3, 1), (4, 0xD44), (5, 2)]);
    let can = [
        (field::FREQUENCIES, 300_000),
        (field::FREQUENCIES, 576_000),
        (field::FREQUENCIES, 900_000),
        (field::CAPACITY, 1024),
    ];
    assert_eq!(numbers(all[3]), can);
    assert_eq!(message(all[3], field::ARM_IDENTIFIER), Some(&b""[..]), "half of one is none");
    machine.says("cpuinfo", "processor\t: 0\nmodel name\t: A CPU @ 2.60GHz\nflags\t: fpu\n");
    let told = processors(&machine.proc());
    assert_eq!(text(message(&told, cpu_info::CPUS).expect("one"), field::PROCESSOR), "A CPU @ 2.60GHz");
    machine.has_no("cpuinfo");
    assert_eq!(processors(&machine.proc()), b"");
}

#[test]
fn interrupts_are_called_like_those_who_have_them() {
    let lines = "           CPU0       CPU1       \n\
                 \x20 0:         44          0   IO-APIC   2-edge      timer\n\
                 \x2016:          5          7   IO-APIC  16-fasteoi   ehci_hcd:usb1, snd hda\n\
                 \x2027:          1          2     GICv3  30 Level     arch_timer\n\
                 \x2031:          1          2   cs40l26 IRQ1 Controller  12 Edge  haptics\n\
                 \x2040:          1          2   ITS-MSI 524288\n\
                 NMI:          3          4   Non-maskable interrupts\n\
                 \x2050:          1\n\x2051:          1          2   alone\n";
    let told = interrupts(lines);
    let all = messages(&told, interrupt_info::IRQ_MAPPING);
    let all: Vec<_> =
        all.map(|one| (number(one, interrupt_mapping::IRQ_ID), text(one, interrupt_mapping::NAME))).collect();
    let expected =
        [(0, "timer"), (16, "ehci_hcd:usb1, snd hda"), (27, "arch_timer"), (31, "haptics"), (40, "524288")];
    assert_eq!(all, expected.map(|(number, name)| (Some(number), name.to_owned())));
    assert_eq!(interrupts(""), b"");
}

#[test]
fn it_is_told_once_and_interrupts_only_if_they_are_asked_for() {
    let machine = Machine::new("cpu-info-once");
    machine.says("cpuinfo", "processor : 0\n");
    machine.says("interrupts", "CPU0\n 1: 7 chip 1-edge keys\n");
    for has_interrupts in [false, true] {
        let recording = Recording::new();
        let mut out = recording.output_of_service();
        let mut source = SystemInfoSource::new(machine.proc(), has_interrupts);
        source.start(&mut out).expect("a start");
        source.tell_again();
        source.flush(&mut out);
        source.stop(&mut out);
        drop(out);
        let trace = recording.trace();
        let packets: Vec<_> = TracePackets::new(&trace).map(|packet| packet.expect("a packet")).collect();
        let of = |field| {
            packets.iter().filter(move |packet| message(packet, field).is_some_and(|found| !found.is_empty()))
        };
        assert_eq!(of(trace_packet::CPU_INFO).count(), 1);
        assert_eq!(of(trace_packet::INTERRUPT_INFO).count(), usize::from(has_interrupts));
        assert!(of(trace_packet::CPU_INFO).all(|packet| number(packet, trace_packet::TIMESTAMP) > Some(0)));
    }
}
