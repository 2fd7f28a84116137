//! Our service in place of Perfetto's: the SDK records with it, and reads.

use tracebuf_daemon::{Daemon, SocketNames};
use tracebuf_interop::{DEFAULT_CATEGORIES, SOURCE};
use tracebuf_ipc::Connection;

use crate::harness::Program;
use crate::perfettos_service::{
    Following, PerfettosService, assert_nothing_is_wrong, pause, run, statistics,
};
use crate::reading::threads_of;
use crate::recording::{ALL, COMMANDS, assert_all_is_there};
use crate::trace::number;

/// In the service's statistics, flushes that were asked for and those that failed.
const FLUSHES: [u32; 2] = [12, 14];

/// Categories that every library is to record: what it does by itself differs.
const ONLY: &str = "only=work,net.*";

#[test]
#[ignore = "run by other tests, as a process"]
fn a_service() {
    let mut daemon = Daemon::bind(&SocketNames::from_environment()).expect("nobody has these sockets");
    println!("\nlistens");
    daemon.run().expect("it serves until it is killed");
}

/// The service, killed when the test is over, and a client with the SDK that makes traces with it.
pub(crate) fn serving(test: &str) -> (Program, PerfettosService) {
    let mut service = run(test, "serving::a_service");
    service.hears("listens");
    (service, PerfettosService::client(test))
}

fn program(test: &str) -> Program {
    Program::start(test, &[])
}

#[test]
fn all_that_the_sdk_records_is_read_by_the_sdk_whole_and_in_order() {
    let test = "serve-all";
    let (_service, mut client) = serving(test);
    let mut program = program(test);
    let pid = program.pid();
    client.records(0, &format!("{ONLY} source={SOURCE} flush=20"));
    program.does(&format!("wait on {}", ALL.join(" ")));
    COMMANDS.iter().for_each(|command| program.does(command));
    client.flush(0);
    let trace = client.stop(0);
    assert_all_is_there(&trace, pid);
    assert!(assert_nothing_is_wrong(&trace)[0] > 0);
    trace.assert_ends_with_stats();
    let [asked, failed] = FLUSHES.map(|field| number(statistics(&trace), field).unwrap_or(0));
    assert!(asked > 5 && failed == 0, "{asked} flushes, of which {failed} failed");
    program.does("wait off");
    program.ends();
}

#[test]
fn sessions_beside_each_other_have_what_was_recorded_while_each_of_them_ran() {
    let test = "serve-two";
    let (_service, mut client) = serving(test);
    let mut program = program(test);
    let pid = program.pid();
    let waits = format!("wait on {}", DEFAULT_CATEGORIES.join(" "));
    client.records(0, ONLY);
    program.does(&waits);
    program.does("events 0 0 50 20");
    client.records(1, &format!("{ONLY} buffers=2"));
    program.does("events 0 50 100 20");
    client.flush(0);
    let first = client.stop(0);
    program.does("events 0 100 150 20");
    client.flush(1);
    let second = client.stop(1);
    for (trace, rounds) in [(first, 0..100), (second, 50..150)] {
        assert_nothing_is_wrong(&trace);
        threads_of(&trace, pid)[&0].assert_is(rounds, &DEFAULT_CATEGORIES);
    }
    program.does("wait off");
}

#[test]
fn programs_of_both_kinds_are_in_one_trace_and_one_that_is_killed_is_there_too() {
    let test = "serve-both";
    let (_service, mut client) = serving(test);
    let (mut program, ours) = (program(test), Following::of(test, Connection::builder()));
    let pid = program.pid();
    client.records(0, ONLY);
    ours.waits_to_record();
    program.does(&format!("wait on {}", DEFAULT_CATEGORIES.join(" ")));
    program.does("events 0 0 50 20");
    ours.rounds(0, 0..100, 20, |_| pause());
    client.flush(0);
    program.kill();
    let trace = client.stop(0);
    threads_of(&trace, pid)[&0].assert_is(0..50, &DEFAULT_CATEGORIES);
    threads_of(&trace, std::process::id().into())[&0].assert_is(0..100, &DEFAULT_CATEGORIES);
    assert_nothing_is_wrong(&trace);
    ours.waits_for_the_end();
}
