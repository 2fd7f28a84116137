//! Clients that take nothing: nobody else's data is hurt.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::config::trace_config;
use tracebuf_service::wire::ProtoBuilder;

use super::many::{assert_whole, wanted, write};
use super::{Consumer, Service};
use crate::trace::{Trace, mkfifo};

/// A disk of 256 KiB, in a mount namespace of its own.
struct SmallDisk {
    holder: Child,
    folder: PathBuf,
}

impl SmallDisk {
    fn new(at: &Path) -> Self {
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        let mount = format!("mount -t tmpfs -o size=256k none '{}' && echo there && read _", at.display());
        command.args(["sh", "-c", &mount]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = command.spawn().expect("unshare");
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("a pipe")).read_line(&mut line).expect("text");
        assert_eq!(line, "there\n");
        let root = format!("/proc/{}/root", holder.id());
        Self { holder, folder: Path::new(&root).join(at.strip_prefix("/").expect("a whole path")) }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A session that has the service write a file, often.
fn into_file(consumer: &mut Consumer, kib: u64, file: &File) -> u64 {
    let config = wanted(kib)
        .number(trace_config::WRITE_INTO_FILE, true)
        .number(trace_config::FILE_WRITE_PERIOD_MS, 100_u32);
    consumer.enable(&config, Some(file))
}

#[test]
fn a_consumer_that_does_not_read_a_pipe_and_a_full_disk_hurt_nobody_elses_data() {
    const PROGRAMS: u64 = 10;
    const PACKETS: u64 = 20_000;
    let service = Service::start("serve-stuck");
    let [mut reader, mut pipe, mut full, mut file] = [(); 4].map(|()| service.consumer());
    let mut good = service.consumer();
    let enabled = good.enable(&wanted(64 << 10), None);
    reader.enable(&wanted(8 << 10), None);
    // Nobody reads it, but it is open for that.
    let path = service.folder.join("pipe");
    mkfifo(&path);
    let open = |flags| OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path);
    let nobody = open(libc::O_NONBLOCK).expect("a pipe");
    into_file(&mut pipe, 8 << 10, &nobody);
    let place = service.folder.join("disk");
    std::fs::create_dir(&place).expect("a folder");
    let disk = SmallDisk::new(&place);
    let small = disk.folder.join("trace");
    let of_disk = into_file(&mut full, 8 << 10, &File::create(&small).expect("room"));
    let whole = service.folder.join("whole.pftrace");
    let of_file = into_file(&mut file, 64 << 10, &File::create(&whole).expect("room"));
    // It asks for all there is again and again, and takes nothing.
    for _ in 0..50 {
        reader.call("ReadBuffers", &ProtoBuilder::new(), None);
    }
    write(&service.folder.join("p"), 5, PROGRAMS, PACKETS);
    for _ in 0..50 {
        reader.call("ReadBuffers", &ProtoBuilder::new(), None);
    }
    let begun = std::time::Instant::now();
    good.disable(enabled);
    assert_whole(&good.read(&service.folder.join("good.pftrace")), PROGRAMS, PACKETS);
    assert!(begun.elapsed() < Duration::from_secs(20), "it does not wait for others");
    file.disable(of_file);
    let trace = Trace::read(&whole);
    trace.assert_ends_with_stats();
    // That disk was too small, which ends its session; what is there is whole.
    full.disable(of_disk);
    let mut bytes = Vec::new();
    File::open(&small).expect("it is there").read_to_end(&mut bytes).expect("it can be read");
    assert!((100 << 10..=256 << 10).contains(&bytes.len()), "{}", bytes.len());
    assert!(TracePackets::new(&bytes).all(|packet| packet.is_ok()));
    assert_eq!(trace.losses(), 0);
}
