//! Log and trace through two channels of one control block, which is that of rtt-target.

use crate::{Recorder, keep_sending};
use core::convert::Infallible;
use rtt_target::{ChannelMode, rtt_init, set_defmt_channel};

#[embassy_executor::task]
pub async fn send(recorder: Recorder) {
    let channels = rtt_init! {
        up: {
            0: { size: 1024, name: "defmt" }
            1: { size: 1024, name: "tracebuf" }
        }
    };
    set_defmt_channel(channels.up.0);
    let mut trace = channels.up.1;
    let line = move |bytes: &[u8]| {
        // Neither waiting, as a debugger may have set it, nor all or nothing.
        trace.set_mode(ChannelMode::NoBlockTrim);
        Ok::<_, Infallible>(trace.write(bytes))
    };
    keep_sending(recorder, line).await
}
