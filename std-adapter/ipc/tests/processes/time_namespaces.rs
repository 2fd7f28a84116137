//! Programs in time namespaces: their events have the times of the service's clock.

use std::process::Command;

use tracebuf_ipc::{Connection, ProducerSocket};
use tracebuf_session::{BootClock, Session};

use tracebuf::producer::track_event::Clock;

use crate::harness::{PATIENCE, Service, run_by, socket_of_parent, this_program, write};
use crate::trace::{Field, Trace, fields, message, number};

#[test]
#[ignore = "run by the next test, as a process"]
fn an_event_and_what_boot_time_is_there() {
    let Some(socket) = socket_of_parent() else { return };
    let fast = Connection::builder().fast_clock().open(&socket).expect("a service");
    let connection = Connection::builder().open(&socket).expect("a service");
    connection.recorder().instant("hello");
    fast.recorder().instant("hello");
    println!("boot time {}", BootClock.now());
    connection.flush(PATIENCE).expect("it answers");
    fast.flush(PATIENCE).expect("it answers");
}

/// The boot times of writers' states.
fn states(trace: &Trace) -> Vec<u64> {
    let of_writer = trace.packets().filter(|packet| number(packet, 10) != Some(1));
    let clocks = of_writer.filter_map(|packet| message(packet, 6)).flat_map(fields);
    let boottime = clocks.filter_map(|field| match field {
        Field::Bytes(1, clock) if number(clock, 1) == Some(6) => number(clock, 2),
        _ => None,
    });
    boottime.collect()
}

#[test]
fn a_program_whose_boot_time_is_another_has_its_service_s_in_the_trace() {
    // Back to soon after the start, and so by more than the program takes.
    let back = BootClock.now() / 1_000_000_000 - 1;
    for (name, ahead) in [("time-ahead", "100000"), ("time-back", &format!("-{back}"))] {
        let service = Service::start(name, Session::builder(), ProducerSocket::builder());
        let mut command = Command::new("unshare");
        command.args(["--time", "--boottime", ahead, "--fork", "--kill-child"]);
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.arg(this_program());
        let before = BootClock.now();
        let test = "time_namespaces::an_event_and_what_boot_time_is_there";
        let mut producer = run_by(command, &service.path, test);
        let there = producer.says("boot time ");
        producer.assert_ends_well();
        let after = BootClock.now();
        assert!(!(before..=after).contains(&there), "the system can do this");
        let states = states(&write(service.stop(), name));
        assert_eq!(states.len(), 2);
        assert!(states.iter().all(|time| (before..=after).contains(time)), "{states:?} {before} {after}");
    }
}
