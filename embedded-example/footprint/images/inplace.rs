//! The smallest image that records in place: two writers, slices, instants, 32-bit counters, names; with the feature
//! `inplace-more` also 64-bit counters, events on other tracks, and task switches; with `inplace-sender` the sender of
//! frames; with `inplace-linked` names of the linker in place of others; with `inplace-kept` what an earlier start
//! recorded, sums of chunks, and arguments.
//!
//! All that these pull in is in it, the claim of chunks, names and the 64-bit time included. Not in it: a real timer, a
//! line.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod image {
    use core::hint::black_box;
    #[cfg(feature = "inplace-linked")]
    use tracebuf::inplace::linked_name;
    use tracebuf::inplace::{Recorder, Region, Writer};

    type Trace = Region<64, 128, 32>;

    static TRACE: Trace = Region::zeroed();

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
        loop {}
    }

    #[derive(Clone, Copy)]
    struct Timer;

    impl tracebuf::inplace::Timer for Timer {
        fn ticks(&self) -> u32 {
            black_box(1)
        }
    }

    #[unsafe(no_mangle)]
    pub(crate) extern "C" fn _start() {
        #[cfg(not(feature = "inplace-kept"))]
        let recorder = Recorder::new(&TRACE, Timer, 1_000_000);
        #[cfg(feature = "inplace-kept")]
        let (recorder, _) = black_box(Recorder::attach_or_new(&TRACE, Timer, 1_000_000));
        let (one, other) = (recorder.writer("main loop"), recorder.writer("interrupt"));
        #[cfg(feature = "inplace-more")]
        let motor = recorder.track("motor", 1);
        #[cfg(feature = "inplace-sender")]
        let (mut sender, mut line) = (tracebuf::inplace::Sender::new(recorder), [0; 64]);
        loop {
            #[cfg(feature = "inplace-sender")]
            black_box((sender.fill(&mut line), &line));
            #[cfg(feature = "inplace-kept")]
            one.instant_with("door", |details| {
                details.arg("open", black_box(1)).arg_text("who", black_box("cat"));
            });
            begin(&one);
            end(&one);
            instant(&other);
            count(&other);
            #[cfg(feature = "inplace-more")]
            {
                one.count_i64("total", black_box(7));
                one.on(motor).begin("turn");
                one.on(motor).end();
                one.switch_to(Some(motor));
            }
        }
    }

    // Projects may forbid it, whatever names they use.
    #[forbid(unsafe_code)]
    #[inline(never)]
    fn begin(writer: &Writer<'static, Trace, Timer>) {
        #[cfg(not(feature = "inplace-linked"))]
        writer.begin("slice");
        #[cfg(feature = "inplace-linked")]
        writer.named(linked_name!("slice")).begin();
    }

    #[inline(never)]
    fn end(writer: &Writer<'static, Trace, Timer>) {
        writer.end();
    }

    #[inline(never)]
    fn instant(writer: &Writer<'static, Trace, Timer>) {
        #[cfg(not(feature = "inplace-linked"))]
        writer.instant("instant");
        #[cfg(feature = "inplace-linked")]
        writer.named(linked_name!("instant")).instant();
    }

    #[inline(never)]
    fn count(writer: &Writer<'static, Trace, Timer>) {
        #[cfg(not(feature = "inplace-linked"))]
        writer.count("level", black_box(7));
        #[cfg(feature = "inplace-linked")]
        writer.named(linked_name!("level")).count(black_box(7));
    }
}

#[cfg(not(target_os = "none"))]
fn main() {
    println!("an image for a bare target, not to be run");
}
