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
        let (memory, input): (&'static mut [u8], &[u8; 128]) =
            unsafe { (&mut *addr_of_mut!(MEMORY), (*black_box(addr_of!(INPUT))).assume_init_ref()) };
        let (mut steps, mut frames) = ([Step::default(); 32], [StackFrame::default(); 16]);
        let Ok(program) = Program::new(input, &mut steps) else { return };
        let vm = match input.first() {
            Some(0) => Vm::attach(memory, program, &mut frames),
            _ => Vm::new(memory, program, &mut frames),
        };
        let Ok(mut vm) = vm else { return };
        loop {
            black_box(apply(&mut vm, input));
            black_box(vm.stats());
            write(&mut vm);
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
