//! Traced tasks of embassy-executor: two that interrupts wake, and the drain.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is firmware: cargo run --release --features embassy --bin embassy, in its own folder");
}

#[cfg(target_os = "none")]
mod image {
    use core::cell::{Cell, RefCell};
    use core::future::poll_fn;
    use core::task::{Poll, Waker};
    use cortex_m::peripheral::NVIC;
    use cortex_m_rt::entry;
    use critical_section::Mutex;
    use defmt_semihosting as _;
    use embassy_executor::{Executor, task};
    use static_cell::{ConstStaticCell, StaticCell};
    use tracebuf::producer::track_event::{Clock, Extended32, Tracer, TracerConfig, Track, Unit};
    use tracebuf::producer::{Exhaustion, Producer};
    use tracebuf_embedded::embassy;
    use tracebuf_embedded::recorder::{Inbox, RingRecorder, Storage};
    use tracebuf_embedded::send::Sender;
    use tracebuf_firmware::board::{self, interrupt};
    use tracebuf_firmware::host::{self, end};

    /// Enough to hold the whole run.
    static REGION: ConstStaticCell<[u64; 8 * 1024]> = ConstStaticCell::new([0; 8 * 1024]);
    static STORAGE: Storage = Storage::new();
    static INBOX: Inbox = Inbox::with_wake(|| WORK.tick());
    static PRODUCER: StaticCell<Producer<'static>> = StaticCell::new();
    static TRACER: StaticCell<TaskTracer> = StaticCell::new();
    static EXECUTOR: StaticCell<Executor> = StaticCell::new();
    static CLOCK: Extended32 = Extended32::new();

    static FIRMWARE: Track<'static> = Track::process(1, "tasks");
    static THREAD: Track<'static> = Track::thread(1, 1, "executor").within(&FIRMWARE);
    static CONTROL: Track<'static> = Track::custom("control").within(&FIRMWARE);
    static SENSOR: Track<'static> = Track::custom("sensor").within(&FIRMWARE);
    static DRAIN: Track<'static> = Track::custom("drain").within(&FIRMWARE);
    static LEVEL: Track<'static> = Track::counter("level", Unit::Count).within(&FIRMWARE);

    struct BoardClock;

    impl Clock for BoardClock {
        fn now(&self) -> u64 {
            CLOCK.extend(|| board::ticks(0))
        }
    }

    /// All tasks have one priority, and one tracer.
    type TaskTracer = Tracer<'static, BoardClock, 16, 8>;

    /// What an interrupt tells a task.
    struct Ticks {
        count: Mutex<Cell<u32>>,
        waker: Mutex<RefCell<Option<Waker>>>,
    }

    impl Ticks {
        const fn new() -> Self {
            Ticks { count: Mutex::new(Cell::new(0)), waker: Mutex::new(RefCell::new(None)) }
        }

        fn tick(&self) {
            let waker = critical_section::with(|cs| {
                self.count.borrow(cs).set(self.count.borrow(cs).get() + 1);
                self.waker.borrow_ref_mut(cs).take()
            });
            if let Some(waker) = waker {
                waker.wake();
            }
        }

        /// Takes a tick.
        async fn next(&self) {
            self.take(1).await;
        }

        /// Takes all pending ticks: for a task that does in one turn everything it was woken for.
        async fn all(&self) {
            self.take(u32::MAX).await;
        }

        /// Waits for a tick, and takes at most so many.
        async fn take(&self, most: u32) {
            poll_fn(|context| {
                critical_section::with(|cs| match self.count.borrow(cs).get() {
                    0 => {
                        *self.waker.borrow_ref_mut(cs) = Some(context.waker().clone());
                        Poll::Pending
                    }
                    count => {
                        self.count.borrow(cs).set(count.saturating_sub(most));
                        Poll::Ready(())
                    }
                })
            })
            .await;
        }
    }

    static CONTROL_TICKS: Ticks = Ticks::new();
    static SENSOR_TICKS: Ticks = Ticks::new();
    /// Signalled when there is something to drain, or everything is done.
    static WORK: Ticks = Ticks::new();
    static DONE: Mutex<Cell<u32>> = Mutex::new(Cell::new(0));

    #[cortex_m_rt::interrupt]
    fn Control() {
        board::acknowledge_control();
        CONTROL_TICKS.tick();
    }

    #[cortex_m_rt::interrupt]
    fn Sensor() {
        board::acknowledge_sensor();
        SENSOR_TICKS.tick();
    }

    fn done() {
        critical_section::with(|cs| DONE.borrow(cs).set(DONE.borrow(cs).get() + 1));
        WORK.tick();
    }

    #[task]
    async fn control(tracer: &'static TaskTracer) {
        for step in 0..100 {
            CONTROL_TICKS.next().await;
            tracer.on(&CONTROL).slice("step", || cortex_m::asm::delay(500));
            tracer.on(&LEVEL).count(step * 3);
        }
        done();
    }

    #[task]
    async fn sensor(tracer: &'static TaskTracer) {
        for _ in 0..40 {
            SENSOR_TICKS.next().await;
            tracer.on(&SENSOR).instant("sample");
        }
        done();
    }

    /// It has the same priority as the others, and runs when they wait.
    #[task]
    async fn drain(
        producer: &'static Producer<'static>,
        tracer: &'static TaskTracer,
        mut recorder: RingRecorder<'static>,
    ) {
        while critical_section::with(|cs| DONE.borrow(cs).get()) < 2 {
            WORK.all().await;
            recorder.drain(producer);
        }
        tracer.flush();
        recorder.scrape(producer);
        let sent = host::file(c"embassy.pftrace").map(|f| Sender::raw(f).finish(&mut recorder));
        end(matches!(sent, Ok(Ok(()))))
    }

    #[entry]
    fn main() -> ! {
        let Ok((producer, recorder)) = RingRecorder::new(REGION.take(), &STORAGE, &INBOX) else { end(false) };
        let producer = PRODUCER.init(producer);
        let Some(writer) = producer.writer(0, Exhaustion::Drop) else { end(false) };
        let config = TracerConfig::new(board::FREQUENCY).unit_ns(1_000);
        let tracer = &*TRACER.init(Tracer::with_tables(writer, BoardClock, &THREAD, config));
        // SAFETY: there is one executor, which runs in thread mode, as does this.
        unsafe { embassy::trace(tracer, &THREAD) };
        board::start(4_000, 9_200);
        // SAFETY: both handlers may run from now on; what they touch is behind critical sections.
        unsafe {
            NVIC::unmask(interrupt::Control);
            NVIC::unmask(interrupt::Sensor);
        }
        EXECUTOR.init(Executor::new()).run(|spawner| {
            let tasks = (control(tracer), sensor(tracer), drain(producer, tracer, recorder));
            let (Ok(control), Ok(sensor), Ok(drain)) = tasks else { end(false) };
            embassy::spawn(spawner, control, "control", &CONTROL);
            embassy::spawn(spawner, sensor, "sensor", &SENSOR);
            embassy::spawn(spawner, drain, "drain", &DRAIN);
        })
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        end(false)
    }
}
