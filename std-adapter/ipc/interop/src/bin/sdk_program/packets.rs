//! A data source of the program's own, which writes packets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use perfetto_sdk::data_source::{
    DataSource, DataSourceArgsBuilder, DataSourceBufferExhaustedPolicy, DataSourceTimestamp, TraceContext,
};
use perfetto_sdk::protos::trace::test_event::TestEvent;
use perfetto_sdk::protos::trace::trace_packet::{TracePacket, TracePacketSequenceFlags};
use tracebuf_interop::{SOURCE, packet_len, text};

use crate::{PATIENCE, on_threads};

/// A data source that all threads use.
struct Shared(DataSource<'static>);

// SAFETY: it is registered before others see it and not changed afterwards; the SDK's own calls that write packets may
// be made by many threads at a time.
unsafe impl Sync for Shared {}

static SHARED: OnceLock<Shared> = OnceLock::new();

#[derive(Default)]
struct Asked {
    setups: AtomicU64,
    starts: AtomicU64,
    stops: AtomicU64,
    flushes: AtomicU64,
    clears: AtomicU64,
    config: Mutex<Vec<u8>>,
}

static ASKED: LazyLock<Asked> = LazyLock::new(Asked::default);

pub(crate) fn register(policy: DataSourceBufferExhaustedPolicy) {
    let arguments = DataSourceArgsBuilder::new()
        .buffer_exhausted_policy(policy)
        .will_notify_on_stop(true)
        .handles_incremental_state_clear(true)
        .on_setup(|_, config, _| {
            *ASKED.config.lock().expect("nobody panics") = config.to_vec();
            ASKED.setups.fetch_add(1, Relaxed);
        })
        .on_start(|_, _| {
            ASKED.starts.fetch_add(1, Relaxed);
        })
        .on_flush(|_, _| {
            // A service that takes what is there once this is answered has it.
            let number = ASKED.flushes.fetch_add(1, Relaxed);
            write_packet(number, &format!("asked to flush {number}"), FLUSHES);
        })
        .on_stop(|_, stop| {
            let _until_it_is_written = stop.postpone();
            let number = ASKED.stops.fetch_add(1, Relaxed);
            write_packet(number, &format!("asked to stop {number}"), STOPS);
            source().trace(|context| context.flush(|| {}));
        });
    let mut source = DataSource::new();
    source.register(SOURCE, arguments.build()).expect("once");
    assert!(SHARED.set(Shared(source)).is_ok(), "once");
}

/// Stands for a thread in what is written when the service requests something.
const FLUSHES: u64 = 1000;
const STOPS: u64 = 1001;

fn source() -> &'static DataSource<'static> {
    &SHARED.get().expect("it is registered").0
}

pub(crate) fn is_enabled() -> bool {
    source().is_enabled()
}

pub(crate) fn asked() -> String {
    let Asked { setups, starts, stops, flushes, clears, config } = &*ASKED;
    let all =
        [("setups", setups), ("starts", starts), ("stops", stops), ("flushes", flushes), ("clears", clears)];
    let all = all.map(|(name, count)| format!("{name}={}", count.load(Relaxed))).join(" ");
    let config: String =
        config.lock().expect("nobody panics").iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{all} config={config}")
}

/// Writes packets on some threads, which then end, or on this one, which goes on, if `threads` is 0.
pub(crate) fn write(threads: u64, count: u64, max: usize) {
    on_threads(threads, |thread, _| {
        (0..count).for_each(|number| write_packet(number, &text(number, packet_len(number, max)), thread));
        // A program that ends takes along what would complete packets over several chunks.
        if threads > 0 {
            flush();
        }
    });
}

/// Writes packets of 15 bytes each in a trace: their tag, their size, and 13 of their own.
pub(crate) fn write_small(count: u64, rate: u64) {
    let begun = Instant::now();
    for number in 0..count {
        source().trace(|context: &mut TraceContext| {
            context.add_packet(|packet: &mut TracePacket| {
                packet.set_timestamp(1 << 41 | number).set_for_testing(|event: &mut TestEvent| {
                    event.set_counter(7);
                });
            });
        });
        if rate > 0 && number % 64 == 0 {
            let due = Duration::from_secs_f64((number * 15) as f64 / rate as f64);
            while begun.elapsed() < due {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }
}

/// Waits until the service has everything that this thread has written.
fn flush() {
    let (done, is_done) = mpsc::channel();
    source().trace(|context| {
        let done = done.clone();
        context.flush(move || {
            // If it comes too late, nobody waits for it any more.
            let _ = done.send(());
        });
    });
    is_done.recv_timeout(PATIENCE).expect("the service has it");
}

fn write_packet(number: u64, text: &str, thread: u64) {
    source().trace(|context: &mut TraceContext| {
        context.with_incremental_state(|context: &mut TraceContext, state| {
            if std::mem::take(&mut state.was_cleared) {
                ASKED.clears.fetch_add(1, Relaxed);
                let flag = TracePacketSequenceFlags::SeqIncrementalStateCleared as u32;
                context.add_packet(|packet: &mut TracePacket| {
                    packet.set_sequence_flags(flag);
                });
            }
        });
        context.add_packet(|packet: &mut TracePacket| {
            let now = DataSourceTimestamp::now();
            packet.set_timestamp(now.timestamp()).set_timestamp_clock_id(now.clock_id());
            packet.set_for_testing(|event: &mut TestEvent| {
                event.set_seq_value(number as u32).set_counter(thread).set_str(text);
            });
        });
    });
}
