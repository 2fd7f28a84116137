//! The cost sheet of a state that outlives the ring, on a Cortex-M4, in QEMU.
//!
//! A line for each figure: `budget NAME MEASURED LIMIT UNIT ok|over`. Instructions are counted by SysTick, which QEMU
//! advances by the instruction. The limit of the first is the project's; the others are what was measured once,
//! and some more.
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
    use cortex_m_rt::entry;
    use defmt_semihosting as _;
    use static_cell::ConstStaticCell;
    use tracebuf::vm::{Keep, Program, StackFrame, Step, Vm, VmStatus};

    type Memory = [u8; 12 << 10];

    static MEMORIES: ConstStaticCell<[Memory; 2]> = ConstStaticCell::new([[0; 12 << 10]; 2]);

    /// Counters, all of which are in the state when patches are counted. Their keys differ in the lowest bits only.
    const COUNTERS: u8 = 100;

    /// The packet of a counter: 21 bytes, of which six are its time and five its track.
    fn packet(counter: u8, value: u8) -> [u8; 21] {
        let time = [0x40, 0x80, 0x80, 0x80, 0x80, 0x80, 1];
        let track = [0x58, counter | 0x80, 0x81, 0x82, 0x80, 1];
        let mut packet = [0; 21];
        let event = [0x5A, 12, 0x48, 4, 0xF0, 1, 0x80 | value, 1];
        let all = [&time[..], &event, &track].into_iter().flatten();
        packet.iter_mut().zip(all).for_each(|(to, from)| *to = *from);
        packet
    }

    #[entry]
    fn main() -> ! {
        let Some(mut core) = cortex_m::Peripherals::take() else { finish(true) };
        meter::start(&mut core.SYST);
        let [only, among] = MEMORIES.take();
        let (Some([median, worst, new]), Some([among, _, _])) =
            (patches(&[Keep::COUNTERS], only), patches(&Keep::DESCRIPTIONS, among))
        else {
            finish(true)
        };
        // Of a program that keeps counters, and of one that keeps tracks' descriptors, too, and two kinds of counters.
        let mut over = meter::is_over(format_args!("vm_patch_of_a_counter"), median, 3_000, "instructions");
        over |= meter::is_over(format_args!("vm_patch_of_a_counter_worst"), worst, 3_300, "instructions");
        over |= meter::is_over(format_args!("vm_patch_of_a_new_counter"), new, 3_300, "instructions");
        over |= meter::is_over(format_args!("vm_patch_among_descriptions"), among, 6_000, "instructions");
        finish(over)
    }

    /// Instructions of a patch, in the middle and at most, and of one that is the first of its counter at most; nothing if
    /// one fails.
    fn patches(kinds: &[Keep<'_>], memory: &mut Memory) -> Option<[u32; 3]> {
        let (mut bytes, mut steps, mut frames) =
            ([0; 256], [Step::default(); 64], [StackFrame::default(); 12]);
        let bytes = Program::keep_last_by(kinds, &mut bytes).ok()?;
        let program = Program::new(bytes, &mut steps).ok()?;
        let mut vm = Vm::new(memory, program, &mut frames).ok()?;
        let meter = Meter::new();
        let mut all_ok = true;
        let mut patch = |counter: u8, value: u8| {
            let packet = packet(counter, value);
            meter.count(|| all_ok &= vm.apply(black_box(&packet)) == VmStatus::Ok)
        };
        let mut worst_new = 0;
        for counter in 0..COUNTERS {
            worst_new = worst_new.max(patch(counter.wrapping_mul(37) % COUNTERS, 0));
        }
        let (median, worst) = many::<201>(|n| patch((n % usize::from(COUNTERS)) as u8, 1));
        all_ok.then_some([median, worst, worst_new])
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        semihosting::println!("panic");
        semihosting::process::exit(2)
    }
}
