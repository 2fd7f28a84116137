//! The smallest image that traces: a writer, slices, instants and counters. Sending is left to scraping.
//!
//! It has all that these pull in: the writer, the producer with its commit requests, names, tracks, the incremental
//! state, and the compiler's own functions. The producer is a constant, so of setting up only the writer's and the
//! tracer's first values are in it. Not in it: the service's side, sending, a real clock, annotations and flows,
//! formatting, and packets written by hand.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod image {
    use core::hint::black_box;
    use tracebuf::producer::track_event::{Clock, OnTrack, Tracer, TracerConfig, Track, Unit};
    use tracebuf::producer::{
        AtomicU32, CommitRequest, CommitSink, Exhaustion, Layout, Producer, ProducerStorage, SharedMemory,
    };

    static MEMORY: [AtomicU32; 512] = [const { AtomicU32::new(0) }; 512];
    static STORAGE: ProducerStorage<32, 4> = ProducerStorage::new();
    static PRODUCER: Producer<'static> = match SharedMemory::new(&MEMORY, 256) {
        Ok(memory) => match Producer::new(memory, Layout::One, &STORAGE, &Silent) {
            Ok(producer) => producer,
            Err(_) => panic!("32 chunks of 248 bytes"),
        },
        Err(_) => panic!("8 pages"),
    };
    const CONFIG: TracerConfig = TracerConfig::new(100_000_000);
    static MAIN: Track<'static> = Track::thread(1, 1, "main");
    static LEVEL: Track<'static> = Track::counter("level", Unit::Count);

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {}
    }

    struct Silent;

    impl CommitSink for Silent {
        fn commit(&self, request: &CommitRequest<'_>) {
            black_box(request);
        }
    }

    fn now() -> u64 {
        black_box(1)
    }

    #[unsafe(no_mangle)]
    pub(crate) extern "C" fn _start() {
        let Some(writer) = PRODUCER.writer(0, Exhaustion::Drop) else { return };
        let tracer: Tracer<'_, _, 32, 4> = Tracer::with_tables(writer, now as fn() -> u64, &MAIN, CONFIG);
        loop {
            slice_begin(tracer.track());
            slice_end(tracer.track());
            instant(tracer.track());
            count(tracer.on(&LEVEL));
            black_box(tracer.flush());
        }
    }

    #[inline(never)]
    fn slice_begin(on: OnTrack<'_, '_, impl Clock, 32, 4>) {
        on.begin("slice");
    }

    #[inline(never)]
    fn slice_end(on: OnTrack<'_, '_, impl Clock, 32, 4>) {
        on.end();
    }

    #[inline(never)]
    fn instant(on: OnTrack<'_, '_, impl Clock, 32, 4>) {
        on.instant("instant");
    }

    #[inline(never)]
    fn count(on: OnTrack<'_, '_, impl Clock, 32, 4>) {
        on.count(black_box(7));
    }
}

#[cfg(not(target_os = "none"))]
fn main() {
    println!("an image for a bare target, not to be run");
}
