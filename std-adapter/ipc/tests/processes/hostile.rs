//! Producers and services that do not do as they should, at either end of a connection between processes.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::thread::JoinHandleExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{slice, thread};

use memmap2::MmapRaw;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, bind, connect, listen, recvmsg, send, socket_with,
};
use tracebuf_ipc::{Connection, ProducerSocket};
use tracebuf_session::Session;

use crate::harness::{Service, socket_path};

fn service(test: &str) -> Service {
    Service::start(test, Session::builder().ring(32 << 20), ProducerSocket::builder().shared_memory(64 << 10))
}

fn socket() -> OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket")
}

fn address(path: &Path) -> SocketAddrUnix {
    SocketAddrUnix::new(path).expect("a short path")
}

/// A producer that says what it likes: it is connected, and has heard the welcome, with which the memory came.
fn raw_producer(path: &Path) -> (OwnedFd, OwnedFd) {
    let socket = raw_socket(path);
    let (mut welcome, mut room) = ([0; 65536], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let heard = recvmsg(&socket, &mut [IoSliceMut::new(&mut welcome)], &mut control, RecvFlags::empty());
    assert_ne!(heard.expect("a welcome").bytes, 0);
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    (socket, file.expect("memory"))
}

/// A connection that says nothing.
pub(crate) fn raw_socket(path: &Path) -> OwnedFd {
    let socket = socket();
    connect(&socket, &address(path)).expect("somebody listens");
    socket
}

/// A service that does nothing yet.
fn listening(path: &Path, backlog: i32) -> OwnedFd {
    let listening = socket();
    bind(&listening, &address(path)).expect("nobody else");
    listen(&listening, backlog).expect("a socket");
    listening
}

/// A message that this many packets for the first buffer were given up.
fn dropped(packets: u64) -> [u8; 16] {
    let mut record = [0; 16];
    record[0] = 0x11;
    record[8..].copy_from_slice(&packets.to_le_bytes());
    record
}

fn say(socket: &OwnedFd, message: &[u8]) {
    assert_eq!(send(socket, message, SendFlags::NOSIGNAL).expect("it is heard"), message.len());
}

/// Packets that the session's first buffer counts as given up, once there are this many, or after a while.
fn lost(session: &Session, expected: u64) -> u64 {
    let begin = Instant::now();
    loop {
        let lost = session.summary().expect("a summary").buffers[0].trace_writer_packet_loss;
        if lost == expected || begin.elapsed() > Duration::from_secs(5) {
            return lost;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_a_producer_claims_to_have_lost_is_told_apart_and_no_more_than_it_can_have_written() {
    let service = service("counts");
    let session = &service.session;
    let begun = Instant::now();
    let producers = [(); 2].map(|()| raw_producer(&service.path));
    let summary = || session.summary().expect("a summary");
    let claimed = || summary().losses().packets_claimed;
    for (number, (producer, _)) in producers.iter().enumerate() {
        let before = claimed();
        say(producer, &dropped(u64::MAX));
        while claimed() == before {
            assert!(begun.elapsed() < Duration::from_secs(30), "{number} claims");
        }
        // Twice is as much as once.
        say(producer, &dropped(u64::MAX));
    }
    session.flush(Duration::from_millis(10)).expect_err("they do not answer");
    let cores = thread::available_parallelism().expect("a number").get() as u64;
    let most = begun.elapsed().as_nanos() as u64 * cores * 2;
    let (losses, all) = (summary().losses(), claimed());
    assert!(all > 0 && all <= most, "{all} of {most}");
    assert_eq!((losses.packets_given_up, losses.packets_claimed), (0, all), "nobody has counted any");
    assert!(
        losses.to_string().contains(&format!("{all} packets given up, as other programs say")),
        "{losses}"
    );
    // The claims of producers that have gone are not gone.
    drop(producers);
    while summary().producers.len() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(30), "they go");
    }
    let after = summary();
    assert_eq!((after.losses().packets_given_up, after.losses().packets_claimed), (0, all));
    assert_eq!(after.buffers[0].trace_writer_packet_loss, all, "as the trace says");
}

#[test]
fn what_a_producer_has_sent_counts_though_it_ended_before_it_heard_all() {
    let service = service("unheard");
    for round in 1..=10 {
        let (producer, _) = raw_producer(&service.path);
        // The answer is left unread.
        say(&producer, &[5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        thread::sleep(Duration::from_millis(50));
        let message = dropped(1).repeat(256);
        for _ in 0..30 {
            say(&producer, &message);
        }
        drop(producer);
        let expected = round * 30 * 256;
        assert_eq!(lost(&service.session, expected), expected);
    }
}

/// A record of a producer or its service: what it is, and its short number.
fn record(tag: u8, short: u32) -> [u8; 16] {
    let mut record = [0; 16];
    record[0] = tag;
    record[4..8].copy_from_slice(&short.to_le_bytes());
    record
}

#[test]
fn of_two_scrapes_at_once_the_later_is_done_and_told_once_its_flush_was_carried_out() {
    const FLUSH: u8 = 5;
    const SCRAPE: u8 = 0x13;
    const SCRAPED: u8 = 0x23;
    let service = service("scrapes");
    for order in [[2, 1], [1, 2]] {
        let (producer, _) = raw_producer(&service.path);
        let scrapes = order.map(|flush| record(SCRAPE, flush)).concat();
        let flush = |number: u8| {
            let mut flush = [0; 16];
            (flush[0], flush[8]) = (FLUSH, number);
            flush
        };
        say(&producer, &[&scrapes[..], &flush(1), &flush(2)].concat());
        let mut heard = Vec::new();
        let begun = Instant::now();
        while !heard.iter().any(|(tag, _)| *tag == SCRAPED) {
            let mut room = [MaybeUninit::uninit(); 0];
            let mut control = RecvAncillaryBuffer::new(&mut room);
            let mut bytes = [0; 4096];
            let message =
                recvmsg(&producer, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::empty());
            let len = message.expect("an answer").bytes;
            assert!(len > 0 && begun.elapsed() < Duration::from_secs(30));
            let short = |record: &[u8]| u32::from_le_bytes([record[4], record[5], record[6], record[7]]);
            heard.extend(bytes[..len].chunks(16).map(|record| (record[0], short(record))));
        }
        assert!(heard.contains(&(SCRAPED, 2)) && !heard.contains(&(SCRAPED, 1)), "{heard:?}");
    }
}

#[test]
fn threads_share_a_connection() {
    fn is_for_all_threads<T: Send + Sync>() {}
    is_for_all_threads::<Connection>();
    is_for_all_threads::<ProducerSocket>();
}

extern "C" fn nothing(_: i32) {}

/// Whether [`Connection::open`] gives up at about the time it says, although the thread is interrupted all the while.
fn gives_up(path: &Path) -> bool {
    // SAFETY: the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    let path = path.to_owned();
    let begin = Instant::now();
    let opening = thread::spawn(move || Connection::builder().open(path).is_err());
    while !opening.is_finished() && begin.elapsed() < Duration::from_secs(9) {
        // SAFETY: the thread was not joined.
        unsafe { libc::pthread_kill(opening.as_pthread_t(), libc::SIGUSR1) };
        thread::sleep(Duration::from_millis(100));
    }
    opening.is_finished() && opening.join().expect("no panic")
}

#[test]
#[ignore = "takes 5 s, for which a service is waited for"]
fn a_service_that_says_nothing_is_given_up() {
    let path = socket_path("silent");
    let _listening = listening(&path, 64);
    assert!(gives_up(&path));
    std::fs::remove_file(path).expect("it is there");
}

#[test]
#[ignore = "takes 5 s, for which a service is waited for"]
fn a_service_that_takes_nobody_is_given_up() {
    let path = socket_path("full");
    let _listening = listening(&path, 0);
    let first = socket();
    connect(&first, &address(&path)).expect("there is one place");
    assert!(gives_up(&path));
    std::fs::remove_file(path).expect("it is there");
}

/// A producer with a writer that has sent more than 4,096 chunks of a packet each.
fn with_many_chunks(path: &Path) -> OwnedFd {
    let (socket, file) = raw_producer(path);
    let memory = MmapRaw::map_raw(&file).expect("address space");
    // SAFETY: this many bytes are mapped until the function's end; the service too changes them atomically.
    let words: &[AtomicU32] = unsafe { slice::from_raw_parts(memory.as_ptr().cast(), memory.len() / 4) };
    // Registers writer 1 for the first buffer.
    say(&socket, &[1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let pages = memory.len() / 4096;
    for (chunk_id, at) in (0..5000).zip((0..pages).cycle()) {
        let page = &words[at * 1024..];
        while page[0].load(Ordering::Acquire) != 0 {
            // Not taken yet.
            thread::sleep(Duration::from_micros(50));
        }
        // A page of one chunk, complete: the chunk's id, its writer and fragments, a packet.
        for (at, word) in [(2, chunk_id), (3, 0x0001_0001), (4, u32::from_le_bytes(*b"\x02\x40\x05\0"))] {
            page[at].store(word, Ordering::Relaxed);
        }
        page[0].store(0x1000_0003, Ordering::Release);
        let mut request = [0; 16];
        request[0] = 3;
        request[8..12].copy_from_slice(&(at as u32).to_le_bytes());
        say(&socket, &request);
    }
    socket
}

#[test]
#[ignore = "takes 7 s"]
fn who_sends_what_takes_long_leaves_time_for_others() {
    let service = service("patches");
    // For a chunk far behind the newest, of which only a limited number are looked at.
    let mut patch = [0; 16];
    (patch[0], patch[1], patch[2], patch[8]) = (4, 1, 1, 1);
    let message = patch.repeat(256);
    let producers = [(); 12].map(|()| with_many_chunks(&service.path));
    for producer in producers {
        let message = message.clone();
        thread::spawn(move || while send(&producer, &message, SendFlags::NOSIGNAL).is_ok() {});
    }
    thread::sleep(Duration::from_millis(500));
    let mut times = [(); 5].map(|()| {
        let begin = Instant::now();
        service.session.summary().expect("an answer");
        begin.elapsed()
    });
    times.sort();
    // While each has one of its messages carried out, and not the 16 that wait.
    assert!(times[2] < Duration::from_millis(500), "{times:?}");
}
