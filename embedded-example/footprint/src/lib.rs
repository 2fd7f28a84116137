//! Every public path of `tracebuf`, called with values that the optimiser does not know.
//!
//! Built as a static library for a bare target, in which `.ci/no_panics` then looks for the machinery of panics.
//! It is built for that alone; nobody calls it.
#![cfg_attr(target_os = "none", no_std)]

mod buffer;
#[cfg(feature = "inplace")]
mod inplace;
mod input;
mod observe;
mod producer;
mod proto;
mod service;
mod track_event;
#[cfg(feature = "vm")]
mod vm;

use input::Input;

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// All parts, over memory that the caller lends.
///
/// # Safety
/// `input` and `memory` point to as many bytes as are said, which nobody else uses meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn every_path(input: *const u8, input_len: usize, memory: *mut u8, memory_len: usize) {
    // SAFETY: the caller promises two slices that are its own to lend.
    let (input, memory) = unsafe {
        (core::slice::from_raw_parts(input, input_len), core::slice::from_raw_parts_mut(memory, memory_len))
    };
    let mut input = Input::new(input);
    buffer::all(&mut input, memory);
    proto::all(&mut input, memory);
    service::all(&mut input, memory);
    producer::all(&mut input, memory);
    #[cfg(feature = "inplace")]
    inplace::all(&mut input, memory);
    #[cfg(feature = "vm")]
    vm::all(&mut input, memory);
}
