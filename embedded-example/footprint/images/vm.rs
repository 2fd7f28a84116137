//! The smallest image that keeps a state: lays it out or finds it again, applies patches, writes it.
//!
//! The program and the patches lie in memory of which the compiler cannot know the contents.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod image {
    use core::convert::Infallible;
    use core::hint::black_box;
    use core::mem::MaybeUninit;
    use core::ptr::{addr_of, addr_of_mut};
    use tracebuf::proto::Sink;
    use tracebuf::vm::{Program, StackFrame, Step, Vm, VmStatus};

    static mut MEMORY: [u8; 2048] = [0; 2048];
    static mut STEPS: MaybeUninit<[Step; 32]> = MaybeUninit::uninit();
    static mut FRAMES: MaybeUninit<[StackFrame; 16]> = MaybeUninit::uninit();
    static mut INPUT: MaybeUninit<[u8; 128]> = MaybeUninit::uninit();

    struct Nowhere;

    impl Sink for Nowhere {
        type Error = Infallible;

        fn put(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
            black_box(bytes);
            Ok(())
        }
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {}
    }

    #[unsafe(no_mangle)]
    pub(crate) extern "C" fn _start() {
        // SAFETY: this is never run; if it were, it would run once, and nobody else names the memory.
        let (memory, input, steps, frames): (&'static mut [u8], &[u8; 128], _, _) = unsafe {
            (
                &mut *addr_of_mut!(MEMORY),
                (*black_box(addr_of!(INPUT))).assume_init_ref(),
                (*black_box(addr_of_mut!(STEPS))).assume_init_mut(),
                (*black_box(addr_of_mut!(FRAMES))).assume_init_mut(),
            )
        };
        let Ok(program) = Program::new(input, steps) else { return };
        let mut vm = match input.first() {
            Some(0) => Vm::attach(memory, program, frames),
            _ => Vm::new(memory, program, frames),
        };
        let Ok(vm) = &mut vm else { return };
        loop {
            black_box(apply(vm, input));
            write(vm);
        }
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    fn apply(vm: &mut Vm<'_>, input: &[u8; 128]) -> VmStatus {
        vm.apply(input)
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    fn write(vm: &mut Vm<'_>) {
        let Ok(()) = vm.write_state(&mut Nowhere);
    }
}

#[cfg(not(target_os = "none"))]
fn main() {
    println!("an image for a bare target, to be looked at and not to be run");
}
