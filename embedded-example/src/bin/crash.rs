//! Firmware to be stopped at any instruction: three writers that write as much as the ring can take.
//!
//! Everything that happens to the ring is first written into a log. A packet is a timestamp and a text, whose length
//! and letters follow from its number; many packets span several chunks, so there are patches.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("this is firmware: .ci/firmware_crashes runs it");
}

#[cfg(target_os = "none")]
mod image {
    use core::cell::Cell;
    use core::sync::atomic::{AtomicU32, Ordering::SeqCst, compiler_fence};
    use cortex_m::interrupt::Mutex;
    use cortex_m::peripheral::{NVIC, SCB};
    use cortex_m_rt::entry;
    use defmt_semihosting as _;
    use static_cell::{ConstStaticCell, StaticCell};
    use tracebuf::buffer::{Chunk, ChunkFlags};
    use tracebuf::producer::{Consumer, Exhaustion, HeaderFlags, Producer, Request, TraceWriter};
    use tracebuf_embedded::recorder::{Inbox, RingRecorder, Storage};
    use tracebuf_embedded::region::Region;
    use tracebuf_firmware::board::{self, interrupt};
    use tracebuf_firmware::crash_log::{self, DATA, ENTRY, Kind, MAGIC, Operation, TEXT};

    const TRACE_BYTES: usize = 6 * 1024;
    /// Operations until the firmware ends: the ring is lapped some thirty times. The micro:bit has no room for a longer
    /// log.
    const OPERATIONS: usize = if cfg!(board = "microbit") { 16 } else { 1_500 };

    #[unsafe(link_section = ".uninit.TRACE")]
    static TRACE: Region<{ TRACE_BYTES / 8 }> = Region::zeroed();
    static STORAGE: Storage = Storage::new();
    static INBOX: Inbox = Inbox::new();
    static PRODUCER: StaticCell<Producer<'static>> = StaticCell::new();
    static SHARED: Mutex<Cell<Option<&'static Producer<'static>>>> = Mutex::new(Cell::new(None));
    static LOG: ConstStaticCell<Log> = ConstStaticCell::new(Log {
        magic: [0; 8],
        started: AtomicU32::new(0),
        finished: AtomicU32::new(0),
        entries: [[0; ENTRY]; OPERATIONS],
    });

    #[repr(C, align(8))]
    struct Log {
        magic: [u8; 8],
        started: AtomicU32,
        finished: AtomicU32,
        entries: [[u8; ENTRY]; OPERATIONS],
    }

    impl Log {
        /// Does something to the ring, and logs it before and after. False if the log is full.
        fn note(&mut self, operation: &Operation<'_>, work: impl FnOnce()) -> bool {
            let number = self.started.load(SeqCst);
            let Some(entry) = self.entries.get_mut(number as usize) else { return false };
            operation.write(entry);
            compiler_fence(SeqCst);
            self.started.store(number + 1, SeqCst);
            compiler_fence(SeqCst);
            work();
            compiler_fence(SeqCst);
            self.finished.store(number + 1, SeqCst);
            true
        }
    }

    /// Writes packets, each with its number.
    struct Talker {
        writer: TraceWriter<'static>,
        number: u32,
    }

    impl Talker {
        #[inline(never)]
        fn new() -> Option<Self> {
            let producer = cortex_m::interrupt::free(|cs| SHARED.borrow(cs).get())?;
            Some(Talker { writer: producer.writer(0, Exhaustion::Drop)?, number: 0 })
        }

        fn talk(&mut self) {
            let number = self.number;
            self.number += 1;
            let mut memory = [0; TEXT];
            let text = crash_log::text(number, &mut memory);
            let mut packet = self.writer.packet();
            packet.varint(8, u64::from(number));
            packet.message(900).bytes(1, text);
        }
    }

    #[cortex_m_rt::interrupt]
    fn Control() {
        static mut TALKER: Option<Talker> = None;
        board::acknowledge_control();
        if TALKER.is_none() {
            *TALKER = Talker::new();
        }
        TALKER.iter_mut().for_each(Talker::talk);
    }

    #[cortex_m_rt::interrupt]
    fn Sensor() {
        static mut TALKER: Option<Talker> = None;
        board::acknowledge_sensor();
        if TALKER.is_none() {
            *TALKER = Talker::new();
        }
        for _ in 0..3 {
            TALKER.iter_mut().for_each(Talker::talk);
        }
    }

    #[entry]
    fn main() -> ! {
        // SAFETY: this runs once per start.
        let region = unsafe { TRACE.take() };
        let log = LOG.take();
        let Ok((producer, mut recorder)) = RingRecorder::new(region, &STORAGE, &INBOX) else { end() };
        let producer = PRODUCER.init(producer);
        cortex_m::interrupt::free(|cs| SHARED.borrow(cs).set(Some(producer)));
        let Some(mut talker) = Talker::new() else { end() };
        log.magic = MAGIC;
        compiler_fence(SeqCst);
        board::start(700, 1_900);
        // SAFETY: both handlers may run from now on; all that they share is atomic.
        unsafe {
            if let Some(mut core) = cortex_m::Peripherals::take() {
                core.NVIC.set_priority(interrupt::Control, 0x40);
                core.NVIC.set_priority(interrupt::Sensor, 0x80);
            }
            NVIC::unmask(interrupt::Control);
            NVIC::unmask(interrupt::Sensor);
        }
        let mut watch = Consumer::new(producer.memory());
        for round in 0u32.. {
            talker.talk();
            producer.commit();
            while let Some(request) = recorder.next_request() {
                if !carry_out(&mut recorder, producer, &watch, log, request) {
                    end();
                }
            }
            if round % 4 == 1 {
                scrape_one(&mut recorder, &mut watch, log);
            }
            if round % 32 == 31 {
                let operation = Operation { fragments: 3, ..Operation::NONE };
                log.note(&operation, || {
                    let mut reader = recorder.buffer().read();
                    for _ in 0..3 {
                        reader.next_packet();
                    }
                });
            }
        }
        end()
    }

    fn flags_of(flags: HeaderFlags) -> ChunkFlags {
        let mut to = ChunkFlags::empty();
        to.set(ChunkFlags::CONTINUES_FROM_PREVIOUS, flags.contains(HeaderFlags::CONTINUES_FROM_PREVIOUS));
        to.set(ChunkFlags::CONTINUES_ON_NEXT, flags.contains(HeaderFlags::CONTINUES_ON_NEXT));
        to.set(ChunkFlags::NEEDS_PATCHING, flags.contains(HeaderFlags::NEEDS_PATCHING));
        to
    }

    /// Does what the drain does, and logs it. A complete chunk no longer changes, so the log holds what is committed.
    fn carry_out(
        recorder: &mut RingRecorder<'static>,
        producer: &Producer<'static>,
        watch: &Consumer<'static>,
        log: &mut Log,
        request: Request,
    ) -> bool {
        let mut data = [0; DATA];
        let operation = match &request {
            Request::Move(chunk) => {
                let mut visible = watch.visible();
                let Some(found) = visible.find(|found| found.position() == (chunk.page, chunk.chunk)) else {
                    return true;
                };
                let header = found.header();
                let data = data.get_mut(..found.len()).unwrap_or_default();
                found.fill(0, data);
                Operation {
                    kind: Kind::Commit,
                    flags: flags_of(header.flags).bits(),
                    writer: header.writer_id,
                    chunk_id: header.chunk_id,
                    fragments: header.fragments,
                    data,
                }
            }
            Request::Patch { writer_id, patch, has_more, .. } => Operation {
                kind: Kind::Patch,
                flags: u8::from(*has_more),
                writer: *writer_id,
                chunk_id: patch.chunk_id,
                fragments: patch.offset,
                data: &patch.data,
            },
            _ => {
                recorder.carry_out(request, producer);
                return true;
            }
        };
        log.note(&operation, || recorder.carry_out(request, producer))
    }

    /// Copies a chunk that is still being written into the ring, where its commit will find it.
    fn scrape_one(recorder: &mut RingRecorder<'static>, watch: &mut Consumer<'static>, log: &mut Log) {
        let mut data = [0; DATA];
        let mut found = None;
        for chunk in watch.visible().filter(|chunk| !chunk.is_complete()) {
            let data = data.get_mut(..chunk.len()).unwrap_or_default();
            // This copy, of the packets that were finished when it was made, is what is committed.
            let header = chunk.header();
            chunk.fill(0, data);
            found = Some((header, chunk.len()));
        }
        let Some((header, len)) = found else { return };
        let payload = data.get(..len).unwrap_or_default();
        let operation = Operation {
            kind: Kind::Scrape,
            flags: flags_of(header.flags).bits(),
            writer: header.writer_id,
            chunk_id: header.chunk_id,
            fragments: header.fragments,
            data: payload,
        };
        log.note(&operation, || {
            recorder.buffer().copy_chunk_untrusted(&Chunk { header: operation.header(), payload });
        });
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
