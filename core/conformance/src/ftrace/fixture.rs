//! An archive as a tracefs: [`Fixture`].

use std::collections::HashMap;
use std::io::{self, Error, ErrorKind, Read};

use flate2::read::GzDecoder;
use serde_json::Value;
use tracebuf_machine::ftrace::{ClockPair, TraceFs};

/// A recording of the kernel's ring buffers.
#[derive(Debug)]
pub struct Fixture {
    files: HashMap<String, Vec<u8>>,
    meta: Value,
    events: Vec<String>,
    cpus: u32,
    round: usize,
    has_stopped: bool,
    /// Of each processor, the lengths of the reads that are to come in this round, and where the next begins.
    reads: Vec<(Vec<usize>, usize)>,
}

impl Fixture {
    /// Reads a gzipped archive.
    ///
    /// # Errors
    /// Those of `archive`, and [`InvalidData`](ErrorKind::InvalidData) if it has no sensible `meta.json`.
    pub fn read(archive: impl Read) -> io::Result<Self> {
        let mut files = HashMap::new();
        for entry in tar::Archive::new(GzDecoder::new(archive)).entries()? {
            let mut entry = entry?;
            let name = entry.path()?.to_string_lossy().into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            files.insert(name, content);
        }
        let meta: Value = serde_json::from_slice(files.get("meta.json").map_or(&[], Vec::as_slice))?;
        let events = strings(&meta["events"]).ok_or_else(|| invalid("no list of events"))?;
        let cpus =
            meta["cpus"].as_u64().and_then(|cpus| u32::try_from(cpus).ok()).filter(|cpus| *cpus <= 1024);
        let cpus = cpus.ok_or_else(|| invalid("no number of processors"))?;
        Ok(Self { files, meta, events, cpus, round: 0, has_stopped: false, reads: Vec::new() })
    }

    /// The events that were enabled, as `group/name`.
    pub fn events(&self) -> &[String] {
        &self.events
    }

    /// How many rounds there are.
    pub fn rounds(&self) -> usize {
        self.meta["rounds"].as_array().map_or(0, Vec::len)
    }

    /// KiB of each processor's buffer that the kernel was asked for.
    pub fn buffer_kib_asked(&self) -> u64 {
        self.meta["buffer_size_kb_asked"].as_u64().unwrap_or(0)
    }

    /// Goes to the beginning of a round: pages and statistics are its own from now on.
    pub fn begin_round(&mut self, round: usize) {
        (self.round, self.has_stopped) = (round, false);
        let lengths = &self.meta["rounds"][round]["read_lengths"];
        let of_cpu = |cpu: u32| {
            let lengths = lengths[cpu.to_string()].as_array().map_or(&[][..], Vec::as_slice);
            lengths.iter().map(|length| length.as_u64().unwrap_or(0) as usize).collect()
        };
        self.reads = (0..self.cpus).map(|cpu| (of_cpu(cpu), 0)).collect();
    }

    /// Goes to the end of the round: statistics are those after the pages were read.
    pub fn stop(&mut self) {
        self.has_stopped = true;
    }

    /// A file of the round, such as `per_cpu/cpu0/trace`.
    pub fn of_round(&self, path: &str) -> Option<&[u8]> {
        self.files.get(&format!("rounds/{}/{path}", self.round)).map(Vec::as_slice)
    }

    /// A file of the archive.
    pub fn file(&self, path: &str) -> Option<&[u8]> {
        self.files.get(path).map(Vec::as_slice)
    }
}

impl TraceFs for Fixture {
    fn read(&mut self, path: &str) -> io::Result<String> {
        let file = match path.strip_suffix("/stats") {
            Some(_) => self.of_round(&format!("{path}.{}", if self.has_stopped { "read" } else { "begin" })),
            None => self.file(&format!("tracefs/{path}")),
        };
        let file = file.ok_or_else(|| Error::from(ErrorKind::NotFound))?;
        Ok(String::from_utf8_lossy(file).into_owned())
    }

    fn cpus(&mut self) -> io::Result<Vec<u32>> {
        Ok((0..self.cpus).collect())
    }

    fn read_page(&mut self, cpu: u32, page: &mut [u8]) -> io::Result<usize> {
        let none = || Error::from(ErrorKind::WouldBlock);
        let (lengths, at) = self.reads.get_mut(cpu as usize).ok_or_else(none)?;
        if lengths.is_empty() {
            return Err(none());
        }
        let (len, start) = (lengths.remove(0), *at);
        *at += len;
        let pages = self.of_round(&format!("per_cpu/cpu{cpu}/trace_pipe_raw")).unwrap_or_default();
        let read = pages
            .get(start..)
            .and_then(|rest| rest.get(..len))
            .ok_or_else(|| invalid("a page is missing"))?;
        page.get_mut(..len).ok_or_else(|| invalid("a read longer than a page"))?.copy_from_slice(read);
        Ok(len)
    }

    fn clocks(&mut self) -> io::Result<ClockPair> {
        let stop = &self.meta["rounds"][self.round]["stop"];
        let boot = stop["boot_before_ns"].as_u64();
        let ftrace = stop["now_ts"].as_str().and_then(nanoseconds);
        boot.zip(ftrace).map(|(boot, ftrace)| ClockPair { ftrace, boot }).ok_or_else(|| invalid("no clocks"))
    }
}

/// Seconds with six digits after the point, in nanoseconds.
fn nanoseconds(seconds: &str) -> Option<u64> {
    let (seconds, micros) = seconds.trim().split_once('.')?;
    let (seconds, micros): (u64, u64) = (seconds.parse().ok()?, micros.parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(micros.checked_mul(1000)?)
}

fn strings(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|one| Some(one.as_str()?.to_owned())).collect()
}

pub(super) fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}
