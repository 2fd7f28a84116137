//! Telling whoever has started the service that clients can come.

use std::env;
use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sendto, socket_with};

use crate::system::inherited;

/// Tells systemd (`NOTIFY_SOCKET`), or whoever else has started this process and waits (`TRACED_NOTIFY_FD`), that
/// clients can come. Call it once, before other threads open files.
///
/// # Errors
/// There is such a variable, and what it names takes nothing.
pub fn say_ready() -> io::Result<()> {
    if let Some(number) = env::var("TRACED_NOTIFY_FD").ok().and_then(|number| number.parse().ok()) {
        // It is closed then, for which some wait too.
        rustix::io::write(inherited(number)?, b"1")?;
    }
    if let Some(name) = env::var_os("NOTIFY_SOCKET") {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name)?,
            path => SocketAddrUnix::new(path)?,
        };
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sendto(&socket, b"READY=1", SendFlags::empty(), &address)?;
    }
    Ok(())
}
