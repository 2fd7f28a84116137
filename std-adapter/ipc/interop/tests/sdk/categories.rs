//! Which categories and data sources a service starts.

use tracebuf_interop::{CATEGORIES, DEFAULT_CATEGORIES, SOURCE};
use tracebuf_ipc::{PerfettoSocket, PerfettoSocketBuilder};

use crate::harness::Service;
use crate::reading::{sequences_of, threads_of};

/// What a program's thread records when the service requests this is exactly what is in these categories.
fn records_just(test: &str, socket: PerfettoSocketBuilder, categories: &[&str]) {
    let service = Service::roomy(test, socket, categories);
    let mut program = service.run(&[]);
    let pid = program.pid();
    program.does("events 1 0 100 10");
    program.ends();
    let trace = service.stop();
    threads_of(&trace, pid)[&0].assert_is(0..100, categories);
    assert_eq!(trace.losses(), 0);
}

#[test]
fn by_default_all_but_those_with_a_tag_for_that() {
    records_just("categories-default", PerfettoSocket::builder(), &DEFAULT_CATEGORIES);
}

#[test]
fn by_name() {
    records_just("categories-name", PerfettoSocket::builder().categories(["work"]), &["work"]);
}

#[test]
fn by_a_pattern() {
    let both = ["net.send", "net.receive"];
    records_just("categories-pattern", PerfettoSocket::builder().categories(["net.*"]), &both);
}

#[test]
fn also_one_that_has_a_tag_to_be_left_out_if_it_is_named() {
    let both = ["net.send", "noise"];
    records_just("categories-tag", PerfettoSocket::builder().categories(both), &both);
}

#[test]
fn all_of_them() {
    let socket = PerfettoSocket::builder().categories(CATEGORIES);
    records_just("categories-all", socket, &CATEGORIES);
}

/// `DataSourceConfig.legacy_config`, which only the data source itself reads.
#[test]
fn a_data_source_of_the_programs_own_gets_its_configuration() {
    let legacy_config = [&[0xC2, 0x3E, 5][..], b"to it"].concat();
    let socket = PerfettoSocket::builder().data_source(SOURCE, legacy_config.clone());
    let service = Service::roomy("config", socket, &[SOURCE]);
    let mut program = service.run(&[]);
    let pid = program.pid();
    let hex: String = legacy_config.iter().map(|byte| format!("{byte:02x}")).collect();
    let config = program.was_asked("config");
    assert!(config.contains(&hex), "{config}");
    assert_eq!((program.was_asked("setups"), program.was_asked("starts")), ("1".into(), "1".into()));
    program.does("packets 0 10 100");
    let trace = service.stop();
    let packets = sequences_of(&trace, pid).into_values().map(|sequence| sequence.packets.len());
    assert!(packets.max() >= Some(10));
}

#[test]
fn a_data_source_that_nobody_asked_for_is_not_started() {
    let service = Service::roomy("not-asked", PerfettoSocket::builder(), &DEFAULT_CATEGORIES);
    let mut program = service.run(&[]);
    program.does("packets 0 10 100");
    assert_eq!(program.was_asked("setups"), "0");
    assert!(!service.stop().contains("0:0"));
}
