//! `tracebuf recover`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::files::check_is_other;
use crate::guess::Guess;
use crate::terminal::tell;
use tracebuf::buffer::AttachError;
use tracebuf_std::recover::{Dump, Place, RecoverError, Survivor};

/// More buffers than this are not told one by one.
const OTHERS: usize = 8;

#[derive(clap::Args)]
pub(crate) struct Recover {
    /// The dump of memory, or the file of a buffer.
    dump: PathBuf,
    /// The trace file to write.
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Where the buffer's memory starts, or something before it, decimal or 0x…: an address, or in a raw dump, which
    /// has none, the offset from its start. Without it the dump is searched.
    #[arg(long, alias = "offset", value_parser = number, conflicts_with = "symbol")]
    address: Option<u64>,
    /// The variable that is the buffer's memory, or has it within: a static of Rust by its path or the end of it,
    /// TRACE, firmware::TRACE.
    #[arg(long)]
    symbol: Option<String>,
    /// The program whose symbols are meant, for a dump without symbols.
    #[arg(long, value_name = "ELF", requires = "symbol")]
    program: Option<PathBuf>,
    /// Leave out what this trace, written by the same session, has already. For files of buffers.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["address", "symbol"])]
    after: Option<PathBuf>,
    /// The same, and put the whole packets of that trace first: one trace of both.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["address", "symbol", "after"])]
    with: Option<PathBuf>,
}

fn number(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| error.to_string())
}

fn recover(arguments: &Recover) -> Result<(), String> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| format!("error opening {}: {error}", path.display()))
    };
    let output = &arguments.output;
    // Not the trace of `with`, which may be the one that is written.
    for input in [&arguments.dump].into_iter().chain(&arguments.program).chain(&arguments.after) {
        check_is_other(output, input)
            .map_err(|error| format!("error writing {}: {error}", output.display()))?;
    }
    let anywhere = arguments.address.is_none() && arguments.symbol.is_none();
    // A file may be larger than memory and hold little. A pipe is read but once.
    if anywhere
        && std::fs::metadata(&arguments.dump).is_ok_and(|dump| dump.is_file())
        && let Ok(survivor) = Survivor::open(&arguments.dump)
    {
        return survive(arguments, survivor);
    }
    let file = read(&arguments.dump)?;
    if anywhere && let Ok(survivor) = Survivor::parse(&file) {
        return survive(arguments, survivor);
    }
    if arguments.after.is_some() || arguments.with.is_some() {
        return Err(format!(
            "{} is no file of a buffer, which may be beside a trace",
            arguments.dump.display()
        ));
    }
    let mut dump = Dump::parse(&file).map_err(|error| error.to_string())?;
    if let Some(program) = &arguments.program {
        dump.symbols_of(&read(program)?).map_err(|error| error.to_string())?;
    }
    let place = match (arguments.address, &arguments.symbol) {
        (Some(address), _) => Place::Address(address),
        (None, Some(name)) => Place::Symbol(name.clone()),
        (None, None) => Place::Anywhere,
    };
    let found = dump.find(place).map_err(|error| match error {
        RecoverError::Attach(AttachError::NoRegion) if anywhere => format!("{error}{}", Guess::of(&file)),
        error => error.to_string(),
    })?;
    tell!("buffer at {:#x}: {}", found.address, found.salvage);
    if !found.others.is_empty() {
        let told: Vec<_> = found.others.iter().take(OTHERS).map(|address| format!("{address:#x}")).collect();
        let more = if found.others.len() > OTHERS { " and elsewhere" } else { "" };
        tell!("other buffers at {}{more}: --address takes one of them", told.join(", "));
    }
    let (packets, refused) =
        found.write(output).map_err(|error| format!("error writing {}: {error}", output.display()))?;
    tell!("{packets} packets in {}", output.display());
    if refused > 0 {
        tell!("not in the trace file, malformed or forged: {refused} packets");
    }
    Ok(())
}

/// The file of a buffer.
fn survive(arguments: &Recover, survivor: Survivor) -> Result<(), String> {
    let Recover { output, after, with, .. } = arguments;
    tell!("buffer in a file: {}", survivor.salvage());
    let survivor = match after.as_ref().or(with.as_ref()) {
        Some(trace) => {
            survivor.after(trace).map_err(|error| format!("error opening {}: {error}", trace.display()))?
        }
        None => survivor,
    };
    let written = match with {
        Some(trace) => survivor.write_with(trace, output),
        None => survivor.write(output),
    };
    let written = written.map_err(|error| format!("error writing {}: {error}", output.display()))?;
    tell!("{} packets in {}", written.packets, output.display());
    if written.invalid_packets > 0 {
        tell!("not in the trace file, malformed or forged: {} packets", written.invalid_packets);
    }
    Ok(())
}

pub(crate) fn run(arguments: &Recover) -> ExitCode {
    match recover(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            tell!("{message}");
            ExitCode::FAILURE
        }
    }
}
