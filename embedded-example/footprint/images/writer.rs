//! The smallest image that traces: a writer, slices, instants and counters. Sending is left to scraping.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod image {
    use core::hint::black_box;
    use core::ptr::addr_of_mut;
    use tracebuf::producer::track_event::{Clock, OnTrack, Tracer, TracerConfig, Track, Unit};
    use tracebuf::producer::{
        CommitRequest, CommitSink, Exhaustion, Layout, Producer, ProducerStorage, SharedMemory, atomic_words,
    };

    const WORDS: usize = 512;
    static mut MEMORY: [u32; WORDS] = [0; WORDS];
    static STORAGE: ProducerStorage<32, 4> = ProducerStorage::new();
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
        // SAFETY: this runs once, and nobody else names the memory.
        let memory: &'static mut [u32] = unsafe { &mut *addr_of_mut!(MEMORY) };
        let Ok(memory) = SharedMemory::new(atomic_words(memory), 256) else { return };
        let Ok(producer) = Producer::new(memory, Layout::One, &STORAGE, &Silent) else { return };
        let Some(writer) = producer.writer(0, Exhaustion::Drop) else { return };
        let config = TracerConfig::new(100_000_000);
        let tracer: Tracer<'_, _, 32, 4> = Tracer::new(writer, now as fn() -> u64, &MAIN, config);
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
    println!("an image for a bare target, to be looked at and not to be run");
}
