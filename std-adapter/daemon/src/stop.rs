//! Stopping a session of a service that runs: [`stop_session`].

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tracebuf_service::wire::consumers::{CONSUMER_PORT, stop_session as call, stopped};
use tracebuf_service::wire::frames::{FrameBuffer, MAX_IPC_FRAME, ServiceFrame, bind, push_frame};

use crate::listening::{SocketNames, connected};

/// How long the service may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Stops a session of a service of this crate's that runs: by the session's unique name, the key by which it was
/// detached, or its number, as `perfetto --query` shows both. For the session's own user and for root.
///
/// The service then flushes the session, which ends after its programs have answered, or not in time; its consumer can
/// read it still. A detached one is forgotten.
///
/// # Errors
/// No service listens at the first of the consumers' names, or it is Perfetto's, which cannot do that
/// ([`Unsupported`](ErrorKind::Unsupported)); there is no such session of the user, or several
/// ([`NotFound`](ErrorKind::NotFound)); the service does not answer within 30 s
/// ([`TimedOut`](ErrorKind::TimedOut)).
pub fn stop_session(names: &SocketNames, session: &str) -> io::Result<()> {
    let name = names.consumers.first().ok_or(ErrorKind::InvalidInput)?;
    let mut stream = UnixStream::from(connected(name)?);
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut frames = FrameBuffer::new(MAX_IPC_FRAME);
    let mut bytes = Vec::new();
    push_frame(&mut bytes, &bind(0, CONSUMER_PORT));
    stream.write_all(&bytes)?;
    let no_answer = || io::Error::new(ErrorKind::InvalidData, "the service answers something else");
    let bound = next(&mut stream, &mut frames)?;
    let Some(ServiceFrame::Bound(bound)) = ServiceFrame::of(&bound) else { return Err(no_answer()) };
    let call = call(bound, session).ok_or_else(|| {
        io::Error::new(ErrorKind::Unsupported, "the service that listens there cannot stop sessions")
    })?;
    bytes.clear();
    push_frame(&mut bytes, &call);
    stream.write_all(&bytes)?;
    let answer = next(&mut stream, &mut frames)?;
    let Some(ServiceFrame::Reply(_, Some(answer))) = ServiceFrame::of(&answer) else {
        return Err(no_answer());
    };
    stopped(answer).map_err(|error| io::Error::new(ErrorKind::NotFound, error))
}

fn next(stream: &mut UnixStream, frames: &mut FrameBuffer) -> io::Result<Vec<u8>> {
    loop {
        let frame = frames.next().map_err(|_| io::Error::from(ErrorKind::InvalidData))?;
        if let Some(frame) = frame {
            return Ok(frame.to_vec());
        }
        let read = stream.read(frames.room()).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => io::Error::new(ErrorKind::TimedOut, "the service does not answer"),
            _ => error,
        });
        match read? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            len => frames.came(len),
        }
    }
}
