#![no_std]
#![no_main]

use embassy_executor::{Spawner, task};
use embassy_stm32::gpio::{Level, Output, Speed};
use embassy_time::Timer;
use my_embassy::Writer;
use tracebuf_embedded::embassy::spawn;

#[task]
async fn blink(mut led: Output<'static>, writer: Writer) {
    for turn in 0.. {
        {
            let _slice = writer.enter("turn");
            led.toggle();
            writer.count("turn", turn);
        }
        defmt::info!("turn {}", turn);
        Timer::after_millis(100).await;
    }
}

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let chip = embassy_stm32::init(Default::default());
    let recorder = my_embassy::begin();
    let led = Output::new(chip.PC13, Level::Low, Speed::Low);
    if let Ok(send) = my_embassy::send(recorder) {
        spawn(spawner, send, "send");
    }
    if let Ok(blink) = blink(led, recorder.writer("blink's own")) {
        spawn(spawner, blink, "blink");
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    cortex_m::peripheral::SCB::sys_reset()
}
