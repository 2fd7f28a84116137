//! The cost sheet of a state that outlives the ring, on a Cortex-M4, in QEMU.
//!
//! A line for each figure: `budget NAME MEASURED LIMIT UNIT ok|over`. Instructions are counted by SysTick, which QEMU
//! advances by the instruction. The limits are what was measured once, and some more.
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

    static MEMORY: ConstStaticCell<[u8; 12 << 10]> = ConstStaticCell::new([0; 12 << 10]);

    /// Counters, all of which are in the state when patches are counted.
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
        let (mut bytes, mut steps, mut frames) =
            ([0; 256], [Step::default(); 64], [StackFrame::default(); 12]);
        let Ok(bytes) = Program::keep_last_by(&Keep::DESCRIPTIONS, &mut bytes) else { finish(true) };
        let Ok(program) = Program::new(bytes, &mut steps) else { finish(true) };
        let Ok(mut vm) = Vm::new(MEMORY.take(), program, &mut frames) else { finish(true) };
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
        let mut over = meter::is_over(format_args!("vm_patch_of_a_counter"), median, 9_500, "instructions");
        over |= meter::is_over(format_args!("vm_patch_of_a_counter_worst"), worst, 11_000, "instructions");
        over |= meter::is_over(format_args!("vm_patch_of_a_new_counter"), worst_new, 11_000, "instructions");
        finish(over || !all_ok)
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        semihosting::println!("panic");
        semihosting::process::exit(2)
    }
}
