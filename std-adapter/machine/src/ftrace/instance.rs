//! A set of buffers in the kernel that is this recording's own: [`Instance`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Error, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tracebuf_std::system::boot_time;

use super::source::{ClockPair, TraceFs};
use super::stats::CpuStats;

/// Where a tracefs is mounted.
const MOUNTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What instances are named, before the process's id.
const PREFIX: &str = "tracebuf-";
/// Clocks in the order of preference; the first is the trace's own.
const CLOCKS: [&str; 3] = ["boot", "global", "local"];

/// What an instance is to record.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct InstanceOptions {
    /// Events, as `group/name`, or `group/*` for all of a group.
    pub events: Vec<String>,
    /// Filters: an event, and the condition under which it is recorded, such as `common_pid != 7`.
    pub filters: Vec<(String, String)>,
    /// KiB of each processor's buffer; the kernel's own few pages if 0.
    pub buffer_kib: u64,
    /// Other files of the instance, each with the text that is written into it, such as `tracing_cpumask` with `3`.
    pub settings: Vec<(String, String)>,
}

/// An instance of the kernel's tracefs. Nothing of other instances, nor of the top-level one, changes. It disappears
/// with this value; that of a process which was killed [stays and goes on recording](Self::remove_dead) until the next
/// one is made.
#[derive(Debug)]
pub struct Instance {
    top: PathBuf,
    folder: PathBuf,
    /// A file that is open as long as this is there: see [`remove_dead`](Self::remove_dead).
    held: Option<File>,
    /// All that the machine may have, in order: those that are off, too.
    cpus: Vec<u32>,
    /// Of each processor; closed while the processor is off.
    pipes: Vec<Option<File>>,
    failed: Vec<String>,
}

impl Instance {
    /// The tracefs of this system that may be read.
    ///
    /// # Errors
    /// [`PermissionDenied`](ErrorKind::PermissionDenied) if there is one that may not be, or
    /// [`NotFound`](ErrorKind::NotFound).
    pub fn find() -> io::Result<PathBuf> {
        let mut why = Error::from(ErrorKind::NotFound);
        for top in MOUNTS.map(Path::new) {
            match File::open(top.join("trace")) {
                Ok(_) => return Ok(top.to_owned()),
                Err(error) if error.kind() != ErrorKind::NotFound => why = error,
                Err(_) => {}
            }
        }
        Err(why)
    }

    /// Removes instances of processes that were killed. Each holds a file of its instance open from the begin, and the
    /// kernel removes no instance of which a file is open: so those of processes that run stay, wherever these are and
    /// whatever became of their numbers.
    pub fn remove_dead(top: &Path) {
        for entry in fs::read_dir(top.join("instances")).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
            let is_ours = rest.is_some_and(|rest| rest.split('-').all(|part| part.parse::<u32>().is_ok()));
            // Its pages may also be read by somebody else: then it stays too.
            if is_ours {
                let _ = fs::remove_dir(entry.path());
            }
        }
    }

    /// Makes an instance in the tracefs at `top`, which records nothing yet.
    ///
    /// # Errors
    /// The system's.
    pub fn create(top: &Path) -> io::Result<Self> {
        const TRIES: u32 = 100;
        let name = format!("{PREFIX}{}", std::process::id());
        let mut folder = top.join("instances").join(&name);
        for number in 2..TRIES {
            match fs::create_dir(&folder) {
                Ok(()) => {
                    let mut instance = Self {
                        top: top.to_owned(),
                        folder,
                        held: None,
                        cpus: Vec::new(),
                        pipes: Vec::new(),
                        failed: Vec::new(),
                    };
                    let held = processors_of(&instance.folder)
                        .and_then(|cpus| Ok((instance.open_pipe(cpus.first().copied().unwrap_or(0))?, cpus)));
                    match held {
                        Ok((pipe, cpus)) => {
                            (instance.held, instance.cpus) = (Some(pipe), cpus);
                            // A new one has it on.
                            instance.write("tracing_on", "0")?;
                            return Ok(instance);
                        }
                        // Another process has removed it, before there was a file to hold.
                        Err(_) if !instance.folder.exists() => folder = instance.folder.clone(),
                        Err(error) => return Err(error),
                    }
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    folder.set_file_name(format!("{name}-{number}"));
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::AlreadyExists, "too many instances of this process"))
    }

    /// Sets the instance up and lets the kernel record. Returns the events that were enabled, for
    /// [`FtraceReader::new`](super::FtraceReader::new), which may be called before or after; those that the kernel does not
    /// have are among them.
    ///
    /// # Errors
    /// The system's, if the clock, the size, a filter or another file cannot be set. That an event cannot be enabled
    /// [is told](Self::failed_events).
    pub fn start(&mut self, options: &InstanceOptions) -> io::Result<Vec<String>> {
        self.choose_clock()?;
        if options.buffer_kib > 0 {
            self.write("buffer_size_kb", &options.buffer_kib.to_string())
                .map_err(|error| no_buffer(options.buffer_kib, &error))?;
        }
        for (file, text) in &options.settings {
            self.write(file, text).map_err(|error| Error::new(error.kind(), format!("{file}: {error}")))?;
        }
        for (event, condition) in &options.filters {
            self.write(&format!("events/{event}/filter"), condition)?;
        }
        let events = options.events.iter().flat_map(|event| self.expanded(event)).collect::<Vec<_>>();
        for event in &events {
            if !self.enable(event) {
                self.failed.push(event.clone());
            }
        }
        self.pipes = self.cpus.iter().map(|cpu| self.open_pipe(*cpu).ok()).collect();
        self.write("tracing_on", "1")?;
        Ok(events)
    }

    /// Has readers that wait for pages woken when a buffer is so full, in percent.
    ///
    /// # Errors
    /// The system's: kernels before 5.1 have no such file.
    pub fn set_watermark(&self, percent: u8) -> io::Result<()> {
        self.write("buffer_percent", &percent.to_string())
    }

    /// The files that pages are read from, to wait for.
    pub fn pipes(&self) -> Vec<BorrowedFd<'_>> {
        self.pipes.iter().flatten().map(File::as_fd).collect()
    }

    /// KiB of each processor's buffer, as the kernel has it; 0 if unknown.
    pub fn buffer_kib(&mut self) -> u64 {
        let size = self.read("buffer_size_kb").unwrap_or_default();
        size.split(|c: char| !c.is_ascii_digit()).next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
    }

    /// Events that the kernel has but did not enable.
    pub fn failed_events(&self) -> &[String] {
        &self.failed
    }

    /// Stops the kernel's recording. What is in the buffers can still be read.
    ///
    /// # Errors
    /// The system's.
    pub fn stop(&self) -> io::Result<()> {
        self.write("tracing_on", "0")
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.folder.join(path))?;
        file.write_all(text.as_bytes())
    }

    /// Writing a clock empties the buffer and takes milliseconds, so only if another is chosen.
    fn choose_clock(&self) -> io::Result<()> {
        let known = fs::read_to_string(self.folder.join("trace_clock"))?;
        let is_known =
            |clock: &str| known.split_ascii_whitespace().any(|word| word.trim_matches(['[', ']']) == clock);
        match CLOCKS.into_iter().find(|clock| is_known(clock)) {
            Some(clock) if !known.contains(&format!("[{clock}]")) => self.write("trace_clock", clock),
            _ => Ok(()),
        }
    }

    /// Whether the kernel has an event.
    pub fn has(&self, event: &str) -> bool {
        self.folder.join("events").join(event).join("format").exists()
    }

    /// The events of a group, if that is what is asked for, or with its group one that has none; if there is no such group
    /// or event, what was asked for.
    pub fn expanded(&self, event: &str) -> Vec<String> {
        if !event.contains('/') {
            let groups = fs::read_dir(self.folder.join("events")).into_iter().flatten().flatten();
            let named = groups.map(|group| format!("{}/{event}", group.file_name().to_string_lossy()));
            return vec![named.into_iter().find(|name| self.has(name)).unwrap_or_else(|| event.to_owned())];
        }
        let Some(group) = event.strip_suffix("/*") else { return vec![event.to_owned()] };
        let entries = fs::read_dir(self.folder.join("events").join(group)).into_iter().flatten().flatten();
        let events = entries.filter(|entry| entry.path().join("format").exists());
        let names = events.filter_map(|entry| Some(format!("{group}/{}", entry.file_name().to_str()?)));
        let mut names: Vec<_> = names.collect();
        names.sort();
        if names.is_empty() { vec![event.to_owned()] } else { names }
    }

    /// Enables an event. True too if there is no such event, which the reader tells, and if it is always on.
    fn enable(&self, event: &str) -> bool {
        match self.write(&format!("events/{event}/enable"), "1") {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(_) => {
                let set_event = OpenOptions::new().append(true).open(self.folder.join("set_event"));
                set_event.and_then(|mut file| file.write_all(event.replacen('/', ":", 1).as_bytes())).is_ok()
            }
        }
    }

    fn open_pipe(&self, cpu: u32) -> io::Result<File> {
        let path = self.folder.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)
    }
}

impl TraceFs for Instance {
    fn read(&mut self, path: &str) -> io::Result<String> {
        let bytes = match read_file(&self.folder.join(path)) {
            Err(error) if error.kind() == ErrorKind::NotFound => read_file(&self.top.join(path)),
            result => result,
        };
        bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn cpus(&mut self) -> io::Result<Vec<u32>> {
        Ok(self.cpus.clone())
    }

    fn read_page(&mut self, cpu: u32, page: &mut [u8]) -> io::Result<usize> {
        let index = self.cpus.binary_search(&cpu).ok().filter(|index| *index < self.pipes.len());
        let index = index.ok_or_else(|| Error::from(ErrorKind::WouldBlock))?;
        if self.pipes.get(index).is_some_and(Option::is_none) {
            let pipe = self.open_pipe(cpu)?;
            self.pipes[index] = Some(pipe);
        }
        loop {
            match self.pipes[index].as_mut().map_or(Ok(0), |pipe| pipe.read(page)) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    fn clocks(&mut self) -> io::Result<ClockPair> {
        let boot = boot_time();
        let now = CpuStats::parse(0, &self.read("per_cpu/cpu0/stats")?).now;
        Ok(ClockPair { ftrace: (now * 1e9) as u64, boot })
    }
}

/// Why there is no buffer of this size for each processor, and what to do.
fn no_buffer(kib: u64, error: &Error) -> Error {
    let why = format!(
        "no buffer of {kib} KiB for each processor: {error}; take a smaller one (--kernel-buffer of tracebuf record, \
         buffer_size_kb of ftrace_config)"
    );
    Error::new(error.kind(), why)
}

/// The processors that the machine may have, whether they are on or not.
fn processors_of(instance: &Path) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(instance.join("per_cpu"))?.flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix("cpu")?.parse().ok());
    let mut cpus: Vec<u32> = numbers.collect();
    cpus.sort_unstable();
    Ok(cpus)
}

/// Some of these files, such as `events/header_page`, give to each reader but one read: a small one would cut them short.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    const CHUNK: usize = 1 << 16;
    let (mut file, mut bytes, mut len) = (File::open(path)?, vec![0; CHUNK], 0);
    loop {
        match file.read(bytes.get_mut(len..).unwrap_or_default()) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        bytes.resize(len + CHUNK, 0);
    }
    bytes.truncate(len);
    Ok(bytes)
}

impl Drop for Instance {
    /// Stops, and removes the instance: refused as long as anything of it is open.
    fn drop(&mut self) {
        let _ = self.stop();
        self.pipes.clear();
        self.held = None;
        let _ = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests;
