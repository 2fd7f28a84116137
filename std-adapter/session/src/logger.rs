//! A logger for the crate `log`.

use std::cell::RefCell;
use std::fmt::Write;

use log::{Level, LevelFilter, Log, Metadata, Record, SetLoggerError};
use tracebuf::producer::track_event::{LogMessage, LogPriority};

use crate::interned::interned;
use crate::recorder::Recorder;

/// A logger that records what comes through the crate `log`: each record is an instant on its thread's track, named by
/// its message, with level and target as categories and its file and line as source location; and a line of
/// ui.perfetto.dev's list of logs. With the feature `log`.
///
/// ```
/// use log::LevelFilter;
/// use tracebuf_session::{Logger, Session};
///
/// let session = Session::builder().start()?;
/// Logger::new(session.recorder()).max_level(LevelFilter::Info).init()?;
/// log::warn!(target: "disk", "block {} is slow", 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A program that has another logger as well gives both to one that passes records on: `Logger` is a [`Log`]. For
/// programs with `tracing` there is no need for it: what `tracing-log` passes on, `tracebuf-tracing` records as this
/// does. Structured values (`log`'s feature `kv`) are not recorded.
///
/// Cost: that of [`Recorder::log`], plus some 60 ns and formatting the message.
#[derive(Debug)]
pub struct Logger {
    recorder: Recorder,
    most: LevelFilter,
}

thread_local! {
    /// The memory of the last message, for the next one.
    static SCRATCH: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The most bytes that a thread keeps for messages.
const KEPT: usize = 4096;

impl Logger {
    /// A logger of all levels.
    pub fn new(recorder: Recorder) -> Self {
        Self { recorder, most: LevelFilter::Trace }
    }

    /// Records nothing more verbose than this level.
    #[must_use]
    pub fn max_level(self, most: LevelFilter) -> Self {
        Self { most, ..self }
    }

    /// Makes it the program's logger, and tells `log` the level, so that others cost nothing.
    ///
    /// # Errors
    /// The program has a logger already.
    pub fn init(self) -> Result<(), SetLoggerError> {
        let most = self.most;
        log::set_boxed_logger(Box::new(self))?;
        log::set_max_level(most);
        Ok(())
    }
}

fn priority(level: Level) -> LogPriority {
    match level {
        Level::Error => LogPriority::Error,
        Level::Warn => LogPriority::Warn,
        Level::Info => LogPriority::Info,
        Level::Debug => LogPriority::Debug,
        Level::Trace => LogPriority::Verbose,
    }
}

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= self.most && self.recorder.is_on()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        // Formatted before the event is written, because what is formatted may itself log.
        let mut text = SCRATCH.try_with(RefCell::take).unwrap_or_default();
        // A text that fails to format ends where it failed.
        let _ = write!(text, "{}", record.args());
        let message = LogMessage::new(priority(record.level()), &text);
        let file = record.file_static().or_else(|| record.file().and_then(interned));
        let message = match (file, record.line()) {
            (Some(file), Some(line)) => message.source_location(file, line),
            _ => message,
        };
        // Mostly the module, which lives as long as the program.
        let target = record.module_path_static().filter(|module| *module == record.target());
        let target = target.or_else(|| interned(record.target()));
        self.recorder.log_with("", message, |event| {
            event.name(&text).category(record.level().as_str());
            match target {
                Some(target) => event.category(target),
                None => event.category_text(record.target()),
            };
            match (file, record.file(), record.line()) {
                (Some(file), _, Some(line)) => event.source_location(file, line),
                (None, Some(file), Some(line)) => event.source_text(file, line),
                _ => event,
            }
        });
        text.clear();
        text.shrink_to(KEPT);
        let _ = SCRATCH.try_with(|scratch| scratch.replace(text));
    }

    fn flush(&self) {}
}
