//! The command `tracebuf-conformance`, for people who work on the buffer: a file for each of its commands.

mod files;
mod ftrace;
mod model;
mod pvm;
mod replay;
mod smb;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Recorded operations, shared memory images and kernel events, for people who work on the buffer.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Replay(replay::Args),
    Model(model::Args),
    Pvm(pvm::Args),
    Smb(smb::Args),
    Ftrace(ftrace::Args),
    FtracePages(ftrace::PagesArgs),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Model(arguments) => model::run(&arguments),
        Command::Pvm(arguments) => pvm::run(&arguments),
        Command::Smb(arguments) => smb::run(&arguments),
        Command::Ftrace(arguments) => ftrace::run(&arguments),
        Command::FtracePages(arguments) => ftrace::run_pages(&arguments),
    };
    result.map_or_else(|failure| failure.tell(), |()| ExitCode::SUCCESS)
}
