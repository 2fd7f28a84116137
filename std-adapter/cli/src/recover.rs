//! The command `tracebuf recover`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::failure::{Failure, name_of, status};
use crate::file_kind::{FileKind, if_missing, if_moved};
use crate::files::{check_is_other, output_path, read_as_far};
use crate::options::{BufferChoice, MostUnpacked, report_other_build, report_others};
use crate::span::WithSpans;
use crate::terminal::is_stdout;
use tracebuf::buffer::AttachError;
use tracebuf_analysis::recover::{Gap, InPlace, RecoverError, Survivor};
use tracebuf_session::region_file::check_is_free;
use tracebuf_std::console::input_in_use;
use tracebuf_std::display::Count;
use tracebuf_std::whole_file::check_writable;

/// Write what a trace buffer held when its program ended into a trace file, and say what had to be dropped.
///
/// The dump is raw memory, Intel HEX or ELF, from any device, or the file of a buffer whose session has ended. What was
/// already read out of the buffer is not in the trace. What writers had finished but was not yet moved into the buffer,
/// their last moments, is in the trace if it lies in shared memory before the buffer, as with the firmware library's
/// recorder, or in the buffer's file. A region in which firmware recorded in place is decoded.
///
/// Exit status: 0 when there is a trace, even an empty one, 3 when it lacks something because a file or memory was cut,
/// damaged or overwritten, or names because the program is another build's, 1 if there is none.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dump of memory, or the file of a buffer, plain or gzipped; - is standard input.
    dump: PathBuf,
    /// The trace file to write; - is standard output.
    #[arg(short, long, value_name = "OUT", value_parser = output_path())]
    output: PathBuf,
    #[command(flatten)]
    which: BufferChoice,
    #[command(flatten)]
    most_unpacked: MostUnpacked,
    /// Leave out what is already in this trace, written by the same session. For files of buffers.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["address", "symbol"])]
    after: Option<PathBuf>,
    /// The same, and put the whole packets of that trace first: one trace of both.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["address", "symbol", "after"])]
    with: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<ExitCode, Failure> {
    let Args { dump, output, which, .. } = arguments;
    // Not the trace of `with`, which may be the output.
    [dump]
        .into_iter()
        .chain(&which.program)
        .chain(&arguments.after)
        .try_for_each(|input| check_is_other(output, input))
        // Checked again when all is written, to a file beside it.
        .and_then(|()| check_writable(output))
        .map_err(|error| Failure::writing(output, error))?;
    // Packets that move on meanwhile would be in the trace twice, or torn.
    if let Some(input) = input_in_use(dump) {
        check_is_free(input).map_err(|error| {
            Failure::of(dump, format_args!("{error}; when that has ended it can be recovered"))
        })?;
    }
    // Messages go to standard error in any case.
    is_stdout(output)?;
    let anywhere = which.is_any();
    // A file may be larger than memory and hold little. A pipe can be read only once.
    if anywhere
        && dump != Path::new("-")
        && std::fs::metadata(dump).is_ok_and(|dump| dump.is_file())
        && let Ok(survivor) = Survivor::open(dump)
    {
        return survive(arguments, survivor);
    }
    let (file, is_whole) = read_as_far(dump, &arguments.most_unpacked)
        .map_err(|error| Failure::of(dump, &error).followed_by(if_missing(dump, &error)))?;
    let survivor = Survivor::parse(&file);
    match survivor {
        // All that counts is there, wherever a gzipped file was cut.
        Ok(survivor) if anywhere => return survive(arguments, survivor),
        Err(error) if arguments.after.is_some() || arguments.with.is_some() => {
            let why = "; --after and --with need a whole file of a buffer";
            let failure = Failure::of(dump, format_args!("{error}{why}"));
            return Err(failure.followed_by(if_moved(dump, &file)));
        }
        _ => {}
    }
    let (memory, place) = which.of(dump, &file)?;
    let damage = memory.damage();
    if let Some(damage) = damage {
        status!("{}: {damage}; what follows is what lies there", name_of(dump));
    }
    let in_place = memory.in_place(&place);
    let all_in_place = memory.all_in_place().filter(|_| anywhere).map(|(address, _)| address);
    let all_in_place: Vec<_> = all_in_place.collect();
    let found = memory.find(place);
    if let (Err(_), Some((address, view))) = (&found, in_place) {
        report_others(all_in_place.get(1..).unwrap_or_default());
        let is_whole = is_whole && view.chunks_missing() == 0;
        let found = InPlace::with_names(&view, memory.linked_names());
        return recorded_in_place(address, &found, arguments, is_whole);
    }
    let found = found.map_err(|error| match error {
        RecoverError::Attach(AttachError::NoRegion) if anywhere => {
            Failure::of(dump, format_args!("{error}{}", FileKind::of(&file)))
                .followed_by(if_moved(dump, &file))
        }
        error => Failure::of(dump, error),
    })?;
    status!("buffer at {:#x}: {}", found.address, found.salvage);
    report_others(&[&found.others[..], &all_in_place].concat());
    let shared =
        found.shared.as_ref().map(|shared| (shared.chunks, shared.writers, shared.pages_overwritten));
    let unmarked = found.unmarked;
    let written = found.write_to(output).map_err(|error| Failure::writing(output, error))?;
    if let Some((chunks, writers, pages)) = shared {
        report_shared(chunks, writers, pages, written.brought_in);
    }
    if unmarked > 0 {
        let chunks = Count(unmarked, "chunk");
        status!(
            "shared memory: its start mark is gone, so {chunks} before the buffer are not in the trace; keep the first \
             8 bytes of the recorder's memory from being cleared, and dump before the next start"
        );
    }
    report_packets(written.packets, written.invalid_packets, output);
    Ok(ended(damage.is_some() || !is_whole || written.chunks_lost > 0))
}

/// What firmware recorded in place.
fn recorded_in_place(
    address: u64,
    found: &InPlace,
    arguments: &Args,
    is_whole: bool,
) -> Result<ExitCode, Failure> {
    let Args { output, which, .. } = arguments;
    let starts = Count(found.starts.len() as u64, "start");
    status!("recorded in place at {address:#x}: {} of {starts}", Count(found.events, "event"));
    if found.is_repaired {
        status!("its header is damaged, and was read as it must have been");
    }
    match found.span {
        Some((first, last)) if first == last && found.events > 1 => {
            status!("all events have one time: the timer stood still");
        }
        Some((first, last)) => {
            status!("from {} to {} s", first as f64 / 1e9, last as f64 / 1e9);
        }
        None => {}
    }
    for (count, of, what) in [
        (found.missing_chunks, "chunk", "overwritten by newer ones"),
        (
            found.dropped_events,
            "event",
            "dropped, as all chunks were being written: give the ring more of them",
        ),
        (found.damaged_names, "name", "overwritten by something else"),
        (
            if found.damaged_names > 0 { 0 } else { found.unnamed },
            "event",
            "without a name, or of a track without one: give the region more names or text, or switch power off \
             once, as those of earlier builds stay in it",
        ),
        (
            if which.program.is_none() { found.unlinked } else { 0 },
            "event",
            "with a name that only the program has: give the very one that ran with --program",
        ),
        (
            found.damaged_chunks,
            "chunk",
            "damaged or overwritten by something else: what follows in each is lost",
        ),
    ] {
        if count > 0 {
            status!("{} {what}", Count(count, of));
        }
    }
    let of_other_build = which.program.as_deref().filter(|_| found.unlinked > 0);
    if let Some(program) = of_other_build {
        report_other_build(program, found.unlinked);
    }
    found.write_to(output).map_err(|error| Failure::writing(output, error))?;
    report_packets(found.packets, 0, output);
    Ok(ended(found.is_damaged() || !is_whole || of_other_build.is_some()))
}

/// The file of a buffer.
fn survive(arguments: &Args, survivor: Survivor) -> Result<ExitCode, Failure> {
    let Args { output, after, with, .. } = arguments;
    status!("buffer in a file: {}", survivor.salvage());
    if let Some(shared) = survivor.shared() {
        report_shared(shared.chunks, shared.writers, shared.pages_overwritten, survivor.brought_in());
    }
    let is_damaged = survivor.chunks_lost() > 0;
    let (gap, written) = match (after, with) {
        (Some(trace), _) => {
            let survivor = survivor.after(trace).map_err(|error| refused(trace, error))?;
            (survivor.gap(), survivor.write_to(output))
        }
        (None, Some(trace)) => {
            let appended = survivor.append_to(trace).map_err(|error| refused(trace, error))?;
            (appended.gap(), appended.write_to(output))
        }
        (None, None) => (Gap::default(), survivor.write_to(output)),
    };
    let written = written.map_err(|error| Failure::writing(output, error))?;
    report_packets(written.packets, written.invalid_packets, output);
    if let Some(trace) = after.as_ref().or(with.as_ref()).filter(|_| !gap.is_none()) {
        let lost = "what was there is lost, and so says the next packet of each sequence";
        status!("{}: {gap}: {lost}", name_of(trace));
    }
    Ok(ended(is_damaged || !gap.is_none()))
}

/// About a trace that nothing can be appended to.
fn refused(trace: &Path, error: io::Error) -> Failure {
    Failure::of(trace, format_args!("{error}{}", FileKind::if_gzipped(trace)))
}

/// The exit status when there is a trace; `in_part` if it lacks something that it should have.
fn ended(in_part: bool) -> ExitCode {
    ExitCode::from(if in_part { 3 } else { 0 })
}

/// Reports what became of so many chunks in shared memory.
fn report_shared(chunks: u64, writers: u64, pages_overwritten: u64, brought_in: u64) {
    if pages_overwritten > 0 {
        let pages = Count(pages_overwritten, "page");
        status!("shared memory: {pages} overwritten by something else, and what was in them is lost");
    }
    let there = format!("{} of {}", Count(chunks, "chunk"), Count(writers, "writer"));
    match brought_in {
        0 => status!("shared memory: nothing to bring in that the buffer does not have, or has room for"),
        all if all == chunks => status!("shared memory: {there} brought in"),
        some => status!("shared memory: {there}, of which {some} brought in"),
    }
}

fn report_packets(packets: u64, refused: u64, output: &Path) {
    let report = format!("{} in {}", Count(packets, "packet"), name_of(output));
    status!("{}", WithSpans(&report, &[output]));
    if refused > 0 {
        let refused = Count(refused, "packet");
        status!("not in the trace file, malformed, forged or too long for a trace: {refused}");
    }
}
