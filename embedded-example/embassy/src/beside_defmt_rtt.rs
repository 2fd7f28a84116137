//! The log through defmt-rtt's control block, and the trace through another one.

use crate::{Recorder, keep_sending};
use defmt_rtt as _;
use tracebuf_embedded::rtt::Rtt;

static RTT: Rtt<1024> = Rtt::new();

#[embassy_executor::task]
pub async fn send(recorder: Recorder) {
    keep_sending(recorder, RTT.channel_of(b"TRACEBUF RTT\0\0\0\0")).await
}
