//! The `tracebuf` command: a file for each of its commands, and what they have in common.
//!
//! Calls go downwards:
//!
//! ```text
//! main                                                            parses, runs, tells of a failure
//! record receive recover inspect stats size                       a command each: `Args`, and `run`
//! which                                                           which buffer of a dump is meant
//! guess                                                           what a file is that is another command's
//! files                                                           what commands read and write
//! terminal  units                                                 what they print, and how options are written
//! system                                                          what differs from system to system
//! failure                                                         why a command ends as it should not
//! tell                                                            a line on standard error
//! ```
//!
//! What commands do is in the library, so a program can do it without them.

mod failure;
mod files;
mod guess;
mod inspect;
mod receive;
mod record;
mod recover;
mod size;
mod stats;
mod tell;
mod terminal;
mod units;
mod which;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Perfetto's trace buffer on the command line.
#[derive(Parser)]
#[command(name = "tracebuf", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

// In the order of docs/commands.md, which is also that of the help.
#[derive(Subcommand)]
enum Command {
    Record(record::Args),
    Receive(receive::Args),
    Recover(recover::Args),
    Inspect(inspect::Args),
    Stats(stats::Args),
    Size(size::Args),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(answer) => return terminal::answer(&answer).unwrap_or_else(|failure| failure.tell()),
    };
    let result = match arguments.command {
        Command::Record(arguments) => record::run(&arguments),
        Command::Receive(arguments) => receive::run(&arguments),
        Command::Recover(arguments) => recover::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Stats(arguments) => stats::run(&arguments),
        Command::Size(arguments) => size::run(&arguments),
    };
    result.unwrap_or_else(|failure| failure.tell())
}
