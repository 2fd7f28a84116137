//! The smallest image that keeps a trace buffer: lays it out, commits (overwriting as it must), patches, reads.
//!
//! The compiler cannot know what it commits and patches, so next to no code but the buffer's own is counted.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod image {
    use core::hint::black_box;
    use core::mem::MaybeUninit;
    use core::ptr::{addr_of, addr_of_mut};
    use tracebuf::buffer::{ChunkHeader, Commit, Config, FillPolicy, Patch, Reader, TraceBuffer};

    const SIZE: usize = 2048;
    static mut MEMORY: [u8; SIZE] = [0; SIZE];
    static mut INPUT: MaybeUninit<Input> = MaybeUninit::uninit();

    type Buffer = TraceBuffer<&'static mut [u8]>;

    struct Input {
        header: ChunkHeader,
        size: usize,
        patches: [Patch; 2],
        more_pending: bool,
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {}
    }

    #[unsafe(no_mangle)]
    pub(crate) extern "C" fn _start() {
        // SAFETY: this is never run; if it were, it would run once, and nobody else names the memory.
        let (memory, input): (&'static mut [u8], &Input) =
            unsafe { (&mut *addr_of_mut!(MEMORY), (*black_box(addr_of!(INPUT))).assume_init_ref()) };
        let config = Config::new(FillPolicy::RingBuffer).sequences(8);
        let Ok(mut buffer) = TraceBuffer::new(memory, config) else { return };
        loop {
            commit(&mut buffer, input);
            patch(&mut buffer, input);
            let mut reader = buffer.read();
            while read(&mut reader) {}
        }
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    fn commit(buffer: &mut Buffer, input: &Input) -> Commit {
        buffer.commit_with(&input.header, input.size, |from, to| {
            black_box((from, to));
        })
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    fn patch(buffer: &mut Buffer, input: &Input) -> bool {
        let ChunkHeader { producer_id, writer_id, chunk_id, .. } = input.header;
        buffer.try_patch_chunk_contents(producer_id, writer_id, chunk_id, &input.patches, input.more_pending)
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
    println!("an image for a bare target, not to be run");
}
