//! What is recorded, for whatever line asks for bytes, or for the probe that reads memory. One at a time asks.

use crate::alone::Alone;
use crate::recorder::{Ticks, Trace, recorder};
use tracebuf_embedded::export::Export;
use tracebuf_embedded::inplace;
use tracebuf_embedded::rtt::{Channel, Rtt};

/// Bytes of the RTT buffer, as the header says.
const RTT_BYTES: usize = 1024;
/// Bytes on their way into it.
const STAGED: usize = 64;

#[cfg(target_pointer_width = "32")]
const _: () =
    assert!(size_of::<Rtt<RTT_BYTES>>() == 4 * (12 + 256), "tracebuf.h: opaque words of tracebuf_rtt");

type Sender = inplace::Sender<'static, Trace, Ticks>;

static SENDER: Alone<Option<Sender>> = Alone::new(None);
/// The probe's channel, and where its control block is.
static CHANNEL: Alone<Option<(usize, Channel<RTT_BYTES>)>> = Alone::new(None);

/// Does something with the sender. `None` before there is a recorder, or within another call of this.
fn with_sender<R>(work: impl FnOnce(&mut Sender) -> R) -> Option<R> {
    let recorder = recorder()?;
    SENDER.with(|sender| work(sender.get_or_insert_with(|| Sender::new(recorder))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_stream_poll(line: *mut u8, size: usize) -> usize {
    if line.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise that it is memory of that size; no memory is larger than half of what there is.
    let line = unsafe { core::slice::from_raw_parts_mut(line, size.min(isize::MAX as usize)) };
    with_sender(|sender| sender.fill(line)).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn tracebuf_stream_flush() {
    let _ = with_sender(Sender::flush);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_rtt_poll(rtt: *const Rtt<RTT_BYTES>) -> usize {
    if rtt.is_null() || !rtt.is_aligned() {
        return 0;
    }
    // SAFETY: the caller's promise that it is a static; any bits are valid there.
    let rtt: &'static Rtt<RTT_BYTES> = unsafe { &*rtt };
    let send = |sender: &mut Sender, channel: &mut Channel<RTT_BYTES>| {
        let (mut staged, mut sent) = ([0; STAGED], 0);
        // At most the whole buffer, so that a fast probe keeps nobody waiting.
        for _ in 0..RTT_BYTES / STAGED {
            let room = channel.room().min(STAGED);
            let filled = sender.fill(staged.get_mut(..room).unwrap_or_default());
            let Ok(taken) = channel.offer(staged.get(..filled).unwrap_or_default());
            sent += taken;
            if filled < STAGED {
                break;
            }
        }
        sent
    };
    let sent = CHANNEL.with(|known| {
        if known.as_ref().is_none_or(|(at, _)| *at != core::ptr::from_ref(rtt).addr()) {
            *known = Some((core::ptr::from_ref(rtt).addr(), rtt.channel()));
        }
        let (_, channel) = known.as_mut()?;
        with_sender(|sender| send(sender, channel))
    });
    sent.flatten().unwrap_or(0)
}
