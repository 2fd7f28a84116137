//! Where clients come: [`SocketNames`], and the sockets that are made of them or were there before.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::{env, fs};

use rustix::fs::{Access, access};
use rustix::net::{SocketAddrUnix, bind, connect, listen};
use tracebuf_service::Port;
use tracebuf_sockets::{Kind, Listening, SocketPath, socket};

use crate::system::inherited;

/// As many as the system lets wait.
const BACKLOG: i32 = 4096;

/// Who may connect to sockets with a path: a group, and the mode of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// The group's number; `None` leaves it.
    pub group: Option<u32>,
    /// The mode.
    pub mode: u32,
}

/// The names of a service's sockets: paths, or with `@` names that are no files.
///
/// ```
/// use tracebuf_daemon::SocketNames;
///
/// let names = SocketNames::new(["/run/user/1000/producer"], ["@consumer"]);
/// assert_eq!(names.consumers, ["@consumer"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketNames {
    /// Where programs come that record.
    pub producers: Vec<String>,
    /// Where those come who want a trace.
    pub consumers: Vec<String>,
    /// Who may come to the first.
    pub producer_permissions: Option<Permissions>,
    /// Who may come to the second.
    pub consumer_permissions: Option<Permissions>,
}

impl SocketNames {
    /// These names.
    #[must_use]
    pub fn new<P: Into<String>, C: Into<String>>(
        producers: impl IntoIterator<Item = P>,
        consumers: impl IntoIterator<Item = C>,
    ) -> Self {
        Self {
            producers: producers.into_iter().map(Into::into).collect(),
            consumers: consumers.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Where Perfetto's clients look for the service: what `PERFETTO_PRODUCER_SOCK_NAME` and
    /// `PERFETTO_CONSUMER_SOCK_NAME` say, with commas between names; else in `/run/perfetto` if that is there, else in
    /// `/tmp`.
    #[must_use]
    pub fn from_environment() -> Self {
        let folder = "/run/perfetto";
        let is_there = access(folder, Access::EXEC_OK).is_ok();
        let of = |variable: &str, port: &str| match env::var(variable) {
            Ok(names) if !names.is_empty() => names.split(',').map(str::to_owned).collect(),
            _ if is_there => vec![format!("{folder}/traced-{port}.sock")],
            _ => vec![format!("/tmp/perfetto-{port}")],
        };
        let producers: Vec<String> = of("PERFETTO_PRODUCER_SOCK_NAME", "producer");
        Self::new(producers, of("PERFETTO_CONSUMER_SOCK_NAME", "consumer"))
    }
}

/// A socket at which clients come.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) socket: OwnedFd,
    pub(crate) port: Port,
    /// To be removed in the end, if this process made it.
    file: Option<SocketPath>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.file.iter().for_each(SocketPath::remove);
    }
}

/// Sockets that this process was started with, or else those of these names.
pub(crate) fn listeners(names: &SocketNames) -> io::Result<Vec<Listener>> {
    let from_outside = inherited_sockets()?;
    if !from_outside.is_empty() {
        return Ok(from_outside);
    }
    let producers = names.producers.iter().map(|name| (name, Port::Producers, &names.producer_permissions));
    let consumers = names.consumers.iter().map(|name| (name, Port::Consumers, &names.consumer_permissions));
    producers
        .chain(consumers)
        .map(|(name, port, permissions)| made(name, port, permissions.as_ref()))
        .collect()
}

/// Of systemd, by name or in the order producers, consumers; or of Android's init.
fn inherited_sockets() -> io::Result<Vec<Listener>> {
    let number = |variable: &str| env::var(variable).ok().and_then(|number| number.parse::<i32>().ok());
    let listener = |number, port| Ok(Listener { socket: inherited(number)?, port, file: None });
    if let (Some(producers), Some(consumers)) =
        (number("ANDROID_SOCKET_traced_producer"), number("ANDROID_SOCKET_traced_consumer"))
    {
        return [(producers, Port::Producers), (consumers, Port::Consumers)]
            .into_iter()
            .map(|(number, port)| listener(number, port))
            .collect();
    }
    let is_for_this = number("LISTEN_PID").is_some_and(|pid| u32::try_from(pid) == Ok(std::process::id()));
    let count = number("LISTEN_FDS").filter(|_| is_for_this).unwrap_or(0);
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    (0..count)
        .map(|at| {
            let name = names.next().unwrap_or_default();
            let is_consumers = name.contains("consumer") || !name.contains("producer") && at > 0;
            listener(3 + at, if is_consumers { Port::Consumers } else { Port::Producers })
        })
        .collect()
}

fn made(name: &str, port: Port, permissions: Option<&Permissions>) -> io::Result<Listener> {
    let described = |error: io::Error| io::Error::new(error.kind(), format!("the socket {name}: {error}"));
    if let Some(name) = name.strip_prefix('@') {
        let socket = socket(Kind::Stream)?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes())?)
            .and_then(|()| listen(&socket, BACKLOG))
            .map_err(|error| described(error.into()))?;
        return Ok(Listener { socket, port, file: None });
    }
    // `vsock://…`, `host:port`, `[v6]:port`
    let is_address = name.starts_with("vsock://")
        || name.rsplit_once(':').is_some_and(|(_, number)| number.parse::<u16>().is_ok());
    if is_address {
        let why = "memory cannot be shared with clients of a network, which are not supported";
        return Err(described(io::Error::new(ErrorKind::Unsupported, why)));
    }
    let path = Path::new(name);
    let Listening { socket, path: file } = Listening::at(path, Kind::Stream, BACKLOG).map_err(described)?;
    // If this ends with an error, the file goes again.
    let listener = Listener { socket, port, file: Some(file) };
    if let Some(Permissions { group, mode }) = permissions {
        chown(path, None, *group)
            .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(*mode)))
            .map_err(described)?;
    }
    Ok(listener)
}

/// Connects to a service at a name. Waits as long as it takes.
pub(crate) fn connected(name: &str) -> io::Result<OwnedFd> {
    let described = |error: io::Error| io::Error::new(error.kind(), format!("the socket {name}: {error}"));
    let Some(name) = name.strip_prefix('@') else {
        return tracebuf_sockets::connect(name, Kind::Stream).map_err(described);
    };
    let (socket, address) = (socket(Kind::Stream)?, SocketAddrUnix::new_abstract_name(name.as_bytes())?);
    connect(&socket, &address).map_err(|error| described(error.into()))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = env::temp_dir().join(format!("tracebuf-daemon-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn a_socket_that_is_left_over_is_replaced_and_one_that_is_in_use_or_another_file_is_not() {
        let folder = folder("left-over");
        let path = folder.join("socket");
        let name = path.to_str().expect("text");
        let permissions = Permissions { group: None, mode: 0o620 };
        let first = made(name, Port::Producers, Some(&permissions)).expect("nobody is there");
        assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o620);
        let error = made(name, Port::Producers, None).expect_err("in use").to_string();
        assert!(error.contains("a service listens there"), "{error}");
        drop(first);
        assert!(!path.exists(), "it was removed");
        let left_over = made(name, Port::Producers, None).map(|mut listener| listener.file.take());
        assert!(left_over.is_ok() && path.exists());
        made(name, Port::Producers, None).expect("nobody listens there any more");
        fs::write(&path, "mine").expect("a file");
        assert!(
            made(name, Port::Producers, None).is_err() && fs::read(&path).expect("still there") == b"mine"
        );
        fs::remove_dir_all(folder).expect("it is there");
    }

    #[test]
    fn names_that_are_no_files_leave_none_and_addresses_are_refused() {
        let name = format!("@tracebuf-daemon-{}", std::process::id());
        let _one = made(&name, Port::Consumers, None).expect("a name");
        assert!(made(&name, Port::Consumers, None).is_err(), "it is taken");
        for address in ["127.0.0.1:8080", "[::1]:80", "vsock://1:2"] {
            let error = made(address, Port::Producers, None).expect_err("a network").to_string();
            assert!(error.contains("not supported"), "{error}");
        }
    }
}
