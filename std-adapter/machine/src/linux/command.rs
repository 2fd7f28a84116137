//! A command that is recorded until it ends.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tracebuf_session::parts::process_track;
use tracebuf_session::{Recorder, SessionError, Track};

/// How long it is waited for, after it was asked to end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Checks that there is such a program, before anything is recorded.
pub(super) fn check(command: &[OsString]) -> Result<(), SessionError> {
    let Some(program) = command.first() else { return Err(failed(command, io::ErrorKind::NotFound.into())) };
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    let path = Path::new(program);
    let found = if program.as_bytes().contains(&b'/') {
        path.metadata().map(|_| is_program(path)).map_err(|error| failed(command, error))?
    } else {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = std::env::split_paths(&paths);
        // Without any, the system has its own.
        paths.is_empty() || folders.any(|folder| is_program(&folder.join(path)))
    };
    match (found, program.as_bytes().contains(&b'/')) {
        (true, _) => Ok(()),
        (false, true) => Err(failed(command, io::ErrorKind::PermissionDenied.into())),
        (false, false) => Err(failed(command, io::ErrorKind::NotFound.into())),
    }
}

fn failed(command: &[OsString], error: io::Error) -> SessionError {
    let program = command.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default();
    SessionError::io(format!("running {program}"), error)
}

/// A command that runs. Its process has a track in the trace with a slice as long as it runs.
pub(super) struct Running {
    child: Child,
    recorder: Recorder,
    status: Option<ExitStatus>,
}

impl Running {
    pub(super) fn start(command: &[OsString], recorder: &Recorder) -> Result<Self, SessionError> {
        let none = OsString::new();
        let (program, arguments) = command.split_first().unwrap_or((&none, &[]));
        let child = Command::new(program).args(arguments).spawn().map_err(|error| failed(command, error))?;
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let this = Self { child, recorder: recorder.clone(), status: None };
        this.on_track(&name, |track| {
            track.begin_with("command", |event| event.arg("words", words.join(" ").as_str()));
        });
        Ok(this)
    }

    fn on_track(&self, name: &str, record: impl FnOnce(&tracebuf_session::TrackRecorder<'_>)) {
        let process = process_track(self.child.id(), name);
        let track = Track::custom("command").within(&process);
        record(&self.recorder.on(&track));
    }

    /// Whether it has not ended.
    pub(super) fn goes_on(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_none()
    }

    /// Waits for its end, and returns its exit status, as shells have it. If it goes on although the recording is to
    /// end, it is asked to end too; without an answer it is left to itself, and there is no status.
    pub(super) fn end(mut self) -> Option<u8> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if self.goes_on() {
            // Until it was waited for, the number is its own.
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
        let deadline = Instant::now() + PATIENCE;
        while self.goes_on() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.on_track("", |track| track.end());
        let status = self.status?;
        let signal = status.signal().map(|signal| signal.saturating_add(128));
        Some(status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
    }
}
