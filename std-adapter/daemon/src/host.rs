//! What the service needs of Linux: memory, clocks, and open files.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use regex::bytes::{Regex, RegexBuilder};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, getrlimit};
use rustix::rand::{GetRandomFlags, getrandom};
use rustix::system::{sysinfo, uname};
use rustix::time::{ClockId, clock_gettime};
use tracebuf_service::{Clocks, Codec, FileToken, Find, Host, Machine, Pattern};
use tracebuf_sockets::SharedWords;
use tracebuf_std::memory::PagedMemory;

use crate::system::{timezone_minutes, tsc};

/// Most patterns that are kept ready, to be matched with names.
const MOST_PATTERNS: usize = 256;
/// Bytes that a pattern may take, and what is remembered of texts while it is looked for.
const PATTERN_SIZE: usize = 256 << 10;

/// The machine that the daemon runs on.
#[derive(Debug)]
pub(crate) struct LinuxHost {
    machine: Machine,
    files: HashMap<u64, OwnedFd>,
    last_file: u64,
    patterns: HashMap<String, Regex>,
    /// The folder below which everybody may have files made.
    folder: Option<PathBuf>,
}

impl LinuxHost {
    pub(crate) fn new() -> Self {
        let (kernel, system) = (uname(), sysinfo());
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        let name = std::env::var("PERFETTO_MACHINE_NAME").ok().filter(|name| !name.is_empty());
        let machine = Machine {
            uid: rustix::process::geteuid().as_raw(),
            name: name.unwrap_or_else(|| text(kernel.sysname())),
            sysname: text(kernel.sysname()),
            release: text(kernel.release()),
            version: text(kernel.version()),
            machine: text(kernel.machine()),
            page_size: rustix::param::page_size() as u32,
            timezone_minutes: timezone_minutes(),
            cpus,
            ram: (system.totalram as u128 * u128::from(system.mem_unit)) as u64,
        };
        Self { machine, files: HashMap::new(), last_file: 0, patterns: HashMap::new(), folder: None }
    }

    pub(crate) fn set_folder(&mut self, folder: PathBuf) {
        self.folder = Some(folder);
    }

    /// Keeps an open file.
    pub(crate) fn keep(&mut self, file: OwnedFd) -> FileToken {
        self.last_file += 1;
        self.files.insert(self.last_file, file);
        FileToken(self.last_file)
    }

    /// Gives an open file back.
    pub(crate) fn take(&mut self, token: FileToken) -> Option<OwnedFd> {
        self.files.remove(&token.0)
    }

    /// Makes a file that would be the service's, if a user may have one there. Its folder is held open, so that nobody
    /// puts a link to another in its place once it is known where it is.
    fn make(&self, path: &Path, uid: u32) -> io::Result<OwnedFd> {
        let is_trusted = uid == 0 || uid == self.machine.uid;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(parent.unwrap_or(Path::new(".")), flags, Mode::empty());
        let denied = || {
            let why = format!("user {uid} may not let the service create files there");
            io::Error::new(io::ErrorKind::PermissionDenied, why)
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) if is_trusted => return Err(error.into()),
            Err(_) => return Err(denied()),
        };
        let is_below = |folder: &PathBuf| {
            let place = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
            place
                .ok()
                .zip(folder.canonicalize().ok())
                .is_some_and(|(place, folder)| place.starts_with(folder))
        };
        if !is_trusted && !self.folder.as_ref().is_some_and(is_below) {
            return Err(denied());
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let file = rustix::fs::openat(opened, name, flags, Mode::RUSR | Mode::WUSR)?;
        rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH)?;
        Ok(file)
    }
}

/// A pattern that takes linear time and not much memory. It is about bytes: texts of a trace may be any.
fn compiled(pattern: &str, find: Find) -> Result<Regex, String> {
    let build = |pattern: &str| {
        let mut builder = RegexBuilder::new(pattern);
        builder.unicode(false).size_limit(PATTERN_SIZE).dfa_size_limit(PATTERN_SIZE);
        builder.build().map_err(|error| error.to_string())
    };
    // What is none by itself is none within others.
    let anywhere = build(pattern)?;
    if find == Find::Whole { build(&format!(r"\A(?:{pattern})\z")) } else { Ok(anywhere) }
}

#[derive(Debug)]
struct CompiledPattern(Regex);

impl Pattern for CompiledPattern {
    fn find(&self, text: &[u8], from: usize, groups: &mut Vec<Range<usize>>) -> Option<usize> {
        if self.0.captures_len() == 1 {
            return self.0.find_at(text, from).map(|found| found.end());
        }
        let found = self.0.captures_at(text, from)?;
        groups.extend(found.iter().skip(1).flatten().map(|group| group.range()));
        found.get(0).map(|all| all.end())
    }

    /// A clock that costs next to nothing.
    fn now(&self) -> u64 {
        nanoseconds(ClockId::MonotonicCoarse)
    }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Both are positive from 1970 to 2554.
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

impl Host for LinuxHost {
    type Memory = PagedMemory;
    type Shared = SharedWords;

    fn memory(&mut self, bytes: usize) -> Option<PagedMemory> {
        PagedMemory::new(bytes).ok().map(PagedMemory::in_large_pages)
    }

    fn share(&mut self, bytes: usize) -> Option<(SharedWords, FileToken)> {
        let (words, file) = SharedWords::new(bytes).ok()?;
        Some((words, self.keep(file)))
    }

    fn adopt(&mut self, file: FileToken) -> Option<SharedWords> {
        SharedWords::of(&self.take(file)?, 1..).ok()
    }

    fn create(&mut self, path: &str, uid: u32) -> Result<FileToken, String> {
        self.make(Path::new(path), uid).map(|file| self.keep(file)).map_err(|error| error.to_string())
    }

    fn clocks(&mut self) -> Clocks {
        Clocks {
            realtime_coarse: nanoseconds(ClockId::RealtimeCoarse),
            monotonic_coarse: nanoseconds(ClockId::MonotonicCoarse),
            boottime: nanoseconds(ClockId::Boottime),
            realtime: nanoseconds(ClockId::Realtime),
            monotonic: nanoseconds(ClockId::Monotonic),
            monotonic_raw: nanoseconds(ClockId::MonotonicRaw),
            tsc: tsc(),
        }
    }

    fn now(&mut self) -> u64 {
        nanoseconds(ClockId::Monotonic)
    }

    fn random(&mut self) -> u64 {
        let mut bytes = [0; 8];
        match getrandom(&mut bytes, GetRandomFlags::empty()) {
            Ok(8) => u64::from_ne_bytes(bytes),
            // Early in a machine's life it may have none.
            _ => nanoseconds(ClockId::Realtime).wrapping_mul(0x9E37_79B9_7F4A_7C15),
        }
    }

    fn matches(&mut self, pattern: &str, text: &str) -> Result<bool, String> {
        if !self.patterns.contains_key(pattern) {
            if self.patterns.len() >= MOST_PATTERNS {
                self.patterns.clear();
            }
            self.patterns.insert(pattern.to_owned(), compiled(pattern, Find::Whole)?);
        }
        Ok(self.patterns.get(pattern).is_some_and(|regex| regex.is_match(text.as_bytes())))
    }

    fn pattern(&mut self, pattern: &str, find: Find) -> Result<Box<dyn Pattern>, String> {
        Ok(Box::new(CompiledPattern(compiled(pattern, find)?)))
    }

    fn compress(&mut self, codec: Codec, packets: &[u8]) -> Option<Vec<u8>> {
        match codec {
            Codec::Deflate => {
                let mut stream = ZlibEncoder::new(Vec::new(), Compression::default());
                stream.write_all(packets).and_then(|()| stream.finish()).ok()
            }
            #[cfg(feature = "zstd")]
            Codec::Zstd { level } => zstd::bulk::compress(packets, level).ok(),
            #[cfg(not(feature = "zstd"))]
            Codec::Zstd { .. } => None,
        }
    }

    /// An eighth of the files that this process may have open: with some of each connection a message is to come, or to go.
    fn most_connections(&self) -> usize {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        (files / 8).min(4096) as usize
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_pattern_matches_all_of_a_name_or_nothing_and_a_wrong_one_is_an_error() {
        let mut host = LinuxHost::new();
        let names = ["com.a", "com.ab", "xcom.a", "com_a"];
        assert_eq!(
            names.map(|name| host.matches("com\\.a|x", name)),
            [Ok(true), Ok(false), Ok(false), Ok(false)]
        );
        assert!(host.matches("(", "").is_err());
    }

    #[test]
    fn a_pattern_that_is_none_by_itself_or_takes_too_much_is_an_error() {
        let mut host = LinuxHost::new();
        for pattern in ["a)(b", "(", "[", "(?=a)", "(a)\\1", "((a{100}){100}){100}"] {
            assert!(host.matches(pattern, "").is_err(), "{pattern}");
            for find in [Find::Whole, Find::Anywhere] {
                assert!(host.pattern(pattern, find).is_err(), "{pattern}");
            }
        }
    }

    #[test]
    fn a_pattern_is_found_with_its_groups_in_texts_of_any_bytes() {
        let mut host = LinuxHost::new();
        let mut find = |pattern: &str, find, text: &[u8], from| {
            let pattern = host.pattern(pattern, find).expect("it is one");
            let mut groups = Vec::new();
            let end = pattern.find(text, from, &mut groups);
            end.map(|end| (end, groups.into_iter().map(|group| (group.start, group.end)).collect::<Vec<_>>()))
        };
        assert_eq!(find("a(.*)", Find::Whole, b"a\xFFb", 0), Some((3, vec![(1, 3)])));
        assert_eq!(find("a(b)?(c)", Find::Whole, b"ac", 0), Some((2, vec![(1, 2)])), "one is not there");
        assert_eq!(find("a|ab", Find::Whole, b"ab", 0), Some((2, vec![])));
        assert_eq!(find("x(.)", Find::Whole, b"axb", 0), None);
        assert_eq!(find("x(.)", Find::Anywhere, b"xa xb", 1), Some((5, vec![(4, 5)])));
        assert_eq!(find("x(.)", Find::Anywhere, b"xa xb", 5), None);
        assert_eq!(find("(\\w+)", Find::Anywhere, "\u{e4}b".as_bytes(), 0), Some((3, vec![(2, 3)])));
        // What would take others for ever takes no time.
        assert_eq!(find("(a*)*b", Find::Whole, &[b'a'; 100_000], 0), None);
    }

    #[test]
    fn a_user_has_connections_for_a_part_of_the_files_that_there_may_be() {
        let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let most = LinuxHost::new().most_connections() as u64;
        assert!(most > 0 && most <= 4096 && most <= files / 8, "{most} of {files}");
    }

    #[test]
    fn packets_are_deflated_into_a_stream_that_has_them_again() {
        use std::io::Read;
        let packets = b"a packet, ".repeat(10_000);
        for packets in [&packets[..], &[]] {
            let stream = LinuxHost::new().compress(Codec::Deflate, packets).expect("there is memory");
            let mut back = Vec::new();
            flate2::read::ZlibDecoder::new(&stream[..]).read_to_end(&mut back).expect("a stream");
            assert!(back == packets && stream.len() < 1000);
        }
    }

    #[test]
    fn packets_become_a_frame_of_zstd_at_each_level_if_it_is_there() {
        let packets = b"a packet, ".repeat(100_000);
        for level in [-7, 3, 9] {
            let frame = LinuxHost::new().compress(Codec::Zstd { level }, &packets);
            assert_eq!(frame.is_some(), cfg!(feature = "zstd"));
            #[cfg(feature = "zstd")]
            assert!(frame.is_some_and(|frame| {
                frame.len() < 5000
                    && zstd::bulk::decompress(&frame, 2 << 20).is_ok_and(|back| back == packets)
            }));
        }
    }

    #[test]
    fn files_are_made_for_those_who_may_and_never_in_place_of_another() {
        let mut host = LinuxHost::new();
        let folder = std::env::temp_dir().join(format!("tracebuf-daemon-host-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("trace");
        let text = path.to_str().expect("it is text");
        let other = host.machine.uid.wrapping_add(1000);
        assert!(host.create(text, other).is_err_and(|error| error.contains("may not")));
        host.set_folder(folder.clone());
        assert!(host.create(&folder.join("../trace").to_string_lossy(), other).is_err());
        let outside = std::env::temp_dir().to_string_lossy().into_owned();
        std::os::unix::fs::symlink(&outside, folder.join("link")).expect("a link");
        let through = folder.join("link/tracebuf-daemon-outside");
        assert!(host.create(&through.to_string_lossy(), other).is_err() && !through.exists());
        assert!(host.create(&folder.join("no/trace").to_string_lossy(), 0).is_err());
        std::os::unix::fs::symlink("/etc/tracebuf-daemon", folder.join("dangling")).expect("a link");
        assert!(
            host.create(&folder.join("dangling").to_string_lossy(), other).is_err(),
            "what it names is not made"
        );
        let file = host.create(text, other).expect("below the folder");
        assert_eq!(std::fs::metadata(&path).expect("it").permissions().mode() & 0o777, 0o644);
        assert!(host.take(file).is_some() && host.take(file).is_none());
        assert!(host.create(text, host.machine.uid).is_err(), "it is there");
        std::fs::remove_dir_all(folder).expect("it is there");
    }
}
