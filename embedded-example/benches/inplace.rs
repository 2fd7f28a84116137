//! The cost sheet of recording in place on a Cortex-M4, or a Cortex-M0, in QEMU.
//!
//! A line for each figure: `budget NAME MEASURED LIMIT UNIT ok|over`. Instructions are counted by SysTick, which QEMU
//! advances by the instruction, and which is the recorder's timer too.
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
    use crate::meter::{self, FULL, Meter, finish, many};
    use core::hint::black_box;
    use cortex_m::peripheral::SYST;
    use cortex_m_rt::entry;
    use defmt_semihosting as _;
    use tracebuf::inplace::{Recorder, Region, Sender, Writer, linked_name};
    use tracebuf_firmware::board;

    type Trace = Region<64, 128, 16>;
    static TRACE: Trace = Region::zeroed();
    /// Of four chunks, to have them all taken.
    static SMALL: Region<16, 32, 4> = Region::zeroed();

    #[derive(Clone, Copy)]
    struct Ticks;

    impl tracebuf::inplace::Timer for Ticks {
        const BITS: u32 = 24;

        #[inline(always)]
        fn ticks(&self) -> u32 {
            !SYST::get_current() & FULL
        }
    }

    type TraceWriter = Writer<'static, Trace, Ticks>;

    /// Whether a line is over.
    struct Sheet(bool);

    impl Sheet {
        /// An event, and one that claims a chunk.
        fn pair(&mut self, [name, claims]: [&str; 2], (median, largest): (u32, u32), limits: (u32, u32)) {
            self.line(name, median, limits, "instructions");
            let claim = largest.saturating_sub(median);
            self.line(claims, claim, (120, 165), "instructions");
        }

        /// The first limit is the M4's, the second the M0's.
        fn line(&mut self, name: &str, measured: u32, limits: (u32, u32), unit: &str) {
            let limit = if cfg!(board = "microbit") { limits.1 } else { limits.0 };
            self.0 |= meter::is_over(format_args!("inplace_{name}"), measured, limit, unit);
        }
    }

    #[entry]
    fn main() -> ! {
        // SAFETY: nobody else has them. To take them would mask interrupts, and nothing else here is meant to.
        let mut core = unsafe { cortex_m::Peripherals::steal() };
        meter::start(&mut core.SYST);
        let recorder = Recorder::new(&TRACE, Ticks, board::FREQUENCY as u32);
        let writer = recorder.writer("main");
        let mut sheet = Sheet(false);
        let meter = Meter::new();

        let first = meter.count(|| writer.begin("first"));
        let claims = first;
        let second = meter.count(|| writer.instant("8 bytes!"));
        sheet.line("first_name", second, (320, 420), "instructions");
        // The names. Of slices, one whose place in the table is its own: each place jumped over takes ten more.
        let names = ["slice", "piece", "part"];
        let cost = |name: &&'static str| many::<5>(|_| meter.count(|| writer.begin(name))).0;
        let slice = names.into_iter().min_by_key(cost).unwrap_or_default();
        writer.count("level", 0);
        writer.count_i64("total", 0);
        let (value, long) = (black_box(1234), black_box(1 << 40));
        let begin = many::<201>(|_| meter.count(|| writer.begin(slice)));
        sheet.pair(["begin", "begin_claims"], begin, (65, 80));
        let end = many::<201>(|_| meter.count(|| writer.end()));
        sheet.pair(["end", "end_claims"], end, (55, 65));
        let count = many::<201>(|_| meter.count(|| writer.count("level", value)));
        sheet.pair(["count", "count_claims"], count, (80, 95));
        let (median, worst) = many::<201>(|_| meter.count(|| writer.count_i64("total", long)));
        sheet.line("count_i64", median, (100, 120), "instructions");
        sheet.line("worst_event", worst, (280, 370), "instructions");
        sheet.line("first_event", claims, (320 + 120, 420 + 165), "instructions");
        let linked = many::<201>(|_| meter.count(|| writer.named(linked_name!("linked")).begin()));
        sheet.line("begin_linked", linked.0, (65, 80), "instructions");
        jumps(&mut sheet, &meter);
        sends(&mut sheet, &meter, recorder, &writer);
        sheet.line("ram_writer", size_of::<TraceWriter>() as u32, (24, 24), "bytes");
        let fixed = size_of::<Trace>() - 64 * 8 - 512 - 16 * 256;
        sheet.line("ram_fixed", fixed as u32, (64, 64), "bytes");
        finish(sheet.0)
    }

    /// What a chunk of 59 events costs on its way out, copied and framed.
    #[inline(never)]
    fn sends(
        sheet: &mut Sheet,
        meter: &Meter,
        recorder: Recorder<'static, Trace, Ticks>,
        writer: &TraceWriter,
    ) {
        let (mut sender, mut line) = (Sender::new(recorder), [0; 64]);
        let mut send = |bytes: &mut u32| {
            *bytes = 0;
            loop {
                let len = sender.fill(&mut line);
                *bytes += len as u32;
                if len < line.len() {
                    break;
                }
            }
        };
        let (mut bytes, mut copy) = (0, [0; 64]);
        // The first time with names and the time, and with all that there is.
        send(&mut bytes);
        let fill = || (0..60).for_each(|_| writer.end());
        let frames = many::<9>(|_| {
            fill();
            meter.count(|| send(&mut bytes))
        });
        sheet.line("send_chunk", frames.0, (24_000, 33_000), "instructions");
        sheet.line("send_chunk_bytes", bytes, (256 + 11, 256 + 11), "bytes");
        sheet.line("send_nothing", meter.count(|| send(&mut bytes)), (500, 700), "instructions");
        let copies = many::<9>(|_| {
            fill();
            meter.count(|| {
                black_box(recorder.copy_chunk(black_box(&mut copy)).map(|chunk| chunk.taken()));
            })
        });
        sheet.line("copy_chunk", copies.0, (700, 800), "instructions");
    }

    /// What each place costs that another writer has: with three taken, and with all.
    #[inline(never)]
    fn jumps(sheet: &mut Sheet, meter: &Meter) {
        let recorder = Recorder::new(&SMALL, Ticks, board::FREQUENCY as u32);
        let writers: [_; 5] = core::array::from_fn(|_| recorder.writer("w"));
        let [one, two, three, four, five] = &writers;
        let event = |writer: &Writer<'static, Region<16, 32, 4>, Ticks>| meter.count(|| writer.end());
        let free = event(one);
        two.end();
        three.end();
        let late = event(four);
        // Eight places are tried in vain.
        let dropped = event(five);
        sheet.line("claim", free.max(late), (55 + 120, 65 + 165), "instructions");
        sheet.line("jump", dropped.saturating_sub(free) / 8, (25, 40), "instructions");
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        semihosting::println!("panic");
        semihosting::process::exit(2)
    }
}
