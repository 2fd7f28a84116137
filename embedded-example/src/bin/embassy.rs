//! Tasks of embassy-executor, recorded in place: one in an interrupt's executor, two in thread mode, one of which sends.
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
    use embassy_executor::{Executor, InterruptExecutor, task};
    use static_cell::StaticCell;
    use tracebuf_embedded::inplace::{self, Region};
    use tracebuf_embedded::outlet::Outlet;
    use tracebuf_embedded::{embassy, tasks};
    use tracebuf_firmware::board::{self, interrupt};
    use tracebuf_firmware::host::{self, end};

    type Trace = Region<64, 128, 16>;
    type Recorder = inplace::Recorder<'static, Trace, fn() -> u32>;
    type Writer = inplace::Writer<'static, Trace, fn() -> u32>;

    #[unsafe(link_section = ".uninit.TRACE")]
    static TRACE: Trace = Region::zeroed();
    static SCHEDULER: StaticCell<Writer> = StaticCell::new();
    static THREAD: StaticCell<Executor> = StaticCell::new();
    static HIGH: InterruptExecutor = InterruptExecutor::new();

    fn ticks() -> u32 {
        board::now(0) as u32
    }

    /// What an interrupt tells a task.
    struct Ticks(Mutex<RefCell<(u32, Option<Waker>)>>);

    impl Ticks {
        const fn new() -> Self {
            Ticks(Mutex::new(RefCell::new((0, None))))
        }

        fn tick(&self) {
            let waker = critical_section::with(|cs| {
                let (count, waker) = &mut *self.0.borrow_ref_mut(cs);
                *count += 1;
                waker.take()
            });
            if let Some(waker) = waker {
                waker.wake();
            }
        }

        /// Waits for a tick, and takes at most so many.
        async fn take(&self, most: u32) {
            poll_fn(|context| {
                critical_section::with(|cs| {
                    let (count, waker) = &mut *self.0.borrow_ref_mut(cs);
                    if *count == 0 {
                        *waker = Some(context.waker().clone());
                        return Poll::Pending;
                    }
                    *count = count.saturating_sub(most);
                    Poll::Ready(())
                })
            })
            .await;
        }
    }

    static CONTROL_TICKS: Ticks = Ticks::new();
    static SENSOR_TICKS: Ticks = Ticks::new();
    /// Signalled when there may be something to send, or everything is done.
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
        WORK.tick();
    }

    /// The executor of the higher priority polls its tasks here.
    #[cortex_m_rt::interrupt]
    fn Software() {
        // SAFETY: this is the interrupt that it was started for.
        unsafe { HIGH.on_interrupt() }
    }

    fn done() {
        critical_section::with(|cs| DONE.borrow(cs).set(DONE.borrow(cs).get() + 1));
        WORK.tick();
    }

    /// Each task that records has a writer of its own, whatever the priority.
    #[task]
    async fn control(writer: Writer) {
        for step in 0..100 {
            CONTROL_TICKS.take(1).await;
            let _slice = writer.enter("step");
            cortex_m::asm::delay(500);
            writer.count("level", step * 3);
        }
        done();
    }

    #[task]
    async fn sensor(writer: Writer) {
        for _ in 0..40 {
            SENSOR_TICKS.take(1).await;
            writer.instant("sample");
        }
        done();
    }

    /// Runs when the others wait.
    #[task]
    async fn send(recorder: Recorder) {
        let Ok(file) = host::file(c"embassy.bin") else { end(false) };
        let mut outlet = Outlet::new(recorder, file);
        while critical_section::with(|cs| DONE.borrow(cs).get()) < 2 {
            WORK.take(u32::MAX).await;
            if outlet.poll().is_err() {
                end(false);
            }
        }
        end(outlet.finish().is_ok() && tasks::lost() == 0)
    }

    #[entry]
    fn main() -> ! {
        let (recorder, _found) = Recorder::attach_or_new(&TRACE, ticks, board::FREQUENCY as u32);
        tasks::record(SCHEDULER.init(recorder.writer("scheduler")));
        board::start(4_000, 9_200);
        let high = HIGH.start(interrupt::Software);
        // SAFETY: the handlers may run from now on; what they touch is behind critical sections.
        unsafe {
            NVIC::unmask(interrupt::Control);
            NVIC::unmask(interrupt::Sensor);
        }
        let Ok(token) = control(recorder.writer("control's own")) else { end(false) };
        embassy::spawn_send(high, token, "control");
        THREAD.init(Executor::new()).run(|spawner| {
            let tasks = (sensor(recorder.writer("sensor's own")), send(recorder));
            let (Ok(sensor), Ok(send)) = tasks else { end(false) };
            embassy::spawn(spawner, sensor, "sensor");
            embassy::spawn(spawner, send, "send");
        })
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        end(false)
    }
}
