//! The firmware: an oven that is recorded in place. Who runs when, what is recorded, and how it gets out.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is firmware: run it from its own folder, which builds it for a board in QEMU");
}

#[cfg(target_os = "none")]
mod firmware {
    use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
    use cortex_m::peripheral::{NVIC, SCB};
    use cortex_m_rt::{ExceptionFrame, entry, exception};
    use defmt_semihosting as _;
    use tracebuf_embedded::export::Export;
    use tracebuf_embedded::inplace::{self, Found, Region, Timer};
    use tracebuf_embedded::outlet::Outlet;
    use tracebuf_firmware::board::{self, interrupt};
    use tracebuf_firmware::host::{Mode, end};
    use tracebuf_firmware::oven::{Controller, Oven, Program, Sensor as Probe};

    /// The micro:bit has 16 KiB in all.
    const CHUNKS: usize = if cfg!(board = "microbit") { 16 } else { 32 };
    type Trace = Region<32, 96, CHUNKS>;
    type Writer = inplace::Writer<'static, Trace, Clock>;

    /// Start-up code leaves it alone, so the start after a reset finds what was recorded before.
    #[unsafe(link_section = ".uninit.TRACE")]
    static TRACE: Trace = Region::zeroed();

    /// The board's clock, as one priority reads it.
    #[derive(Clone, Copy)]
    struct Clock(usize);

    impl Timer for Clock {
        #[inline(always)]
        fn ticks(&self) -> u32 {
            board::ticks(self.0)
        }
    }

    // The log and the trace share one clock.
    defmt::timestamp!("{=u64:us}", board::now(0) / (board::FREQUENCY / 1_000_000));

    /// Logs a line, which is also in the trace: the text as an instant, the values as its arguments.
    macro_rules! log {
        ($writer:expr, $text:literal $(, $value:ident)* $(,)?) => {{
            defmt::info!($text $(, $value)*);
            $writer.instant_with($text, |_details| {
                $(_details.arg(stringify!($value), $value as i32);)*
            });
        }};
    }

    // What the priorities tell each other.
    static MEASURED: AtomicI32 = AtomicI32::new(2_000);
    static TRUE_TEMPERATURE: AtomicI32 = AtomicI32::new(2_000);
    static WANTED: AtomicI32 = AtomicI32::new(0);
    static CRASH: AtomicU32 = AtomicU32::new(Mode::Send as u32);
    static STEPS_DONE: AtomicU32 = AtomicU32::new(0);
    // Totals of what went into the counters, to compare with the trace.
    static SAMPLES: AtomicU32 = AtomicU32::new(0);
    static POWER_SUM: AtomicI32 = AtomicI32::new(0);
    static TEMPERATURE_SUM: AtomicI32 = AtomicI32::new(0);

    /// Steps of the control loop until the firmware ends itself, or crashes, if asked to; and after a crash.
    const STEPS: u32 = 1_000;
    const FEW_STEPS: u32 = 200;

    fn add(sum: &AtomicI32, value: i32) {
        sum.store(sum.load(Relaxed).wrapping_add(value), Relaxed);
    }

    /// Of an interrupt, which makes its writer when it first runs. `None` before there is a recorder.
    fn start(slot: &mut Option<Writer>, track: &str, priority: usize) {
        if slot.is_none() {
            *slot =
                inplace::Recorder::existing(&TRACE, Clock(priority)).map(|recorder| recorder.writer(track));
        }
    }

    /// The interrupt with the higher priority: the control loop.
    #[cortex_m_rt::interrupt]
    fn Control() {
        static mut LOOP: Option<(Oven, Controller)> = None;
        static mut WRITER: Option<Writer> = None;
        board::acknowledge_control();
        start(WRITER, "control interrupt", 1);
        // The oven is controlled even if nothing is recorded.
        let writer = WRITER.as_ref();
        let (oven, controller) = LOOP.get_or_insert_with(|| (Oven::NEW, Controller::default()));
        let slice = writer.map(|writer| writer.enter("control"));
        let power = controller.step(MEASURED.load(Relaxed), WANTED.load(Relaxed));
        TRUE_TEMPERATURE.store(oven.step(power), Relaxed);
        drop(slice);
        if let Some(writer) = writer {
            writer.count("power", power);
        }
        add(&POWER_SUM, power);
        let steps = STEPS_DONE.load(Relaxed).wrapping_add(1);
        STEPS_DONE.store(steps, Relaxed);
        let crash = CRASH.load(Relaxed);
        if crash == Mode::Send as u32 || steps < FEW_STEPS {
            return;
        }
        // In the middle of a slice.
        if let Some(writer) = writer {
            writer.begin("last words");
            writer.instant_with("crash ahead", |details| {
                details.arg("steps", steps as i32).arg("power", power);
            });
        }
        if crash == Mode::Panic as u32 {
            panic!("asked to");
        }
        cortex_m::asm::udf();
    }

    /// The interrupt with the lower priority: the sensor.
    #[cortex_m_rt::interrupt]
    fn Sensor() {
        static mut PROBE: Probe = Probe::NEW;
        static mut WRITER: Option<Writer> = None;
        board::acknowledge_sensor();
        start(WRITER, "sensor interrupt", 2);
        let writer = WRITER.as_ref();
        let sample = writer.map(|writer| writer.enter("sample"));
        let filter = writer.map(|writer| writer.enter("filter"));
        let measured = PROBE.sample(TRUE_TEMPERATURE.load(Relaxed));
        drop((filter, sample));
        MEASURED.store(measured, Relaxed);
        if let Some(writer) = writer {
            writer.count("temperature", measured);
        }
        add(&TEMPERATURE_SUM, measured);
        SAMPLES.store(SAMPLES.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Where what is recorded goes.
    #[cfg(feature = "uart")]
    fn line() -> Result<impl Export, ()> {
        Ok(tracebuf_embedded::export::NonBlocking(board::Uart::start()))
    }

    /// Where what is recorded goes: a file on the debugger's host. On hardware, RTT.
    #[cfg(not(feature = "uart"))]
    fn line() -> Result<impl Export, ()> {
        tracebuf_firmware::host::file(c"firmware.bin").map_err(drop)
    }

    #[entry]
    fn main() -> ! {
        let mode = Mode::asked();
        let (recorder, found) = inplace::Recorder::attach_or_new(&TRACE, Clock(0), board::FREQUENCY as u32);
        let writer = recorder.writer("main loop");
        let crashes = matches!(mode, Mode::Panic | Mode::Fault);
        let steps = match found {
            Found::Start(number) => {
                log!(writer, "restarted: start {}", number);
                FEW_STEPS
            }
            Found::Nothing => {
                CRASH.store(if crashes { mode } else { Mode::Send } as u32, Relaxed);
                STEPS
            }
        };
        // SAFETY: what the handlers share is atomic.
        unsafe { board::start_interrupts(4_000, 9_200) };
        // A start that is to crash sends nothing: the next one has all of it to send.
        let will_crash = crashes && found == Found::Nothing;
        let sent = line().and_then(|line| run(&writer, Outlet::new(recorder, line), !will_crash, steps));
        let asked_for = (found != Found::Nothing) == crashes;
        // For the other interrupt, reaching the end of the steps shows the same.
        let sampled = SAMPLES.load(Relaxed) > 0;
        end(sent.is_ok() && asked_for && sampled && recorder.dropped() == 0)
    }

    /// The main loop: the state machine, then what is not urgent: sending.
    fn run(
        writer: &Writer,
        mut outlet: Outlet<'static, Trace, Clock, impl Export>,
        sends: bool,
        last_step: u32,
    ) -> Result<(), ()> {
        let mut program = Program::NEW;
        log!(writer, "starting");
        WANTED.store(program.state().wanted(), Relaxed);
        writer.begin(program.state().name());
        let mut seen = 0;
        while seen < last_step {
            let steps = STEPS_DONE.load(Relaxed);
            if steps != seen {
                seen = steps;
                let temperature = MEASURED.load(Relaxed);
                if let Some(state) = program.step(temperature) {
                    writer.end();
                    WANTED.store(state.wanted(), Relaxed);
                    log!(writer, "new state at {}", temperature);
                    writer.begin(state.name());
                }
            }
            if sends {
                outlet.poll().map_err(drop)?;
            }
            // Firmware on battery sleeps here, with `wfi`. When QEMU counts time in instructions, it loses every other
            // tick of the MPS2's timers while the core sleeps.
        }
        NVIC::mask(interrupt::Control);
        NVIC::mask(interrupt::Sensor);
        writer.end();
        let (steps, samples) = (STEPS_DONE.load(Relaxed), SAMPLES.load(Relaxed));
        let (powers, temperatures) = (POWER_SUM.load(Relaxed), TEMPERATURE_SUM.load(Relaxed));
        log!(writer, "{} steps, {} samples, sums {} and {}", steps, samples, powers, temperatures);
        outlet.finish().map_err(drop)
    }

    /// The log says that there was a panic. The region outlives the reset, as a watchdog's; the next start finds it.
    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        cortex_m::interrupt::disable();
        defmt::error!("panic");
        SCB::sys_reset()
    }

    /// Nothing is touched any more: it is unknown what is still intact.
    #[exception]
    unsafe fn HardFault(_: &ExceptionFrame) -> ! {
        SCB::sys_reset()
    }
}
