//! The `tracebuf` command: a file for each of its commands, and what they have in common. What commands do is in the
//! libraries, so that a program can do it without them.
//!
//! | module | what it is | what it may know |
//! |---|---|---|
//! | `record`, `serve`, `receive`, `recover`, `inspect`, `stats`, `size` | a command each: `Args`, and `run` | all below |
//! | `options` | options of several commands | `files`, `failure` |
//! | `file_kind` | the kind of a file that was given to the wrong command | `files` |
//! | `files` | files that commands read and write | `failure` |
//! | `terminal` | results, progress, and requests to end | `failure` |
//! | `failure` | lines on standard error, and the failure of a command | nothing |

mod failure;
mod file_kind;
mod files;
mod inspect;
mod options;
mod receive;
mod record;
mod recover;
mod serve;
mod size;
mod span;
mod stats;
mod terminal;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Perfetto's trace buffer on the command line.
#[derive(Parser)]
#[command(name = "tracebuf", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

// In the order of `docs/commands.md`, which is also that of the help.
#[derive(Subcommand)]
enum Command {
    Record(record::Args),
    Serve(serve::Args),
    Receive(receive::Args),
    Recover(recover::Args),
    Inspect(inspect::Args),
    Stats(stats::Args),
    Size(size::Args),
}

fn main() -> ExitCode {
    if serve::is_traced() {
        return serve::run_as_traced().unwrap_or_else(|failure| failure.report());
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(answer) => return terminal::answer(&answer).unwrap_or_else(|failure| failure.report()),
    };
    let result = match arguments.command {
        Command::Record(arguments) => record::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Receive(arguments) => receive::run(&arguments),
        Command::Recover(arguments) => recover::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Size(arguments) => size::run(&arguments),
    };
    result.unwrap_or_else(|failure| failure.report())
}
