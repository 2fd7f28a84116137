//! The command `tracebuf-conformance`, for people who work on the buffer: a file for each of its commands.

mod files;
mod model;
mod pvm;
mod replay;
mod smb;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Recorded operations and shared memory images, for people who work on the buffer.
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
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Model(arguments) => model::run(&arguments),
        Command::Pvm(arguments) => pvm::run(&arguments),
        Command::Smb(arguments) => smb::run(&arguments),
    };
    result.map_or_else(|failure| failure.tell(), |()| ExitCode::SUCCESS)
}
