//! The command `tracebuf serve`, which is also what runs under the name `traced`.

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::failure::Failure;

/// Serve as Perfetto's tracing service: its command `perfetto`, `traced_probes` and programs with its SDK record with
/// this one. It has the machine's scheduling, processes and statistics by itself.
///
/// Listens at the sockets that PERFETTO_PRODUCER_SOCK_NAME and PERFETTO_CONSUMER_SOCK_NAME name, or that systemd hands
/// over; else in /run/perfetto, if that is there, or in /tmp.
///
/// For Linux. Ends on SIGTERM and Ctrl-C, after traces that it writes into files are complete. Called `traced`, it takes the
/// options of that program.
///
/// Exit status: 0 when it was told to end, 1 when it cannot listen, or stop a session.
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
    /// Stop a session of a service that runs, which is yours or you are root: by its unique name, the key by which it
    /// was detached, or its number. It is flushed, and its consumer can read it still.
    #[arg(long, value_name = "SESSION", conflicts_with_all = ["background", "output_folder", "producer_socket"])]
    stop: Option<String>,
    /// Do not offer this machine's own data sources: linux.ftrace, linux.process_stats, linux.sys_stats,
    /// linux.system_info. For where Perfetto's traced_probes does; called `traced`, the service never offers them.
    #[arg(long)]
    no_machine: bool,
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
        return Err(Failure::new("this service has no relay endpoint"));
    }
    run(&Args { no_machine: true, ..traced.args })
}

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<ExitCode, Failure> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return linux::serve(arguments).map_err(Failure::new);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = arguments;
        Err(Failure::new("serving needs Linux"))
    }
}
