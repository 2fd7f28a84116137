//! The smallest image that keeps a trace buffer: lays it out, commits (overwriting as it must), patches, reads.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod image {
    use core::hint::black_box;
    use core::ptr::addr_of_mut;
    use tracebuf::buffer::{ChunkFlags, ChunkHeader, Commit, Config, FillPolicy, Patch, Reader, TraceBuffer};

    const SIZE: usize = 2048;
    static mut MEMORY: [u8; SIZE] = [0; SIZE];

    type Buffer = TraceBuffer<&'static mut [u8]>;

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {}
    }

    #[unsafe(no_mangle)]
    pub(crate) extern "C" fn _start() {
        // SAFETY: this runs once, and nobody else names the memory.
        let memory: &'static mut [u8] = unsafe { &mut *addr_of_mut!(MEMORY) };
        let config = Config::new(FillPolicy::RingBuffer).sequences(8);
        let Ok(mut buffer) = TraceBuffer::new(memory, config) else { return };
        loop {
            black_box(commit(&mut buffer));
            black_box(patch(&mut buffer));
            let mut reader = buffer.read();
            while black_box(read(&mut reader)) {}
        }
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    fn commit(buffer: &mut Buffer) -> Commit {
        let header: ChunkHeader = black_box(ChunkHeader { flags: ChunkFlags::empty(), ..Default::default() });
        buffer.commit_with(&header, black_box(100), |from, to| {
            black_box((from, to));
        })
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    fn patch(buffer: &mut Buffer) -> bool {
        let patch = black_box(Patch { offset: 0, data: [0; 4] });
        buffer.try_patch_chunk_contents(black_box(1), black_box(1), black_box(1), &[patch], black_box(false))
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    fn read(reader: &mut Reader<'_>) -> bool {
        let Some(packet) = reader.next_packet() else { return false };
        black_box((packet.producer_id(), packet.writer_id(), packet.loss()));
        for slice in packet.slices() {
            black_box(slice);
        }
        true
    }
}

#[cfg(not(target_os = "none"))]
fn main() {
    println!("an image for a bare target, to be looked at and not to be run");
}
