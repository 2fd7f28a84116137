//! An application of RTIC 2, recorded in place: hardware tasks of two priorities, a software task, and `idle`, which
//! sends. `.ci/firmware_tasks` compares its trace, and what a dump of its region holds, with what it does.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is firmware: cargo run --release --features rtic --bin rtic, in its own folder");
}

/// What RTIC asks of a device's crate.
#[cfg(target_os = "none")]
mod device {
    use cortex_m_rt as _;
    pub(crate) use tracebuf_firmware::board::interrupt;
    // Where priorities are made of interrupts' masks.
    #[cfg(not(target_has_atomic = "32"))]
    pub(crate) use tracebuf_firmware::board::interrupt as Interrupt;

    pub(crate) const NVIC_PRIO_BITS: u8 = if cfg!(target_has_atomic = "32") { 3 } else { 2 };
}

#[cfg(target_os = "none")]
#[rtic::app(device = crate::device, peripherals = false, dispatchers = [Software])]
mod app {
    use defmt_semihosting as _;
    use tracebuf_embedded::inplace::{self, Region};
    use tracebuf_embedded::outlet::Outlet;
    use tracebuf_firmware::board;
    use tracebuf_firmware::host::{self, end};

    const STEPS: i32 = 200;
    const SAMPLES: i32 = 40;
    const MILLISECOND: u32 = (board::FREQUENCY / 1_000) as u32;

    type Trace = Region<64, 128, 32>;
    type Recorder = inplace::Recorder<'static, Trace, fn() -> u32>;
    type Writer = inplace::Writer<'static, Trace, fn() -> u32>;

    #[unsafe(link_section = ".uninit.TRACE")]
    static TRACE: Trace = Region::zeroed();

    fn ticks() -> u32 {
        board::now(0) as u32
    }

    #[shared]
    struct Shared {
        /// Tasks that have more to do.
        busy: u32,
    }

    /// Each task has a writer of its own, whatever its priority.
    #[local]
    struct Local {
        recorder: Recorder,
        control_writer: Writer,
        sensor_writer: Writer,
        report_writer: Writer,
    }

    #[init]
    fn init(_: init::Context) -> (Shared, Local) {
        board::start(700, 5_000);
        let (recorder, _found) = Recorder::attach_or_new(&TRACE, ticks, board::FREQUENCY as u32);
        let local = Local {
            recorder,
            control_writer: recorder.writer("control"),
            sensor_writer: recorder.writer("sensor"),
            report_writer: recorder.writer("report"),
        };
        (Shared { busy: 2 }, local)
    }

    #[task(binds = Control, priority = 3, local = [control_writer, step: i32 = 0], shared = [busy])]
    fn control(mut context: control::Context) {
        board::acknowledge_control();
        let (writer, step) = (context.local.control_writer, context.local.step);
        if *step == STEPS {
            return;
        }
        let _slice = writer.enter("step");
        cortex_m::asm::delay(500);
        writer.count("level", *step * 3);
        *step += 1;
        if *step == STEPS {
            context.shared.busy.lock(|busy| *busy -= 1);
        }
    }

    /// Takes so long that the other one interrupts it.
    #[task(binds = Sensor, priority = 2, local = [sensor_writer, sample: i32 = 0])]
    fn sensor(context: sensor::Context) {
        board::acknowledge_sensor();
        let (writer, sample) = (context.local.sensor_writer, context.local.sample);
        if *sample == SAMPLES {
            return;
        }
        let _slice = writer.enter("sample");
        {
            let _slice = writer.enter("filter");
            cortex_m::asm::delay(MILLISECOND / 2);
        }
        if *sample % 2 == 0 && report::spawn(*sample).is_err() {
            end(false);
        }
        *sample += 1;
    }

    /// Takes until after the next sample, and ends before the one behind that.
    #[task(priority = 1, local = [report_writer], shared = [busy])]
    async fn report(mut context: report::Context, sample: i32) {
        let writer = context.local.report_writer;
        {
            let _slice = writer.enter("report");
            cortex_m::asm::delay(3 * MILLISECOND);
            writer.count("reported", sample * sample);
        }
        if sample + 2 == SAMPLES {
            context.shared.busy.lock(|busy| *busy -= 1);
        }
    }

    #[idle(local = [recorder], shared = [busy])]
    fn idle(mut context: idle::Context) -> ! {
        let Ok(file) = host::file(c"rtic.bin") else { end(false) };
        let mut outlet = Outlet::new(*context.local.recorder, file);
        while context.shared.busy.lock(|busy| *busy > 0) {
            if outlet.poll().is_err() {
                end(false);
            }
        }
        let is_sent = outlet.finish().is_ok();
        // What a debugger would save.
        let Ok(mut dump) = host::file(c"rtic.dump") else { end(false) };
        end(is_sent && TRACE.words().all(|word| matches!(dump(&word.to_le_bytes()), Ok(4))))
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        end(false)
    }
}
