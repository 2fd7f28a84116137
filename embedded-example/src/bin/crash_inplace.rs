//! Firmware to be stopped at any instruction: five priorities record in place, as much as they can.
//!
//! What each has finished is in a log: [`stops`](tracebuf_firmware::stops). The timers' periods have no common factor,
//! so that every priority interrupts the lower ones anywhere. The highest one is an NMI, pended by a handler that does
//! nothing else. On the micro:bit it is that handler: there an NMI must not record into a region that others use.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is firmware: .ci/firmware_crashes runs it");
}

#[cfg(target_os = "none")]
mod image {
    use cortex_m::peripheral::SCB;
    use cortex_m::peripheral::scb::SystemHandler;
    use cortex_m::peripheral::syst::SystClkSource;
    use cortex_m_rt::{entry, exception};
    use defmt_semihosting as _;
    use tracebuf::inplace::{Recorder, Timer, TrackId, Writer};
    use tracebuf_firmware::board::{self, interrupt};
    use tracebuf_firmware::stops::{self, Log, Trace, WRITERS};

    /// Events of the highest priority until the firmware ends. The ring is lapped some fifty times.
    const ROUNDS: u32 = 1_000;
    /// The micro:bit takes twice as long for an instruction, and longer for an event: half of the time is left.
    const SLOWER: u32 = if cfg!(board = "microbit") { 7 } else { 2 };

    #[unsafe(link_section = ".uninit.TRACE")]
    static TRACE: Trace = Trace::zeroed();
    static LOG: Log = Log::new();

    /// The board's clock, as the writer of this number reads it. Of its 32 bits the recorder gets 16, so that it has to
    /// count periods: the log has all of them.
    #[derive(Clone, Copy)]
    struct Clock(usize);

    impl Timer for Clock {
        const BITS: u32 = 16;

        #[inline(always)]
        fn ticks(&self) -> u32 {
            let ticks = board::ticks(self.0);
            if let Some(account) = LOG.accounts.get(self.0) {
                account.reads(ticks);
            }
            ticks & 0xFFFF
        }
    }

    struct Talker {
        writer: Writer<'static, Trace, Clock>,
        device: TrackId,
        number: usize,
    }

    impl Talker {
        /// In a handler at its first interrupt, when it has interrupted anything. It has no handle of the recorder.
        #[inline(never)]
        fn new(number: usize) -> Option<Self> {
            let recorder = Recorder::existing(&TRACE, Clock(number))?;
            let writer = recorder.writer(WRITERS.get(number)?);
            Some(Talker { writer, device: recorder.track("device", 1), number })
        }

        #[inline(never)]
        fn talk(&self, times: u32) {
            let Some(account) = LOG.accounts.get(self.number) else { return };
            for _ in 0..times {
                if self.number == WRITERS.len() - 1 && account.finished() == ROUNDS {
                    end();
                }
                account.note(&TRACE, |event| stops::record(&self.writer, self.device, event));
            }
        }
    }

    fn talk(talker: &mut Option<Talker>, number: usize, times: u32) {
        if talker.is_none() {
            *talker = Talker::new(number);
        }
        if let Some(talker) = talker {
            talker.talk(times);
        }
    }

    #[exception]
    fn PendSV() {
        static mut TALKER: Option<Talker> = None;
        talk(TALKER, 1, 3);
    }

    #[cortex_m_rt::interrupt]
    fn Sensor() {
        static mut TALKER: Option<Talker> = None;
        board::acknowledge_sensor();
        talk(TALKER, 2, 2);
        SCB::set_pendsv();
    }

    #[cortex_m_rt::interrupt]
    fn Control() {
        static mut TALKER: Option<Talker> = None;
        board::acknowledge_control();
        talk(TALKER, 3, 2);
    }

    #[cfg(board = "microbit")]
    #[exception]
    fn SysTick() {
        static mut TALKER: Option<Talker> = None;
        talk(TALKER, 4, 1);
    }

    #[cfg(not(board = "microbit"))]
    #[exception]
    fn SysTick() {
        // SAFETY: the register is the core's; writing one bit of it pends the NMI and does nothing else.
        unsafe { (*SCB::PTR).icsr.write(1 << 31) };
    }

    #[cfg(not(board = "microbit"))]
    #[exception]
    unsafe fn NonMaskableInt() {
        static mut TALKER: Option<Talker> = None;
        talk(TALKER, 4, 1);
    }

    #[entry]
    fn main() -> ! {
        let micros = |micros| micros * SLOWER;
        LOG.start();
        // SAFETY: nobody else has them.
        let mut core = unsafe { cortex_m::Peripherals::steal() };
        // SAFETY: all that the handlers share is atomic.
        unsafe {
            core.SCB.set_priority(SystemHandler::PendSV, 0xC0);
            core.SCB.set_priority(SystemHandler::SysTick, 0);
            board::start_interrupts(micros(59), micros(83));
        }
        // The clock has just begun with 0, so the recorder's 64 bits are the log's 32.
        Recorder::new(&TRACE, Clock(0), board::FREQUENCY as u32);
        let Some(talker) = Talker::new(0) else { end() };
        core.SYST.set_clock_source(SystClkSource::Core);
        core.SYST.set_reload(micros(37) * (board::FREQUENCY / 1_000_000) as u32);
        core.SYST.clear_current();
        core.SYST.enable_interrupt();
        core.SYST.enable_counter();
        loop {
            talker.talk(1);
        }
    }

    /// QEMU ends the run at a reset, if started with that option.
    fn end() -> ! {
        SCB::sys_reset()
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        tracebuf_firmware::host::end(false)
    }
}
