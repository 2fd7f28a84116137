//! What a line is read from: something that is there until its end, or a port that may go and come back.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use tracebuf_std::line::{self, SILENCE, is_silence, with_timeout};

use super::options::ReceiveOptions;
use super::tcp;

/// How often to look whether a port has come.
const LOOK: Duration = Duration::from_millis(100);
/// How long a port that has come may refuse to be opened: the system makes it, and then says who may use it.
const SETTLING: Duration = Duration::from_secs(5);

/// Bytes of a line, read with a time limit.
pub(super) trait Source: Read {
    /// Whether the line was interrupted since this was last asked.
    fn take_interruption(&mut self) -> bool {
        false
    }

    /// Whether there is a line now.
    fn is_there(&self) -> bool {
        true
    }
}

/// What is open until it ends.
pub(super) struct Open<R>(pub(super) R);

impl<R: Read> Read for Open<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl<R: Read> Source for Open<R> {}

/// Opens a regular file, a named pipe, a serial port, a server, or a place to connect to; a port or a server that is not
/// there may be waited for. Says, too, whether what comes is sent at that moment.
pub(super) fn open(options: &ReceiveOptions) -> io::Result<(Box<dyn Source + Send + '_>, bool)> {
    let path = &options.port;
    if let Some(address) = tcp::listening(path) {
        let mut listener = None;
        // Whoever is to connect is waited for in any case.
        let accept = move || -> io::Result<Opened> {
            Ok((Box::new(tcp::accept(address, &mut listener)?), options.waits))
        };
        return Ok((Box::new(Port::new(path, accept)?), true));
    }
    let is_live = tcp::address(path).is_some() || line::kind_of(path).is_none_or(|kind| !kind.is_file());
    if options.waits {
        return Ok((Box::new(Port::new(path, move || open_once(options))?), is_live));
    }
    Ok((Box::new(Open(open_once(options)?.0)), is_live))
}

/// A line, and whether it is a port, which may come back when it is gone.
type Opened = (Box<dyn Read + Send>, bool);

/// Opens a regular file, a named pipe, a serial port at so many bits a second, or a server.
fn open_once(options: &ReceiveOptions) -> io::Result<Opened> {
    let (path, baud) = (&*options.port, options.baud);
    if let Some(address) = tcp::address(path) {
        return Ok((Box::new(tcp::connect(address, options.channel)?), true));
    }
    let kind = line::kind_of(path);
    if kind.is_some_and(|kind| kind.is_file()) {
        return Ok((Box::new(File::open(path)?), false));
    }
    if let Some(pipe) = kind.and_then(|kind| line::open_pipe(path, kind)) {
        return Ok((Box::new(with_timeout(pipe?)?), false));
    }
    // The crate takes text. A link's name need not be text, but it leads to one of the system's names.
    let name = match path.to_str() {
        Some(name) => name.to_owned(),
        None => fs::canonicalize(path)?.to_string_lossy().into_owned(),
    };
    match serialport::new(name, baud).timeout(SILENCE).open() {
        Ok(port) => Ok((Box::new(port), true)),
        Err(_) if kind.is_some_and(|kind| line::is_no_port(path, kind)) => {
            let neither = "it is neither a serial port nor a file of what came over one";
            Err(io::Error::new(ErrorKind::InvalidInput, neither))
        }
        Err(error) => Err(line::explained(path, kind, error.into())),
    }
}

/// A port that is waited for whenever it is not there; or a file or a pipe, once that is there.
struct Port<O> {
    open: O,
    line: Option<Opened>,
    interrupted: bool,
    /// Since when it is there and cannot be opened.
    refuses: Option<Instant>,
    settling: Duration,
    look: Duration,
}

impl<O: FnMut() -> io::Result<Opened>> Port<O> {
    /// # Errors
    /// What is there cannot be opened.
    fn new(path: &Path, mut open: O) -> io::Result<Self> {
        let line = match open() {
            Ok(line) => Some(line),
            // Where there is no folder there will be no port.
            Err(error) if error.kind() == ErrorKind::NotFound && has_folder(path) => None,
            Err(error) => return Err(error),
        };
        Ok(Self { open, line, interrupted: false, refuses: None, settling: SETTLING, look: LOOK })
    }

    fn look(&mut self) -> io::Result<()> {
        std::thread::sleep(self.look);
        match (self.open)() {
            Ok(line) => (self.line, self.refuses) = (Some(line), None),
            Err(error) if error.kind() == ErrorKind::NotFound => self.refuses = None,
            Err(error) => {
                let since = *self.refuses.get_or_insert_with(Instant::now);
                if since.elapsed() >= self.settling {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

fn has_folder(path: &Path) -> bool {
    path.parent().is_none_or(|folder| folder.as_os_str().is_empty() || folder.is_dir())
}

impl<O: FnMut() -> io::Result<Opened>> Read for Port<O> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let Some((line, is_port)) = &mut self.line else {
            self.look()?;
            return Err(ErrorKind::TimedOut.into());
        };
        match line.read(bytes) {
            Ok(count) if count > 0 || !*is_port => return Ok(count),
            Err(error) if is_silence(&error) || !*is_port => return Err(error),
            // It is gone.
            Ok(_) | Err(_) => {}
        }
        // Closed before it is looked for: otherwise it could not have the same name again.
        self.line = None;
        self.interrupted = true;
        Err(ErrorKind::TimedOut.into())
    }
}

impl<O: FnMut() -> io::Result<Opened>> Source for Port<O> {
    fn take_interruption(&mut self) -> bool {
        std::mem::take(&mut self.interrupted)
    }

    fn is_there(&self) -> bool {
        self.line.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Gives these bytes, and then an error or the end.
    struct Gives(VecDeque<u8>, Option<ErrorKind>);

    impl Read for Gives {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            match (self.0.pop_front(), self.1) {
                (Some(byte), _) => {
                    bytes[0] = byte;
                    Ok(1)
                }
                (None, None) => Ok(0),
                (None, Some(kind)) => Err(kind.into()),
            }
        }
    }

    fn port(
        mut opens: VecDeque<io::Result<(Gives, bool)>>,
        settling: Duration,
    ) -> io::Result<Port<impl FnMut() -> io::Result<Opened>>> {
        let open = move || {
            let next = opens.pop_front().unwrap_or_else(|| Err(ErrorKind::NotFound.into()));
            next.map(|(line, is_port)| (Box::new(line) as Box<dyn Read + Send>, is_port))
        };
        Ok(Port { settling, look: Duration::ZERO, ..Port::new(Path::new("port"), open)? })
    }

    fn gives(bytes: &[u8], then: Option<ErrorKind>, is_port: bool) -> io::Result<(Gives, bool)> {
        Ok((Gives(bytes.iter().copied().collect(), then), is_port))
    }

    fn fails(kind: ErrorKind) -> io::Result<(Gives, bool)> {
        Err(kind.into())
    }

    /// What the next so many reads give: a byte, or in what kind of error they end.
    fn reads(port: &mut impl Source, count: usize) -> Vec<Result<Option<u8>, ErrorKind>> {
        let mut read = || {
            let mut byte = [0];
            let count = port.read(&mut byte).map_err(|error| error.kind())?;
            Ok((count > 0).then_some(byte[0]))
        };
        (0..count).map(|_| read()).collect()
    }

    const SILENT: Result<Option<u8>, ErrorKind> = Err(ErrorKind::TimedOut);

    #[test]
    fn a_port_that_goes_is_waited_for_and_read_again_when_it_is_back() {
        for gone in [None, Some(ErrorKind::BrokenPipe), Some(ErrorKind::Other)] {
            let opens = [
                fails(ErrorKind::NotFound),
                fails(ErrorKind::NotFound),
                gives(&[1, 2], gone, true),
                fails(ErrorKind::NotFound),
                // Not yet ready.
                fails(ErrorKind::PermissionDenied),
                gives(&[3], gone, true),
            ];
            let mut port = port(opens.into(), Duration::from_secs(60)).expect("it may come");
            assert!(!port.is_there() && !port.take_interruption());
            assert_eq!(reads(&mut port, 2), [SILENT; 2]);
            assert_eq!((port.is_there(), port.take_interruption()), (true, false));
            assert_eq!(reads(&mut port, 3), [Ok(Some(1)), Ok(Some(2)), SILENT]);
            assert_eq!(
                (port.is_there(), port.take_interruption(), port.take_interruption()),
                (false, true, false)
            );
            assert_eq!(reads(&mut port, 4), [SILENT, SILENT, SILENT, Ok(Some(3))]);
            assert!(!port.take_interruption());
        }
    }

    #[test]
    fn what_stays_closed_though_it_is_there_is_an_error_and_so_is_what_cannot_be_opened_at_first() {
        let denied = || fails(ErrorKind::PermissionDenied);
        assert!(port([denied()].into(), Duration::ZERO).is_err());
        let opens = [gives(&[], None, true), denied()];
        let mut port = port(opens.into(), Duration::ZERO).expect("it is there");
        assert_eq!(reads(&mut port, 2), [SILENT, Err(ErrorKind::PermissionDenied)]);
    }

    #[test]
    fn a_file_or_a_pipe_has_an_end_and_its_errors_are_errors() {
        let mut file = port([gives(&[1], None, false)].into(), Duration::ZERO).expect("it is there");
        assert_eq!(reads(&mut file, 2), [Ok(Some(1)), Ok(None)]);
        let broken = [gives(&[], Some(ErrorKind::Other), false)];
        let mut file = port(broken.into(), Duration::ZERO).expect("it is there");
        assert_eq!(reads(&mut file, 1), [Err(ErrorKind::Other)]);
        assert!(file.is_there() && !file.take_interruption());
        // A port that is silent is there.
        let silent = [gives(&[], Some(ErrorKind::TimedOut), true)];
        let mut port = port(silent.into(), Duration::ZERO).expect("it is there");
        assert_eq!(reads(&mut port, 2), [SILENT; 2]);
        assert!(port.is_there() && !port.take_interruption());
    }

    #[test]
    fn nothing_is_waited_for_where_there_is_no_folder_for_it() {
        let open = || Err::<Opened, _>(io::Error::from(ErrorKind::NotFound));
        assert!(Port::new(Path::new("no/such/folder/port"), open).is_err());
        assert!(Port::new(Path::new("port"), open).is_ok());
    }
}
