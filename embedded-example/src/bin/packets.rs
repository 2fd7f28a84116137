//! The oven, whose trace is packets on the device: who runs when, and what is traced.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is firmware: cargo run --release --bin packets, in its own folder");
}

#[cfg(target_os = "none")]
mod firmware {
    use core::cell::Cell;
    use core::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};
    use cortex_m::interrupt::Mutex;
    use cortex_m::peripheral::{NVIC, SCB};
    use cortex_m_rt::{ExceptionFrame, entry, exception};
    use defmt_semihosting as _;
    use static_cell::StaticCell;
    use tracebuf::buffer::{ReadOnlyTraceBuffer, TraceBuffer};
    use tracebuf::producer::track_event::{Clock, Tracer, TracerConfig, Track};
    use tracebuf::producer::{Exhaustion, Producer};
    use tracebuf_embedded::export::Export;
    use tracebuf_embedded::recorder::{Inbox, RingRecorder, Storage, WRITERS, state_every};
    use tracebuf_embedded::region::{self, Region};
    use tracebuf_embedded::send::{Progress, Sender};
    use tracebuf_embedded::trigger::{High, Trigger};
    use tracebuf_firmware::board::{self, interrupt};
    use tracebuf_firmware::host::{Mode, end, file};
    use tracebuf_firmware::oven::{CONTROL, MAIN, POWER, SENSOR, TEMPERATURE};
    use tracebuf_firmware::oven::{Controller, Oven, Program, Sensor as Probe};

    /// The micro:bit has 16 KiB in all.
    const TRACE_BYTES: usize = if cfg!(board = "microbit") { 6 } else { 8 } * 1024;

    /// Start-up code leaves it alone, so the start after a reset finds what was recorded before.
    #[unsafe(link_section = ".uninit.TRACE")]
    static TRACE: Region<{ TRACE_BYTES / 8 }> = Region::zeroed();
    /// For the ring as it was around an alarm. On the micro:bit the stack needs what is left.
    static SNAPSHOT: Region<{ if cfg!(board = "microbit") { 0 } else { TRACE_BYTES / 8 } }> =
        Region::zeroed();
    static STORAGE: Storage = Storage::new();
    static INBOX: Inbox = Inbox::new();
    static PRODUCER: StaticCell<Producer<'static>> = StaticCell::new();
    /// For the interrupts, which make their writers when they first run.
    static SHARED: Mutex<Cell<Option<&'static Producer<'static>>>> = Mutex::new(Cell::new(None));

    /// Times have a resolution of a microsecond; the state starts anew each quarter of the ring.
    const CONFIG: TracerConfig =
        TracerConfig::new(board::FREQUENCY).unit_ns(1_000).state_every(state_every(TRACE_BYTES));

    /// Steps of the control loop until the firmware crashes, if asked to, and until a start after a crash ends itself.
    const FEW_STEPS: u32 = 200;

    /// The board's clock as one priority reads it.
    struct PriorityClock(usize);

    impl Clock for PriorityClock {
        fn now(&self) -> u64 {
            board::now(self.0)
        }
    }

    // The log and the trace share one clock.
    defmt::timestamp!("{=u64:us}", board::now(0) / (board::FREQUENCY / 1_000_000));

    /// A tracer with few names, to save memory.
    type SmallTracer = Tracer<'static, PriorityClock, 16, 4>;

    /// The ring at an alarm.
    type Snapshot = ReadOnlyTraceBuffer<&'static mut [u8]>;

    /// The tracer of a priority. `None` if there are more than [`WRITERS`]. Not inlined: where an interrupt calls it,
    /// moving the tracer over the stack must not add to what the interrupt itself needs.
    #[inline(never)]
    fn tracer(track: &'static Track<'static>, priority: usize) -> Option<SmallTracer> {
        let producer = cortex_m::interrupt::free(|cs| SHARED.borrow(cs).get())?;
        let writer = producer.writer(0, Exhaustion::Drop)?;
        Some(Tracer::with_tables(writer, PriorityClock(priority), track, CONFIG))
    }

    #[inline(never)]
    fn start(slot: &mut Option<SmallTracer>, track: &'static Track<'static>, priority: usize) {
        *slot = tracer(track, priority);
    }

    /// Logs a line, which also appears in the trace: the text as an instant, the values as its arguments.
    macro_rules! log {
    ($track:expr, $text:literal $(, $value:ident)* $(,)?) => {{
        defmt::info!($text $(, $value)*);
        $track.instant_with($text, |event| event$(.arg(stringify!($value), $value))*);
    }};
}

    // What the priorities tell each other. Each has one writer, so loads and stores are enough.
    static TRUE_TEMPERATURE: AtomicI32 = AtomicI32::new(2_000);
    static MEASURED: AtomicI32 = AtomicI32::new(2_000);
    static WANTED: AtomicI32 = AtomicI32::new(2_000);
    /// What should happen, as a [`Mode`]; [`Mode::Record`] for nothing.
    static CRASH: AtomicU32 = AtomicU32::new(Mode::Record as u32);
    static STEPS_DONE: AtomicU32 = AtomicU32::new(0);
    // Totals of what went into the counters, to compare with the trace.
    static SAMPLES: AtomicU32 = AtomicU32::new(0);
    static POWER_SUM: AtomicI32 = AtomicI32::new(0);
    static TEMPERATURE_SUM: AtomicI32 = AtomicI32::new(0);

    fn add(sum: &AtomicI32, value: i32) {
        sum.store(sum.load(Relaxed).wrapping_add(value), Relaxed);
    }

    /// The interrupt with the higher priority: the control loop.
    #[cortex_m_rt::interrupt]
    fn Control() {
        static mut LOOP: Option<(Oven, Controller)> = None;
        static mut TRACER: Option<SmallTracer> = None;
        board::acknowledge_control();
        if TRACER.is_none() {
            start(TRACER, &CONTROL, 1);
        }
        // The oven is controlled even without a tracer.
        let tracer = TRACER.as_ref();
        let (oven, controller) = LOOP.get_or_insert_with(|| (Oven::NEW, Controller::default()));
        let slice = tracer.map(|tracer| tracer.track().enter("control"));
        let power = controller.step(MEASURED.load(Relaxed), WANTED.load(Relaxed));
        TRUE_TEMPERATURE.store(oven.step(power), Relaxed);
        drop(slice);
        if let Some(tracer) = tracer {
            tracer.on(&POWER).count(power.into());
        }
        add(&POWER_SUM, power);
        let steps = STEPS_DONE.load(Relaxed).wrapping_add(1);
        STEPS_DONE.store(steps, Relaxed);
        let crash = CRASH.load(Relaxed);
        if crash == Mode::Record as u32 || steps < FEW_STEPS {
            return;
        }
        if crash == Mode::Alarm as u32 {
            if steps == FEW_STEPS {
                if let Some(tracer) = tracer {
                    tracer.track().instant("alarm");
                }
                board::Lamp::start().light();
            }
            return;
        }
        // In the middle of a slice, with nothing flushed.
        if let Some(tracer) = tracer {
            let track = tracer.track();
            track.begin("last words");
            track.instant_with("crash ahead", |event| event.arg("steps", steps).arg("power", power));
        }
        if CRASH.load(Relaxed) == Mode::Panic as u32 {
            panic!("asked to");
        }
        cortex_m::asm::udf();
    }

    /// The interrupt with the lower priority: the sensor.
    #[cortex_m_rt::interrupt]
    fn Sensor() {
        static mut PROBE: Probe = Probe::NEW;
        static mut TRACER: Option<SmallTracer> = None;
        board::acknowledge_sensor();
        if TRACER.is_none() {
            start(TRACER, &SENSOR, 2);
        }
        let tracer = TRACER.as_ref();
        let sample = tracer.map(|tracer| tracer.track().enter("sample"));
        let filter = tracer.map(|tracer| tracer.track().enter("filter"));
        let measured = PROBE.sample(TRUE_TEMPERATURE.load(Relaxed));
        drop((filter, sample));
        MEASURED.store(measured, Relaxed);
        if let Some(tracer) = tracer {
            tracer.on(&TEMPERATURE).count(measured.into());
        }
        add(&TEMPERATURE_SUM, measured);
        SAMPLES.store(SAMPLES.load(Relaxed).wrapping_add(1), Relaxed);
    }

    #[entry]
    fn main() -> ! {
        let mode = Mode::asked();
        // SAFETY: this runs once per start.
        let region = unsafe { TRACE.take() };
        let mut found = None;
        let attached = RingRecorder::attach_or_new(region, &STORAGE, &INBOX, |ring, salvage| {
            found = Some(salvage);
            send_before(ring);
        });
        // This firmware exists to be traced. Other firmware goes on without tracing, like that of the tutorial.
        let Ok((producer, recorder)) = attached else { end(false) };
        let producer = PRODUCER.init(producer);
        cortex_m::interrupt::free(|cs| SHARED.borrow(cs).set(Some(producer)));
        let Some(tracer) = tracer(&MAIN, 0) else { end(false) };
        if let Some(salvage) = found {
            let (kept, dropped) = (salvage.chunks_kept, salvage.chunks_dropped());
            log!(tracer.track(), "restarted: {} chunks kept, {} dropped", kept, dropped);
        } else {
            let quiet = matches!(mode, Mode::Send | Mode::Laps | Mode::Untraced);
            CRASH.store(if quiet { Mode::Record } else { mode } as u32, Relaxed);
        }
        let taken = || [(); WRITERS].map(|()| producer.writer(0, Exhaustion::Drop));
        let _others = (mode == Mode::Untraced).then(taken);

        // SAFETY: what the handlers share is atomic, or only used with interrupts masked.
        unsafe { board::start_interrupts(4_000, 9_200) };
        let steps = match mode {
            _ if found.is_some() => FEW_STEPS,
            // A thousand laps of the ring: three minutes.
            Mode::Laps => 48_000,
            _ => 1_000,
        };
        let sent = run(producer, &tracer, recorder, mode, steps);
        drop(tracer);
        let asked_for = found.is_some() == matches!(mode, Mode::Panic | Mode::Fault);
        // For the other interrupt, reaching the end of the steps shows the same.
        let sampled = SAMPLES.load(Relaxed) > 0;
        end(sent.is_ok() && asked_for && sampled)
    }

    /// Bytes that the trace continues after an alarm: a good third of the ring.
    const AFTER_ALARM: u32 = 2_000;

    /// Sends what the ring held around the alarm. The UART is the only line, which the ring's packets already go over.
    fn send_snapshot(snapshot: &mut Snapshot) -> Result<(), ()> {
        if cfg!(feature = "uart") {
            return Ok(());
        }
        let file = file(c"snapshot.pftrace").map_err(drop)?;
        Sender::raw(file).send_snapshot(snapshot).map_err(drop)
    }

    /// What an earlier start recorded goes into a file of its own: its times overlap with this start's. On the UART it
    /// comes first. `tracebuf receive` puts it into that start's file if it received the rest of that start too;
    /// otherwise only its sequences tell it apart.
    fn send_before(ring: &mut TraceBuffer<&'static mut [u8]>) {
        if cfg!(feature = "uart") {
            return;
        }
        // Without a host to take it, it stays in the ring and comes with the rest.
        let Ok(file) = file(c"before.pftrace") else { return };
        let mut sender = Sender::raw(file);
        if sender.finish_ring(ring).is_err() {
            sender.abandon(ring);
        }
    }

    /// Where the trace goes.
    #[cfg(feature = "uart")]
    fn line() -> Result<Sender<impl Export>, ()> {
        Ok(Sender::framed(tracebuf_embedded::export::NonBlocking(board::Uart::start())))
    }

    /// Where the trace goes.
    #[cfg(not(feature = "uart"))]
    fn line() -> Result<Sender<impl Export>, ()> {
        file(c"firmware.pftrace").map(Sender::raw).map_err(drop)
    }

    /// The main loop: the state machine, then what is not urgent: the drain and sending the trace.
    fn run(
        producer: &Producer<'static>,
        tracer: &SmallTracer,
        mut recorder: RingRecorder<'static>,
        mode: Mode,
        last_step: u32,
    ) -> Result<(), ()> {
        let mut sender = line()?;
        let mut trigger = Trigger::new(High(board::Lamp::start()), AFTER_ALARM);
        // SAFETY: this runs once per start.
        let mut snapshot_memory = Some(region::bytes(unsafe { SNAPSHOT.take() }));
        let mut program = Program::NEW;
        let track = tracer.track();
        log!(track, "starting");
        WANTED.store(program.state().wanted(), Relaxed);
        track.begin(program.state().name());
        tracer.flush();
        let mut seen = 0;
        while seen < last_step {
            let steps = STEPS_DONE.load(Relaxed);
            if steps != seen {
                seen = steps;
                let temperature = MEASURED.load(Relaxed);
                if let Some(state) = program.step(temperature) {
                    track.end();
                    WANTED.store(state.wanted(), Relaxed);
                    log!(track, "new state at {}", temperature);
                    track.begin(state.name());
                    // The writer's next event may be far away: do not keep the ring waiting for the rest of a packet.
                    tracer.flush();
                }
            }
            recorder.drain(producer);
            if let Ok(Some(mut snapshot)) = trigger.poll(recorder.buffer(), &mut snapshot_memory) {
                log!(track, "snapshot");
                send_snapshot(&mut snapshot)?;
            }
            if mode != Mode::Send || sender.poll(recorder.buffer()).map_err(drop)? == Progress::Idle {
                // Firmware on battery sleeps here, with `wfi`. When QEMU counts time in instructions, it loses every other
                // tick of the MPS2's timers while the core sleeps.
                core::hint::spin_loop();
            }
        }
        NVIC::mask(interrupt::Control);
        NVIC::mask(interrupt::Sensor);
        track.end();
        let (steps, samples) = (STEPS_DONE.load(Relaxed), SAMPLES.load(Relaxed));
        let (powers, temperatures) = (POWER_SUM.load(Relaxed), TEMPERATURE_SUM.load(Relaxed));
        log!(track, "{} steps, {} samples, sums {} and {}", steps, samples, powers, temperatures);
        tracer.flush();
        recorder.scrape(producer);
        sender.finish(&mut recorder).map_err(drop)
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
