//! The source of ftrace's pages and files: a kernel, or a recording of one, [`TraceFs`].

use std::io;

/// Two clocks, read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockPair {
    /// Nanoseconds of the buffer's clock: `now ts` of the first processor's statistics.
    pub ftrace: u64,
    /// Nanoseconds of `CLOCK_BOOTTIME`.
    pub boot: u64,
}

/// A tracefs, as far as recording needs it: an instance's files and pages.
///
/// ```
/// use std::io;
/// use tracebuf_machine::ftrace::{ClockPair, FtraceReader, TraceFs};
///
/// /// A kernel with one processor and nothing to tell.
/// struct Quiet;
///
/// impl TraceFs for Quiet {
///     fn read(&mut self, path: &str) -> io::Result<String> {
///         match path {
///             "events/header_page" => Ok("\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
///                 \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
///                 \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n".into()),
///             "trace_clock" => Ok("[boot] local\n".into()),
///             _ => Err(io::ErrorKind::NotFound.into()),
///         }
///     }
///     fn cpus(&mut self) -> io::Result<Vec<u32>> {
///         Ok(vec![0])
///     }
///     fn read_page(&mut self, _: u32, _: &mut [u8]) -> io::Result<usize> {
///         Err(io::ErrorKind::WouldBlock.into())
///     }
///     fn clocks(&mut self) -> io::Result<ClockPair> {
///         Err(io::ErrorKind::Unsupported.into())
///     }
/// }
///
/// let mut reader = FtraceReader::new(&mut Quiet, ["sched/sched_switch"], true)?;
/// assert_eq!(reader.unknown_events(), ["sched/sched_switch"]);
/// reader.read_pass(&mut Quiet, usize::MAX, &mut |packet| println!("{packet:?}"))?;
/// # Ok::<(), io::Error>(())
/// ```
pub trait TraceFs {
    /// Reads a file of the instance, such as `events/sched/sched_switch/format`, or of the top-level folder if only that
    /// has it, such as `printk_formats`.
    ///
    /// # Errors
    /// The system's; [`NotFound`](io::ErrorKind::NotFound) if there is no such file.
    fn read(&mut self, path: &str) -> io::Result<String>;

    /// The processors that have a buffer, in order.
    ///
    /// # Errors
    /// The system's.
    fn cpus(&mut self) -> io::Result<Vec<u32>>;

    /// Takes the next page out of a processor's buffer, without waiting for one. `page` is as long as a page; returns the
    /// bytes read.
    ///
    /// # Errors
    /// The system's: [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no page.
    fn read_page(&mut self, cpu: u32, page: &mut [u8]) -> io::Result<usize>;

    /// Reads the buffer's clock and the trace's. Only asked for if they are not the same.
    ///
    /// # Errors
    /// The system's.
    fn clocks(&mut self) -> io::Result<ClockPair>;
}
