//! The command `tracebuf-conformance smb`: images of shared memory, printed and made.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Subcommand;
use clap::builder::TypedValueParser;
use tracebuf::producer::{Layout, SharedMemory, atomic_words};
use tracebuf_conformance::smb::{self, SampleError};

use crate::files::{Failure, output_path, printed, read_start, write};

/// Shared memory images: what producers write and the service reads.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Print an image: pages, layouts, chunk states, headers, packets, and what is wrong with them.
    ///
    /// Exit status: 0, whatever is wrong with the image, 1 when it could not be read or printed.
    Dump {
        /// The image, plain or gzipped; - is standard input.
        file: PathBuf,
        /// Bytes of a page, a multiple of 4 from 64 to 65536.
        #[arg(value_parser = page_size())]
        page_size: u32,
    },
    /// Write an image that our own writers made, in the middle of their work.
    ///
    /// Exit status: 0, 1 when it could not be written, 2 when there is no such image.
    Sample {
        /// The file to write; - is standard output.
        #[arg(value_parser = output_path())]
        out: PathBuf,
        /// Bytes of the image; it has 114688 chunks at most.
        size: usize,
        /// Bytes of a page, a multiple of 4 from 64 to 65536.
        #[arg(value_parser = page_size())]
        page_size: u32,
        /// The number of the pages' layout: 1 to 5 for 1, 2, 4, 7 or 14 chunks a page.
        #[arg(value_parser = layout())]
        layout: Layout,
    },
}

fn page_size() -> impl TypedValueParser<Value = u32> {
    let sizes = i64::from(SharedMemory::MIN_PAGE)..=i64::from(SharedMemory::MAX_PAGE);
    clap::value_parser!(u32).range(sizes).try_map(|size| match size % 4 {
        0 => Ok(size),
        _ => Err("it is not a multiple of 4"),
    })
}

fn layout() -> impl TypedValueParser<Value = Layout> {
    let layouts = clap::value_parser!(u32).range(1..=5);
    layouts.try_map(|number| Layout::from_bits(number).ok_or("there is no such layout"))
}

/// Runs the command.
pub(crate) fn run(arguments: &Args) -> Result<(), Failure> {
    match &arguments.what {
        What::Dump { file, page_size } => dump(file, *page_size),
        What::Sample { out, size, page_size, layout } => {
            let image = smb::sample(*size, *page_size, *layout);
            write(out, &image.map_err(|error| no_memory(out, error).of_arguments())?)
        }
    }
}

fn dump(file: &Path, page_size: u32) -> Result<(), Failure> {
    // One page more than allowed is enough for it to be refused, whatever follows.
    let most = u64::from(page_size.min(SharedMemory::MAX_PAGE)) * (SharedMemory::MAX_PAGES as u64 + 1);
    let bytes = read_start(file, most)?;
    let mut words = smb::words(&bytes);
    let memory =
        SharedMemory::new(atomic_words(&mut words), page_size).map_err(|error| no_memory(file, error))?;
    let rest = bytes.len().saturating_sub(memory.size());
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    printed(smb::dump_with_rest(memory, rest, &mut out).and_then(|()| out.flush()))
}

fn no_memory(file: &Path, error: impl Into<SampleError>) -> Failure {
    Failure::of(file, format_args!("no such shared memory: {}", error.into()))
}
