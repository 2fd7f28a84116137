//! What a debug probe reads, over TCP, with a time limit: from a server, such as OpenOCD's of RTT, or from a program that
//! connects, as cargo-embed does.

use std::io::{self, ErrorKind, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use tracebuf_std::line::SILENCE;

/// How long each address of the server may take to answer.
const ANSWER: Duration = Duration::from_secs(2);

/// The address behind `tcp:`, if a line's name is one.
pub(super) fn address(name: &Path) -> Option<&str> {
    name.to_str()?.strip_prefix("tcp:")
}

/// The address behind `tcp-listen:`, if a line's name is one.
pub(super) fn listening(name: &Path) -> Option<&str> {
    name.to_str()?.strip_prefix("tcp-listen:")
}

/// Takes the next program that connects to an address, from now on.
///
/// # Errors
/// [`NotFound`](ErrorKind::NotFound) if none has come yet; it is no address, or not one of this machine.
pub(super) fn accept(address: &str, listener: &mut Option<TcpListener>) -> io::Result<TcpStream> {
    check(address, "tcp-listen:")?;
    let listener = match listener {
        Some(listener) => listener,
        None => {
            let bound = TcpListener::bind(address)?;
            bound.set_nonblocking(true)?;
            listener.insert(bound)
        }
    };
    let (stream, _) = listener.accept().map_err(|error| not_there(&error))?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(SILENCE))?;
    Ok(stream)
}

fn check(address: &str, prefix: &str) -> io::Result<()> {
    match address.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
        _ => Err(io::Error::new(ErrorKind::InvalidInput, format!("an address is {prefix}HOST:PORT"))),
    }
}

/// Connects to it, and asks J-Link's server for a channel.
///
/// # Errors
/// [`NotFound`](ErrorKind::NotFound) if nothing answers, which may change; [`InvalidInput`](ErrorKind::InvalidInput) if
/// it is no address.
pub(super) fn connect(address: &str, channel: Option<u32>) -> io::Result<TcpStream> {
    check(address, "tcp:")?;
    let mut failed = io::Error::from(ErrorKind::NotFound);
    let resolved = address.to_socket_addrs().map_err(|error| not_there(&error))?;
    for address in resolved {
        match TcpStream::connect_timeout(&address, ANSWER) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(SILENCE))?;
                if let Some(channel) = channel {
                    // Within the first 100 ms, or it is data for the device.
                    stream.write_all(format!("$$SEGGER_TELNET_ConfigStr=RTTCh;{channel}$$").as_bytes())?;
                }
                return Ok(stream);
            }
            Err(error) => failed = not_there(&error),
        }
    }
    Err(failed)
}

/// A server that does not answer may do so later.
fn not_there(error: &io::Error) -> io::Error {
    io::Error::new(ErrorKind::NotFound, error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_is_named_by_host_and_port() {
        assert_eq!(address(Path::new("tcp:localhost:9090")), Some("localhost:9090"));
        assert_eq!(listening(Path::new("tcp-listen:localhost:9090")), Some("localhost:9090"));
        assert_eq!(address(Path::new("/dev/ttyACM0")).or(address(Path::new("tcp-listen:a:1"))), None);
        for wrong in ["", "9090", ":9090", "localhost", "localhost:", "localhost:http", "localhost:70000"] {
            let error = connect(wrong, None).expect_err(wrong);
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{wrong}");
        }
    }

    #[test]
    fn one_program_after_another_may_connect() {
        let free =
            TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound").to_string();
        let mut listener = None;
        let none = accept(&free, &mut listener).expect_err("nobody has come");
        assert_eq!(none.kind(), ErrorKind::NotFound);
        for byte in [7, 8] {
            let mut client = TcpStream::connect(&free).expect("it listens");
            let mut come = accept(&free, &mut listener).expect("it has come");
            client.write_all(&[byte]).expect("a line");
            let mut read = [0];
            come.read_exact(&mut read).expect("a byte");
            assert_eq!(read, [byte]);
            let silent = come.read(&mut read).expect_err("nothing more comes");
            assert!(tracebuf_std::line::is_silence(&silent));
        }
    }

    #[test]
    fn a_server_that_is_not_there_may_come_and_a_channel_is_asked_for_first() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let client = connect(&address, Some(3)).expect("it listens");
        let (mut server, _) = listener.accept().expect("it has come");
        let mut asked = [0; 35];
        server.read_exact(&mut asked).expect("it asks");
        assert_eq!(asked, *b"$$SEGGER_TELNET_ConfigStr=RTTCh;3$$");
        drop((client, server, listener));
        assert_eq!(connect(&address, None).expect_err("it is gone").kind(), ErrorKind::NotFound);
    }
}
