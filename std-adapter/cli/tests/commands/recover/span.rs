//! How long a trace is that was recovered.

use super::{recover, region};
use crate::trace::scratch;

#[test]
fn a_device_whose_clock_stood_still_is_told_of() {
    let (done, said, _) = recover("still", &region(), &[]);
    let file = scratch("recover/still.pftrace");
    let still =
        format!("\n{}: all 3 events have the same time, 0.000 s: their clock stands still\n", file.display());
    assert!(done && said.ends_with(&still), "{said}");
}
