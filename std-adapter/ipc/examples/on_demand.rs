//! A program that runs all the time, and is traced whenever you want to look.
//!
//! `cargo run --release -p tracebuf-ipc --example on_demand -- $XDG_RUNTIME_DIR/on_demand` finds prime numbers until it is
//! interrupted, or for the number of seconds given after the socket. Meanwhile, as often as you like,
//! `tracebuf record --listen $XDG_RUNTIME_DIR/on_demand` writes a trace of the machine that includes what this program does.
//! For Linux.

use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use tracebuf_ipc::Connection;
use tracebuf_session::{Recorder, Relay, Track, Unit, this_process};

static PROCESS: LazyLock<Track<'static>> = LazyLock::new(this_process);
static PRIMES: LazyLock<Track<'static>> =
    LazyLock::new(|| Track::counter("primes", Unit::Count).within(&PROCESS));

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [socket] => work(socket.as_ref(), Duration::MAX),
        [socket, seconds] => work(socket.as_ref(), Duration::from_secs(seconds.parse()?)),
        _ => Err("usage: on_demand SOCKET [SECONDS]".into()),
    }
}

fn work(socket: &Path, length: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let relay = Relay::new();
    let recorder = relay.recorder();
    let _follower = Connection::builder()
        .process_name("on demand")
        .follow(socket, move |service| relay.connect(&service.recorder()))?;
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while started.elapsed() < length {
                    search(&recorder);
                }
            });
        }
    });
    Ok(())
}

/// What the program does, as if it were always traced.
fn search(recorder: &Recorder) {
    let _slice = recorder.enter("search");
    let is_prime = |number: &u64| (2..).take_while(|d| d * d <= *number).all(|d| !number.is_multiple_of(d));
    let primes = (1_000_000..1_001_000_u64).filter(is_prime).count();
    recorder.count(&PRIMES, primes as i64);
    std::thread::sleep(Duration::from_millis(1));
}
