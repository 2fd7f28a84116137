//! The cost sheet of a Cortex-M4, or a Cortex-M0: `cargo bench` in this folder, in QEMU.
//!
//! A line for each figure: `budget NAME MEASURED LIMIT UNIT ok|over`. Instructions are counted by SysTick, which QEMU
//! advances by the instruction. Stack is what was written to, of memory that was painted before. The limits of slices,
//! stack and the ring's memory are the project's; the others are what was measured once, and some more.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("these are instructions of a Cortex-M: run it from its own folder");
}

#[cfg(target_os = "none")]
#[path = "parts/meter.rs"]
mod meter;

#[cfg(target_os = "none")]
mod image {
    use crate::meter::{self, Meter, finish, many};
    use core::hint::black_box;
    use cortex_m::register::msp;
    use cortex_m_rt::entry;
    use defmt_semihosting as _;
    use static_cell::{ConstStaticCell, StaticCell};
    use tracebuf::buffer::{Chunk, ChunkHeader, TraceBuffer};
    use tracebuf::producer::track_event::{Tracer, TracerConfig, Track, Unit};
    use tracebuf::producer::{
        ChunkPatch, ChunkToMove, ChunkToPatch, CommitRequest, CommitSink, Exhaustion, Producer,
    };
    use tracebuf::proto::frame::{FIRST, FRAME, FrameEncoder, PAYLOAD};
    use tracebuf_embedded::export::Blocking;
    use tracebuf_embedded::recorder::{self, Inbox, RingRecorder, Storage};
    use tracebuf_embedded::region::bytes;
    use tracebuf_embedded::send::Sender;
    use tracebuf_firmware::board::{self, BoardClock};

    /// The microbit has 16 KiB of RAM in all, of which the stack needs a half.
    const REGION_BYTES: usize = if cfg!(board = "microbit") { 6 } else { 16 } * 1024;

    static REGION: ConstStaticCell<[u64; REGION_BYTES / 8]> = ConstStaticCell::new([0; REGION_BYTES / 8]);
    static RING: ConstStaticCell<[u64; 256]> = ConstStaticCell::new([0; 256]);
    static STORAGE: Storage = Storage::new();
    static INBOX: Inbox = Inbox::new();
    static SPARE: Inbox = Inbox::new();
    static PRODUCER: StaticCell<Producer<'static>> = StaticCell::new();
    static MAIN: Track<'static> = Track::thread(1, 1, "main");
    static FIRMWARE: Track<'static> = Track::process(1, "firmware");
    static INTERRUPT: Track<'static> = Track::thread(1, 2, "interrupt").within(&FIRMWARE);
    static LEVEL: Track<'static> = Track::counter("level", Unit::Count);

    const CONFIG: TracerConfig = TracerConfig::new(board::FREQUENCY).unit_ns(1_000);

    type SmallTracer = Tracer<'static, BoardClock, 16, 4>;

    const PAINT: u32 = 0xA5A5_5A5A;
    const PAINTED: usize = 512;

    /// Bytes of stack that a call writes to.
    #[inline(never)]
    fn stack(work: impl FnOnce()) -> u32 {
        let top = msp::read() as usize;
        let word = |i: usize| (top - 4 * (i + 1)) as *mut u32;
        for i in 0..PAINTED {
            // SAFETY: this is memory below the stack, which nobody uses: no interrupt is on, and nothing is called.
            unsafe { word(i).write_volatile(PAINT) };
        }
        below(work);
        // SAFETY: as above, to read.
        let used = (0..PAINTED).rev().find(|i| unsafe { word(*i).read_volatile() } != PAINT);
        used.map_or(0, |i| 4 * (i as u32 + 1))
    }

    /// In a frame of its own, below the caller's.
    #[inline(never)]
    fn below(work: impl FnOnce()) {
        work();
    }

    /// Whether a line is over.
    struct Sheet(bool);

    impl Sheet {
        fn line(&mut self, name: &str, measured: u32, limit: u32, unit: &str) {
            // The limits are the M4's. An M0 has no multiplication to 64 bits, no shifted operands and fewer registers.
            let takes_more = unit == "instructions" || name.starts_with("high_water");
            let limit = if cfg!(board = "microbit") && takes_more { limit * 8 / 5 } else { limit };
            self.0 |= meter::is_over(format_args!("{name}"), measured, limit, unit);
        }
    }

    #[inline(never)]
    fn begin(tracer: &SmallTracer) {
        tracer.track().begin("slice");
    }

    #[inline(never)]
    fn end(tracer: &SmallTracer) {
        tracer.track().end();
    }

    #[inline(never)]
    fn count(tracer: &SmallTracer) {
        tracer.on(&LEVEL).count(black_box(1234));
    }

    #[inline(never)]
    fn commit(ring: &mut TraceBuffer<&'static mut [u8]>, chunk_id: u32, payload: &[u8]) {
        let header =
            ChunkHeader { producer_id: 1, writer_id: 1, chunk_id, fragments: 4, ..Default::default() };
        black_box(ring.copy_chunk_untrusted(&Chunk { header, payload }));
    }

    #[entry]
    fn main() -> ! {
        let Some(mut core) = cortex_m::Peripherals::take() else { finish(true) };
        meter::start(&mut core.SYST);
        // For the clock; its interrupts stay off.
        board::start(60_000, 60_000);
        let Ok((producer, mut recorder)) = RingRecorder::new(REGION.take(), &STORAGE, &INBOX) else {
            finish(true)
        };
        let producer = PRODUCER.init(producer);
        let Some(writer) = producer.writer(0, Exhaustion::Drop) else { finish(true) };
        let tracer: SmallTracer = Tracer::with_tables(writer, BoardClock, &MAIN, CONFIG);
        let mut sheet = Sheet(false);
        let meter = Meter::new();
        // The state, and the names.
        begin(&tracer);
        end(&tracer);
        count(&tracer);

        writing(&mut sheet, &meter, &tracer, &mut recorder, producer);
        rarely(&mut sheet, &meter, &mut recorder, producer);
        moving(&mut sheet, &meter, &tracer, &mut recorder, producer);
        telling(&mut sheet, &meter);
        framing(&mut sheet, &meter);
        buffer(&mut sheet, &meter);
        memory(&mut sheet);
        drop(tracer);
        finish(sheet.0)
    }

    fn writing(
        sheet: &mut Sheet,
        meter: &Meter,
        tracer: &SmallTracer,
        recorder: &mut RingRecorder<'static>,
        producer: &Producer<'static>,
    ) {
        let mut measure = |name: &str, limit: u32, worst: &str, most: u32, call: fn(&SmallTracer)| {
            let (median, largest) = many::<101>(|_| {
                let count = meter.count(|| call(tracer));
                recorder.drain(producer);
                count
            });
            sheet.line(name, median, limit, "instructions");
            sheet.line(worst, largest, most, "instructions");
        };
        measure("slice_begin", 200, "slice_begin_with_chunk_change", 2_000, begin);
        measure("slice_end", 200, "slice_end_with_chunk_change", 2_000, end);
        measure("counter", 400, "counter_with_chunk_change", 3_000, count);
        recorder.drain(producer);
        sheet.line("high_water_slice_begin", stack(|| begin(tracer)), 512, "bytes");
        // Nobody drains, so that shared memory is full and each event is given up.
        (0..1_000).for_each(|_| begin(tracer));
        sheet.line("event_dropped", meter.count(|| begin(tracer)), 1_000, "instructions");
        recorder.drain(producer);
    }

    /// What an interrupt must have time and stack for, though it does not happen often: the event that completes half
    /// of shared memory and so tells the drain of all its chunks, and the one that starts the state anew, in as many
    /// chunks as that takes: here for a track within another, and a name. The largest of the latter is both.
    #[inline(never)]
    fn rarely(
        sheet: &mut Sheet,
        meter: &Meter,
        recorder: &mut RingRecorder<'static>,
        producer: &'static Producer<'static>,
    ) {
        let Some(writer) = producer.writer(0, Exhaustion::Drop) else { finish(true) };
        let tracer: SmallTracer = Tracer::with_tables(writer, BoardClock, &INTERRUPT, CONFIG);
        let new_state = || {
            producer.clear_incremental_state();
            begin(&tracer);
        };
        // So many that half of shared memory is completed, and that none is given up.
        let chunks = producer.memory().pages() * producer.layout().chunks();
        let (short, long) = (10 * (chunks / 2 + 1), chunks / 2 - 4);
        let (mut sending, mut starting, mut deep) = (0, 0, 0);
        let lost = recorder.losses().packets;
        begin(&tracer);
        for _ in 0..20 {
            recorder.drain(producer);
            for _ in 0..short {
                sending = sending.max(meter.count(|| begin(&tracer)));
            }
            recorder.drain(producer);
            for _ in 0..long {
                starting = starting.max(meter.count(new_state));
            }
            recorder.drain(producer);
            deep = deep.max(stack(|| (0..long).for_each(|_| new_state())));
        }
        sheet.line("events_lost_in_rarely", recorder.losses().packets.wrapping_sub(lost), 0, "events");
        sheet.line("slice_begin_with_sending", sending, 4_000, "instructions");
        sheet.line("slice_begin_with_new_state", starting, 20_000, "instructions");
        sheet.line("high_water_new_state", deep, 700, "bytes");
    }

    /// A chunk from shared memory into the ring, which is full by now.
    fn moving(
        sheet: &mut Sheet,
        meter: &Meter,
        tracer: &SmallTracer,
        recorder: &mut RingRecorder<'static>,
        producer: &Producer<'static>,
    ) {
        let complete = || {
            for _ in 0..8 {
                begin(tracer);
                end(tracer);
            }
            tracer.flush();
            producer.commit();
        };
        let (median, _) = many::<21>(|_| {
            complete();
            let count = meter.count(|| {
                if let Some(request) = recorder.next_request() {
                    recorder.carry_out(request, producer);
                }
            });
            recorder.drain(producer);
            count
        });
        sheet.line("drain_of_a_chunk", median, 3_000, "instructions");
        complete();
        sheet.line("high_water_drain", stack(|| recorder.drain(producer)), 1_024, "bytes");
    }

    /// What a writer that completes a chunk tells the drain; interrupts are masked for about half of it.
    fn telling(sheet: &mut Sheet, meter: &Meter) {
        let chunks_to_move = &[ChunkToMove { page: 1, chunk: 0, target: 0 }];
        let request = CommitRequest { chunks_to_move, ..CommitRequest::default() };
        let (mut push, mut take) = (0, 0);
        for _ in 0..100 {
            push = push.max(meter.count(|| SPARE.commit(black_box(&request))));
            take = take.max(meter.count(|| {
                black_box(SPARE.take());
            }));
        }
        sheet.line("inbox_push", push, 150, "instructions");
        sheet.line("inbox_take", take, 150, "instructions");
        // More than there is room for, and what comes after one that was lost, for the time with interrupts masked.
        let patches = &[ChunkPatch { chunk_id: 1, offset: 8, data: [0x81, 0x80, 0x80, 0] }; 30];
        let chunk = ChunkToPatch { writer_id: 1, target: 0, chunk_id: 1, patches, has_more: false };
        let request = CommitRequest { chunks_to_patch: &[chunk], ..CommitRequest::default() };
        for _ in 0..2 {
            SPARE.commit(black_box(&request));
            while SPARE.take().is_some() {}
        }
    }

    /// A full frame: most of it is the CRC.
    fn framing(sheet: &mut Sheet, meter: &Meter) {
        let (piece, mut line, mut frames) = ([0x5A; PAYLOAD], [0; FRAME], FrameEncoder::new());
        let one = meter.count(|| {
            black_box(frames.encode(FIRST, black_box(&piece), &mut line));
        });
        sheet.line("frame", one, 2_000, "instructions");
    }

    fn buffer(sheet: &mut Sheet, meter: &Meter) {
        let Ok(mut ring) = TraceBuffer::new(bytes(RING.take()), recorder::CONFIG) else { return };
        // Four packets of 29 bytes.
        let mut payload = [1; 120];
        payload.iter_mut().step_by(30).for_each(|size| *size = 29);
        let (median, largest) = many::<101>(|id| meter.count(|| commit(&mut ring, id as u32, &payload)));
        sheet.line("chunk_commit", median, 2_000, "instructions");
        sheet.line("chunk_commit_worst", largest, 3_000, "instructions");
        sheet.line("high_water_commit", stack(|| commit(&mut ring, 101, &payload)), 512, "bytes");

        let mut reader = ring.read();
        let (median, largest) = many::<24>(|_| {
            meter.count(|| {
                black_box(reader.next_packet().map(|packet| packet.len()));
            })
        });
        sheet.line("packet_read", median, 500, "instructions");
        sheet.line("packet_read_worst", largest, 1_500, "instructions");
        let used = stack(|| {
            let mut reader = ring.read();
            while let Some(packet) = reader.next_packet() {
                packet.slices().for_each(|slice| {
                    black_box(slice);
                });
            }
        });
        sheet.line("high_water_read", used, 512, "bytes");
    }

    fn memory(sheet: &mut Sheet) {
        let fixed = recorder::CONFIG.region_size(4096) as usize - 4096 - 8 * 48;
        sheet.line("ram_ring_fixed", fixed as u32, 256, "bytes");
        let control = size_of::<TraceBuffer<&'static mut [u8]>>();
        sheet.line("ram_ring_control_block", control as u32, 64, "bytes");
        sheet.line("ram_tracer", size_of::<SmallTracer>() as u32, 1_000, "bytes");
        sheet.line("ram_writers", size_of_val(&STORAGE) as u32, 1_000, "bytes");
        sheet.line("ram_producer", size_of::<Producer<'static>>() as u32, 200, "bytes");
        sheet.line("ram_recorder", size_of::<RingRecorder<'static>>() as u32, 200, "bytes");
        sheet.line("ram_sender", size_of::<Sender<Blocking<board::Uart>>>() as u32, 1_000, "bytes");
        sheet.line("ram_inbox", size_of_val(&INBOX) as u32, 500, "bytes");
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        semihosting::println!("panic");
        semihosting::process::exit(2)
    }
}
