//! The command `tracebuf serve`, which is also what runs under the name `traced`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::{env, ffi::OsString};

use clap::Parser;

use crate::failure::Failure;
use tracebuf_daemon::{Daemon, Permissions, SocketNames, say_ready};

/// Serve as Perfetto's tracing service: its command `perfetto`, `traced_probes` and programs with its SDK record with
/// this one.
///
/// Listens at the sockets that PERFETTO_PRODUCER_SOCK_NAME and PERFETTO_CONSUMER_SOCK_NAME name, or that systemd hands
/// over; else in /run/perfetto, if that is there, or in /tmp.
///
/// Ends on SIGTERM and Ctrl-C, after traces that it writes into files are complete. Called `traced`, it takes the
/// options of that program.
///
/// Exit status: 0 when it was told to end, 1 when it cannot listen.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A socket for programs that record: a path, or a name with @; several times for several.
    #[arg(long, value_name = "NAME")]
    producer_socket: Vec<String>,
    /// A socket for those who want a trace.
    #[arg(long, value_name = "NAME")]
    consumer_socket: Vec<String>,
    /// Groups and modes of the sockets: GROUP:MODE:GROUP:MODE, of producers and of consumers.
    #[arg(long, value_name = "PERMISSIONS")]
    set_socket_permissions: Option<String>,
    /// Let every user have traces written below this folder (output_path); else root and the service's own user may.
    #[arg(long, value_name = "FOLDER")]
    output_folder: Option<PathBuf>,
    /// Run in the background, and print the process's number.
    #[arg(long)]
    background: bool,
}

/// The options of Perfetto's service.
#[derive(Parser)]
#[command(name = "traced", version, disable_help_subcommand = true)]
struct Traced {
    #[command(flatten)]
    args: Args,
    /// Not supported: memory cannot be shared with another machine.
    #[arg(long)]
    enable_relay_endpoint: bool,
    /// Not supported: the same.
    #[arg(long, value_name = "SOCKET")]
    enable_relay_endpoint_on: Option<String>,
}

/// Whether the program was called by the name of Perfetto's service.
pub(crate) fn is_traced() -> bool {
    env::args_os()
        .next()
        .is_some_and(|name| PathBuf::from(name).file_name().is_some_and(|name| name == "traced"))
}

/// Runs as Perfetto's service.
pub(crate) fn run_as_traced() -> Result<ExitCode, Failure> {
    let traced = match Traced::try_parse() {
        Ok(traced) => traced,
        Err(answer) => return crate::terminal::answer(&answer),
    };
    if traced.enable_relay_endpoint || traced.enable_relay_endpoint_on.is_some() {
        let why = io::Error::new(io::ErrorKind::Unsupported, "this service has no relay endpoint");
        return Err(Failure::new(why));
    }
    run(&traced.args)
}

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<ExitCode, Failure> {
    serve(arguments).map_err(Failure::new)
}

fn serve(arguments: &Args) -> io::Result<ExitCode> {
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
    if let Some(text) = &arguments.set_socket_permissions {
        let [producers, consumers] = permissions(text)?;
        (names.producer_permissions, names.consumer_permissions) = (Some(producers), Some(consumers));
    }
    let mut daemon = Daemon::bind(&names)?;
    if let Some(folder) = &arguments.output_folder {
        daemon.allow_files_below(folder);
    }
    daemon.stop_on_signals()?;
    say_ready()?;
    daemon.run()?;
    Ok(ExitCode::SUCCESS)
}

/// The same program again without that option, which goes on when this one ends.
fn in_background() -> io::Result<ExitCode> {
    use std::os::unix::process::CommandExt;
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
