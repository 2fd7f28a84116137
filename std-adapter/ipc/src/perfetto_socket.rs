//! Where Perfetto's service listens.

use std::path::{Path, PathBuf};

/// The path where Perfetto's service waits for programs, and its SDK looks for it: the value of the environment
/// variable `PERFETTO_PRODUCER_SOCK_NAME`; without it `/run/perfetto/traced-producer.sock` if that folder exists,
/// otherwise `/tmp/perfetto-producer`; on Android `/dev/socket/traced_producer`.
///
/// ```
/// // For `Connection::builder().follow_perfetto(...)`.
/// let path = tracebuf_ipc::perfetto_socket();
/// assert!(path.file_name().is_some());
/// ```
#[must_use]
pub fn perfetto_socket() -> PathBuf {
    if let Some(path) = std::env::var_os("PERFETTO_PRODUCER_SOCK_NAME").filter(|path| !path.is_empty()) {
        return path.into();
    }
    if cfg!(target_os = "android") {
        return "/dev/socket/traced_producer".into();
    }
    let folder = Path::new("/run/perfetto");
    if folder.is_dir() { folder.join("traced-producer.sock") } else { "/tmp/perfetto-producer".into() }
}
