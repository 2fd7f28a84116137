//! Serving on Linux.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use tracebuf_daemon::{Daemon, Permissions, SocketNames, say_ready, stop_session};
use tracebuf_machine::sources::offer_machine;

use super::Args;
use crate::failure::status;

pub(super) fn serve(arguments: &Args) -> io::Result<ExitCode> {
    if arguments.background {
        return in_background();
    }
    let mut names = SocketNames::from_environment();
    if !arguments.producer_socket.is_empty() {
        names.producers.clone_from(&arguments.producer_socket);
    }
    if !arguments.consumer_socket.is_empty() {
        names.consumers.clone_from(&arguments.consumer_socket);
    }
    if let Some(session) = &arguments.stop {
        return stop_session(&names, session).map(|()| ExitCode::SUCCESS);
    }
    if let Some(text) = &arguments.set_socket_permissions {
        let [producers, consumers] = permissions(text)?;
        (names.producer_permissions, names.consumer_permissions) = (Some(producers), Some(consumers));
    }
    let mut daemon = Daemon::bind(&names)?;
    if let Some(folder) = &arguments.output_folder {
        daemon.allow_files_below(folder);
    }
    // What clients call themselves may be meant for a terminal.
    let log: fn(&str) = |line| status!("{line}");
    daemon.log_with(log);
    daemon.stop_on_signals()?;
    let _machine = match arguments.no_machine {
        true => None,
        false => Some(offer_machine(daemon.connect_producer()?, log).map_err(io::Error::other)?),
    };
    if let Err(error) = say_ready() {
        // A variable that was meant for somebody else keeps nobody from recording.
        log(&format!("nobody is told that clients can come: {error}"));
    }
    daemon.run()?;
    Ok(ExitCode::SUCCESS)
}

/// The same program again without that option, which goes on when this one ends.
fn in_background() -> io::Result<ExitCode> {
    let others = env::args_os().skip(1).filter(|argument| argument != "--background");
    let others: Vec<OsString> = others.collect();
    let mut command = Command::new(env::current_exe()?);
    command.arg0(env::args_os().next().unwrap_or_else(|| "tracebuf".into())).args(others).process_group(0);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    writeln!(io::stdout(), "{}", child.id())?;
    Ok(ExitCode::SUCCESS)
}

/// GROUP:MODE:GROUP:MODE, with groups by name or number, and modes in octal.
fn permissions(text: &str) -> io::Result<[Permissions; 2]> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{what} in \"{text}\""));
    let parts: Vec<&str> = text.split(':').collect();
    let [group, mode, other_group, other_mode] = parts[..] else {
        return Err(wrong("not GROUP:MODE:GROUP:MODE"));
    };
    let of = |group: &str, mode: &str| {
        let mode = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o777);
        let mode = mode.ok_or_else(|| wrong("no mode"))?;
        let group = match group {
            "" => None,
            group => Some(group_number(group)?.ok_or_else(|| wrong("no such group"))?),
        };
        Ok::<_, io::Error>(Permissions { group, mode })
    };
    Ok([of(group, mode)?, of(other_group, other_mode)?])
}

fn group_number(group: &str) -> io::Result<Option<u32>> {
    if let Ok(number) = group.parse() {
        return Ok(Some(number));
    }
    let groups = std::fs::read_to_string("/etc/group")?;
    let mut lines = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find(|fields| fields.first() == Some(&group));
    Ok(found.and_then(|fields| fields.get(2)?.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_groups_and_octal_modes_of_both_sockets() {
        let [producers, consumers] = permissions("0:0666:root:660").expect("both");
        assert_eq!(producers, Permissions { group: Some(0), mode: 0o666 });
        assert_eq!(consumers, Permissions { group: Some(0), mode: 0o660 });
        assert_eq!(permissions(":600::600").expect("no group")[1].group, None);
        for wrong in ["", "a:b", "0:0668:0:660", "0:1777:0:660", "no-such-group:660:0:660"] {
            assert!(permissions(wrong).is_err(), "{wrong}");
        }
    }
}
