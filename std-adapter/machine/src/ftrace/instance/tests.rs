//! Tests with the instances of this kernel. As root: `mount -t tracefs nodev /sys/kernel/tracing`, then
//! `cargo test -p tracebuf-machine --lib instance -- --ignored --test-threads 1`.

use super::super::{FtraceReader, StatsPhase};
use super::*;
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

fn instances(top: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(top.join("instances")).expect("instances").flatten();
    entries.map(|entry| entry.path()).collect()
}

#[test]
fn a_buffer_that_the_kernel_refuses_is_told_with_what_to_do() {
    let folder = std::env::temp_dir().join(format!("tracebuf-instance-{}", std::process::id()));
    // A folder cannot be written, by root either.
    fs::create_dir_all(folder.join("buffer_size_kb")).expect("a folder");
    fs::write(folder.join("trace_clock"), "local [boot]\n").expect("a file");
    let (cpus, pipes, failed) = (Vec::new(), Vec::new(), Vec::new());
    let mut instance =
        Instance { top: folder.clone(), folder: folder.clone(), held: None, cpus, pipes, failed };
    let options = InstanceOptions { buffer_kib: 64, ..InstanceOptions::default() };
    let error = instance.start(&options).expect_err("no buffer").to_string();
    assert!(error.starts_with("no buffer of 64 KiB for each processor: "), "{error}");
    assert!(error.contains("--kernel-buffer"), "{error}");
    drop(instance);
    fs::remove_dir_all(folder).expect("a folder");
}

#[test]
#[ignore = "needs root and a tracefs"]
fn the_kernels_events_are_read_and_nothing_stays() {
    let top = Instance::find().expect("a tracefs");
    let (before, was_on) = (instances(&top), fs::read(top.join("tracing_on")).expect("a file"));
    let mut instance = Instance::create(&top).expect("an instance");
    let mut second = Instance::create(&top).expect("another");
    let options = InstanceOptions {
        events: vec![
            "sched/sched_switch".into(),
            "sched/sched_waking".into(),
            "irq/*".into(),
            "no/such".into(),
        ],
        filters: vec![("sched/sched_waking".into(), "common_pid != 0".into())],
        buffer_kib: 1024,
        ..InstanceOptions::default()
    };
    let events = instance.start(&options).expect("a start");
    assert!(events.iter().filter(|event| event.starts_with("irq/")).count() >= 5, "{events:?}");
    let mut reader =
        FtraceReader::new(&mut instance, events.iter().map(String::as_str), true).expect("formats");
    assert_eq!((reader.unknown_events(), instance.failed_events()), (&["no/such".to_owned()][..], &[][..]));
    let start = boot_time();
    let (mut packets, mut pages) = (0, 0);
    for _ in 0..20 {
        sleep(Duration::from_millis(10));
        pages += reader.read_pass(&mut instance, 256, &mut |_| packets += 1).expect("processors");
    }
    instance.stop().expect("a stop");
    pages += reader.read_pass(&mut instance, usize::MAX, &mut |_| packets += 1).expect("processors");
    let stats = reader.stats(&mut instance, StatsPhase::End).expect("processors");
    println!("{packets} packets, {pages} pages, {stats:?}");
    assert!(packets >= 20 && pages >= 20);
    assert!(stats.parse_errors.is_empty() && stats.buffer_pages >= 256);
    assert!(stats.cpus.iter().map(|cpu| cpu.read_events).sum::<u64>() > 20);
    let clocks = instance.clocks().expect("clocks");
    assert!(clocks.boot > start && clocks.ftrace.abs_diff(clocks.boot) < 1_000_000_000, "{clocks:?}");
    assert_eq!(
        second.read_page(0, &mut [0; 4096]).err().map(|error| error.kind()),
        Some(ErrorKind::WouldBlock)
    );
    drop((instance, second));
    assert_eq!((instances(&top), fs::read(top.join("tracing_on")).expect("a file")), (before, was_on));
}

#[test]
#[ignore = "needs root and a tracefs"]
fn pages_are_as_large_as_the_instance_has_them() {
    let top = Instance::find().expect("a tracefs");
    let mut instance = Instance::create(&top).expect("an instance");
    // Kernels before 6.8 have no such file.
    if instance.write("buffer_subbuf_size_kb", "64").is_err() {
        return;
    }
    let options = InstanceOptions { events: vec!["raw_syscalls/*".into()], ..InstanceOptions::default() };
    let events = instance.start(&options).expect("a start");
    let mut reader =
        FtraceReader::new(&mut instance, events.iter().map(String::as_str), true).expect("formats");
    assert_eq!(reader.layout().page_len(), 65536);
    for _ in 0..20_000 {
        let _ = fs::metadata("/");
    }
    instance.stop().expect("a stop");
    let (mut bytes, mut longest) = (0, 0);
    let mut count = |packet: &[u8]| {
        bytes += packet.len();
        longest = longest.max(packet.len());
    };
    let pages = reader.read_pass(&mut instance, usize::MAX, &mut count).expect("processors");
    let stats = reader.stats(&mut instance, StatsPhase::End).expect("processors");
    println!("{pages} pages, {bytes} bytes, packets up to {longest}, {stats:?}");
    assert!(pages >= 2 && bytes > 100_000 && longest < 16 << 10);
    assert!(stats.parse_errors.is_empty(), "{stats:?}");
}

#[test]
#[ignore = "needs root and a tracefs"]
fn instances_of_killed_processes_are_removed_and_those_that_somebody_has_or_made_are_not() {
    let top = Instance::find().expect("a tracefs");
    let of = |name: &str| top.join("instances").join(name);
    // The number of a process that runs, which is another's now, and others that none has.
    let names =
        ["tracebuf-1", "tracebuf-4194305", "tracebuf-4194306-2", "tracebuf-4194307", "tracebuf-x", "other-1"];
    names.iter().for_each(|name| fs::create_dir(of(name)).expect("an instance"));
    let read = File::open(of("tracebuf-4194307").join("per_cpu/cpu0/trace_pipe_raw")).expect("a pipe");
    let (ours, second) =
        (Instance::create(&top).expect("an instance"), Instance::create(&top).expect("another"));
    Instance::remove_dead(&top);
    let left: Vec<_> = names.iter().filter(|name| of(name).exists()).collect();
    assert_eq!(left, [&names[3], &names[4], &names[5]]);
    assert!(ours.folder.exists() && second.folder.exists() && ours.folder != second.folder);
    drop(read);
    names.iter().for_each(|name| drop(fs::remove_dir(of(name))));
}
