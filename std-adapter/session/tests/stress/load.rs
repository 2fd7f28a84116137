//! A service under load: a million events a second from eight threads into 16 MiB, with snapshots meanwhile.
//!
//! Three seconds; a minute with `TRACEBUF_LOAD_SECONDS=60`, best with `--release`.

use tracebuf_testing::load;

#[test]
#[ignore = "takes 8 s, and measures the memory of its process"]
fn every_packet_is_in_the_trace_or_counted_as_lost_and_memory_does_not_grow() {
    let load = load::run(load::seconds(3));
    let (early, late) = load.memory;
    println!(
        "{:.2} M events/s for {:.1} s, {} snapshots, p50 {} p99 {} p99.9 {} ns, resident {early} then {late} bytes",
        load.rate() / 1e6,
        load.seconds,
        load.snapshots,
        load.time_of(0.5),
        load.time_of(0.99),
        load.time_of(0.999)
    );
    for account in &load.writers {
        println!("{account:?}");
    }
    assert_eq!(load.writers.len(), 8);
    let total = |of: fn(&load::Account) -> u64| load.writers.iter().map(of).sum::<u64>();
    assert_eq!(load.unaccounted(), 0, "in all");
    if total(|account| account.dropped) == 0 {
        // Some of each may be repeated.
        assert!(load.writers.iter().all(|account| account.unaccounted() <= 0), "of each writer");
    }
    assert!(total(|account| account.in_trace) > 10_000, "the ring is full of them");
    assert!(total(|account| account.overwritten) > 0, "and was lapped");
    assert!(total(|account| account.written) >= load.events, "as many packets as events, and states");
    assert!(late as f64 <= early as f64 * 1.02, "{early} bytes after a sixth of the time, {late} at the end");
    // On a machine that others use too, half of the rate still shows that it is a load.
    assert!(load.rate() > 4.0 * load::RATE, "{} events/s", load.rate());
}
