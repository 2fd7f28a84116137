//! What it costs our service, and Perfetto's own, to take in what a program with the SDK records.
//!
//! `TRACEBUF_SERVICE=/usr/bin/traced` measures another service in place of that in the SDK.

use std::process::Command;

use tracebuf_interop::SOURCE;
use tracebuf_testing::cpu;

use crate::harness::{Program, waits_for};
use crate::perfettos_service::{PerfettosService, sockets};
use crate::serving::serving;

const MIB: u64 = 1 << 20;
/// Of the session, as the client asks for it.
const RING: u64 = 64 * MIB;
/// Bytes of a packet.
const SMALL: u64 = 15;
/// Bytes a second of a program that does not record all the time.
const SLOW: u64 = 13_000_000;

/// Seconds of a service for a MiB that comes at full speed, and at [`SLOW`], once the ring's pages have been touched.
fn of_service(pid: u64, client: &mut PerfettosService, test: &str) -> [f64; 2] {
    client.records(0, &format!("source={SOURCE}"));
    let mut program = Program::start(test, &[]);
    program.does(&format!("wait on {SOURCE}"));
    program.does(&format!("small {} 0", (RING + RING / 4) / SMALL));
    let costs = [(128 * MIB, 0), (2 * SLOW, SLOW)].map(|(bytes, rate)| {
        let before = cpu::of_process(pid);
        let begun = std::time::Instant::now();
        program.does(&format!("small {} {rate}", bytes / SMALL));
        println!("{test}: {:.1} MB/s", bytes as f64 / begun.elapsed().as_secs_f64() / 1e6);
        (cpu::of_process(pid) - before) / (bytes as f64 / MIB as f64)
    });
    client.stop(0);
    program.does("wait off");
    costs
}

fn theirs(test: &str) -> [f64; 2] {
    let Some(program) = std::env::var_os("TRACEBUF_SERVICE") else {
        let mut service = PerfettosService::start(test);
        return of_service(service.pid(), &mut service, test);
    };
    let [producers, consumers] = sockets(test);
    let mut command = Command::new(program);
    command.env("PERFETTO_PRODUCER_SOCK_NAME", &producers).env("PERFETTO_CONSUMER_SOCK_NAME", &consumers);
    let service = Program::of(&mut command);
    waits_for("it listens", || consumers.exists());
    of_service(service.pid(), &mut PerfettosService::client(test), test)
}

#[test]
#[ignore = "measures"]
fn taking_in_costs_less_than_half_of_what_it_costs_perfettos_service() {
    let mut shares = [(); 5].map(|()| {
        let (service, mut client) = serving("cost");
        let ours = of_service(service.pid(), &mut client, "cost");
        drop((service, client));
        let theirs = theirs("their-cost");
        let shares = [ours[0] / theirs[0], ours[1] / theirs[1]];
        let [ours, theirs] = [ours, theirs].map(|costs| costs.map(|cost| 1e3 * cost));
        println!(
            "ms a MiB, at full speed and at 13 MB/s: {ours:.3?}, Perfetto's {theirs:.3?}: {shares:.3?} of it"
        );
        shares
    });
    let median = |at: usize, shares: &mut [[f64; 2]; 5]| {
        shares.sort_by(|a, b| a[at].total_cmp(&b[at]));
        shares[2][at]
    };
    let [full, slow] = [0, 1].map(|at| median(at, &mut shares));
    assert!(full <= 0.45 && slow <= 1.0, "{full:.3} at full speed, {slow:.3} at 13 MB/s");
}
