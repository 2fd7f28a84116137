//! Tests of the buffer as a whole from inside; those from outside are in `core/tests`.

mod cost;
pub(super) mod memory;

use crate::buffer::Config;

/// With checksums and histograms, where their features are there.
#[cfg_attr(not(all(feature = "crc", feature = "histograms")), allow(unused_variables))]
pub(super) fn with_options(config: Config, crc: bool, histograms: bool) -> Config {
    #[cfg(feature = "crc")]
    let config = config.crc(crc);
    #[cfg(feature = "histograms")]
    let config = config.histograms(histograms);
    config
}
