//! RTT: a line through the memory that a debug probe reads, in one static.
//!
//! It never waits, whether a probe is there or not: the sender gives it what it has room for, and what is recorded
//! meanwhile stays in the region, where the newest overwrites the oldest. A probe's wish to be waited for is ignored.
//!
//! ```
//! use tracebuf_embedded::export::Export;
//! use tracebuf_embedded::rtt::Rtt;
//!
//! #[unsafe(export_name = "_SEGGER_RTT")] // where debuggers look first
//! static RTT: Rtt<1024> = Rtt::new();
//!
//! let mut line = RTT.channel();
//! assert_eq!(line.offer(b"bytes"), Ok(5));
//! ```
//!
//! # Beside another control block
//! defmt-rtt has one channel and a control block of its own, of the name `_SEGGER_RTT`, which probe-rs looks for. Leave
//! the name to it, and give this one another id: `RTT.channel_of(b"TRACEBUF RTT\0\0\0\0")`. OpenOCD finds it with
//! `rtt setup ADDRESS SIZE "TRACEBUF RTT"`, and defmt's with "SEGGER RTT"; other tools only know that id. A debugger
//! follows one control block at a time.
//!
//! For log and trace at once, give both a channel of one block, as rtt-target has it with its feature `defmt` in place of
//! defmt-rtt. An `UpChannel` in a function that takes bytes is an [`Export`]. Its mode must be `NoBlockTrim`, set before
//! each write: a debugger may set the mode of waiting, and in that of skipping the channel says that it has taken what it
//! dropped.

use crate::export::Export;
use core::convert::Infallible;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering, fence};

/// A control block with one channel, and its buffer, of which one byte stays free. It takes 48 bytes more.
#[derive(Debug)]
#[repr(C)]
pub struct Rtt<const BYTES: usize> {
    id: [AtomicU8; 16],
    up_channels: AtomicUsize,
    down_channels: AtomicUsize,
    name: AtomicPtr<u8>,
    buffer: AtomicPtr<AtomicU8>,
    size: AtomicUsize,
    write: AtomicUsize,
    read: AtomicUsize,
    flags: AtomicU32,
    /// Behind what a debugger looks at.
    bytes: [AtomicU8; BYTES],
}

static NAME: [u8; 9] = *b"tracebuf\0";

impl<const BYTES: usize> Rtt<BYTES> {
    /// A control block that no debugger finds yet.
    pub const fn new() -> Self {
        const { assert!(BYTES >= 16, "a buffer has 16 bytes at least") };
        Self {
            id: [const { AtomicU8::new(0) }; 16],
            up_channels: AtomicUsize::new(0),
            down_channels: AtomicUsize::new(0),
            name: AtomicPtr::new(null_mut()),
            buffer: AtomicPtr::new(null_mut()),
            size: AtomicUsize::new(0),
            write: AtomicUsize::new(0),
            read: AtomicUsize::new(0),
            flags: AtomicU32::new(0),
            bytes: [const { AtomicU8::new(0) }; BYTES],
        }
    }

    /// The channel, which any debugger finds from now on. One sender has it: two would garble each other's bytes.
    pub fn channel(&'static self) -> Channel<BYTES> {
        // Backwards, so that neither flash nor a stack holds what debuggers search memory for.
        static BACKWARDS: [u8; 16] = *b"\0\0\0\0\0\0TTR REGGES";
        self.found_by(BACKWARDS.iter().rev())
    }

    /// As [`channel`](Self::channel), for a debugger that looks for this id, in RAM: flash holds it, too.
    pub fn channel_of(&'static self, id: &'static [u8; 16]) -> Channel<BYTES> {
        self.found_by(id.iter())
    }

    fn found_by(&'static self, id: impl DoubleEndedIterator<Item = &'static u8>) -> Channel<BYTES> {
        self.name.store(NAME.as_ptr().cast_mut(), Ordering::Relaxed);
        self.size.store(BYTES, Ordering::Relaxed);
        self.buffer.store(self.bytes.as_ptr().cast_mut(), Ordering::Relaxed);
        self.up_channels.store(1, Ordering::Relaxed);
        // Last, and its first byte at the very last: a debugger may look at any time.
        fence(Ordering::Release);
        for (byte, wanted) in self.id.iter().rev().zip(id.rev()) {
            byte.store(*wanted, Ordering::Release);
        }
        Channel { rtt: self }
    }
}

impl<const BYTES: usize> Default for Rtt<BYTES> {
    fn default() -> Self {
        Self::new()
    }
}

/// The channel of an [`Rtt`].
#[derive(Debug)]
pub struct Channel<const BYTES: usize> {
    rtt: &'static Rtt<BYTES>,
}

impl<const BYTES: usize> Channel<BYTES> {
    /// Bytes that it has room for.
    pub fn room(&self) -> usize {
        let (read, write) = (self.rtt.read.load(Ordering::Acquire), self.rtt.write.load(Ordering::Relaxed));
        // A debugger that writes nonsense must not lead anywhere.
        (read % BYTES + BYTES - write % BYTES - 1) % BYTES
    }
}

impl<const BYTES: usize> Export for Channel<BYTES> {
    type Error = Infallible;

    fn offer(&mut self, bytes: &[u8]) -> Result<usize, Infallible> {
        let (room, mut write) = (self.room(), self.rtt.write.load(Ordering::Relaxed) % BYTES);
        let count = bytes.len().min(room);
        for byte in bytes.iter().take(count) {
            if let Some(place) = self.rtt.bytes.get(write) {
                place.store(*byte, Ordering::Relaxed);
            }
            write = if write + 1 < BYTES { write + 1 } else { 0 };
        }
        self.rtt.write.store(write, Ordering::Release);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A debugger: what it finds in memory, and reads.
    fn read<const N: usize>(rtt: &Rtt<N>, most: usize) -> Vec<u8> {
        let id: Vec<u8> = rtt.id.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        assert_eq!((&id[..], rtt.up_channels.load(Ordering::Relaxed)), (&b"SEGGER RTT\0\0\0\0\0\0"[..], 1));
        assert_eq!(rtt.buffer.load(Ordering::Relaxed).cast_const(), rtt.bytes.as_ptr());
        let (mut at, write) = (rtt.read.load(Ordering::Relaxed), rtt.write.load(Ordering::Relaxed));
        let mut read = Vec::new();
        while at != write && read.len() < most {
            read.push(rtt.bytes[at].load(Ordering::Relaxed));
            at = (at + 1) % rtt.size.load(Ordering::Relaxed);
        }
        rtt.read.store(at, Ordering::Relaxed);
        read
    }

    #[test]
    fn bytes_come_out_in_order_and_a_full_buffer_takes_none() {
        static RTT: Rtt<16> = Rtt::new();
        assert_eq!(RTT.id[0].load(Ordering::Relaxed), 0);
        let mut line = RTT.channel();
        let (mut next, mut got) = (0u8, Vec::new());
        for most in [0, 3, 15, 1, 7, 0, 0, 15, 15, 2] {
            let bytes: Vec<u8> = (next..).take(11).collect();
            let room = line.room();
            let Ok(taken) = line.offer(&bytes);
            assert_eq!(taken, room.min(11));
            next += taken as u8;
            got.extend(read(&RTT, most));
        }
        // Nobody reads: it takes 15 in all, and waits for nothing.
        got.extend(read(&RTT, 100));
        assert_eq!((line.offer(&[0; 100]), line.offer(&[0; 100])), (Ok(15), Ok(0)));
        assert_eq!(got, (0..next).collect::<Vec<_>>());
        assert!(next > 50);
    }

    #[test]
    fn a_debugger_that_waits_to_be_waited_for_or_writes_nonsense_stops_nothing() {
        static RTT: Rtt<16> = Rtt::new();
        let mut line = RTT.channel_of(b"TRACEBUF RTT\0\0\0\0");
        RTT.flags.store(2, Ordering::Relaxed);
        assert_eq!((line.offer(&[1; 20]), line.offer(&[1; 20])), (Ok(15), Ok(0)));
        RTT.read.store(usize::MAX, Ordering::Relaxed);
        let Ok(taken) = line.offer(&[1; 20]);
        assert!(taken < 16);
        assert_eq!(RTT.id.each_ref().map(|byte| byte.load(Ordering::Relaxed)), *b"TRACEBUF RTT\0\0\0\0");
    }
}
