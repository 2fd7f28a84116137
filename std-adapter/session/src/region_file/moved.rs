//! What a start moves out of its way.

use std::path::{Path, PathBuf};

use super::{BEGUN, PAGE};
use tracebuf_std::display::Escaped;
use tracebuf_std::whole_file::followed;

/// Where a file that an earlier process left is kept.
pub fn previous(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".previous");
    path.with_file_name(name)
}

/// What to say, after the reason, of a file without a buffer if a start in it was killed and what was there before
/// still lies in `FILE.previous`: the file begins as such a start leaves it, or does not exist, as before the start
/// makes it. `None` for any other.
///
/// ```
/// use tracebuf_session::region_file::moved_by_a_start;
///
/// let folder = std::env::temp_dir().join(format!("doc-moved-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// let region = folder.join("trace.region");
/// assert_eq!(moved_by_a_start(&region, b"TRACENEW"), None);
/// std::fs::write(folder.join("trace.region.previous"), b"what a session left")?;
/// let said = moved_by_a_start(&region, b"TRACENEW").expect("there is one");
/// assert!(said.starts_with("it seems that a session's start in it was killed: "));
/// assert_eq!(moved_by_a_start(&region, b"something else"), None);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn moved_by_a_start(path: &Path, begins_with: &[u8]) -> Option<String> {
    let page = begins_with.get(..PAGE as usize).unwrap_or(begins_with);
    if !page.starts_with(BEGUN) && page.iter().any(|byte| *byte != 0) {
        return None;
    }
    let kept = previous(&followed(path).ok()?);
    let name = Escaped(kept.display());
    kept.is_file().then(|| {
        format!("it seems that a session's start in it was killed: what was there before is in {name}")
    })
}
