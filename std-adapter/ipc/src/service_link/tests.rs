//! Tests of a producer's way to its service, without a service.

use tracebuf::producer::Exhaustion;

use super::*;
use crate::link::SocketKind;
use crate::native::records::RecordSender;
use tracebuf_session::parts::words;

/// A service with a socket that nothing else is connected to.
fn service(test: &str) -> ServiceLink {
    let path = std::env::temp_dir().join(format!("tracebuf-line-{test}-{}", std::process::id()));
    let link = Link::listening(&path, SocketKind::Messages).expect("a socket");
    std::fs::remove_file(path).expect("it is there");
    let (switch, waker) = (Arc::new(RecordingGate::new()), Waker::default());
    let producer =
        ProducerCell::in_memory(words(8192), switch.clone(), waker.clone(), String::new()).expect("memory");
    ServiceLink::new(link, Arc::new(producer), switch, waker, false, Box::new(RecordSender::default()))
}

#[test]
fn a_writer_is_announced_also_while_the_sending_thread_is_at_it() {
    let service = service("announced");
    let (held, is_held) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _outgoing = service.outgoing();
            held.send(()).expect("the test waits");
            thread::sleep(Duration::from_millis(20));
        });
        is_held.recv().expect("it is held");
        let writer = service.producer.producer().writer(0, Exhaustion::Drop);
        service.announce_within(Duration::from_secs(30));
        // The request was taken out of the queue, to be sent.
        let mut requests = Vec::new();
        service.producer.queue().take(&mut requests);
        assert_eq!((writer.is_some(), requests.len()), (true, 0));
    });
}

#[test]
fn of_two_flushes_at_once_the_later_is_scraped_for_whichever_of_them_asks_last() {
    let service = service("scrape");
    let asked = || service.to_scrape.load(Ordering::Relaxed);
    let times_out = || assert!(matches!(service.flush(Instant::now()), Err(SessionError::Timeout)));
    times_out();
    let first = asked();
    times_out();
    assert!(asked() > first);
    // A later one, none, or an earlier one has asked while the next was on its way here; also where the numbers begin
    // anew.
    let (mut last, later) = (asked(), first + 1000);
    for (there, is_later) in [(later, true), (0, false), (first, false), (u32::MAX, false)] {
        service.to_scrape.store(there, Ordering::Relaxed);
        times_out();
        assert_eq!(asked() == there, is_later, "{there}");
        if !is_later {
            assert!((last + 1..later).contains(&asked()), "{there}");
            last = asked();
        }
    }
}

#[test]
fn each_flush_ends_with_its_own_scrape_or_a_later_one_and_with_the_connection() {
    let service = service("ends");
    thread::scope(|scope| {
        let wait = || service.flush(Instant::now() + Duration::from_secs(30));
        let asked = || service.to_scrape.load(Ordering::Relaxed);
        // The number of the next flush, once it has asked.
        let next = |before: u32| {
            let begun = Instant::now();
            while asked() == before {
                assert!(begun.elapsed() < Duration::from_secs(20), "one more asks");
                thread::yield_now();
            }
            asked()
        };
        let first = scope.spawn(wait);
        let of_first = next(0);
        let second = scope.spawn(wait);
        let of_second = next(of_first);
        // Of the first alone: the second goes on waiting.
        service.act(ServiceMessage::Scraped(of_first));
        first.join().expect("no panic").expect("it is done");
        thread::sleep(Duration::from_millis(20));
        assert!(!second.is_finished());
        service.act(ServiceMessage::Scraped(of_second));
        second.join().expect("no panic").expect("it is done");
        let third = scope.spawn(wait);
        let of_third = next(of_second);
        let fourth = scope.spawn(wait);
        let of_fourth = next(of_third);
        service.act(ServiceMessage::Scraped(of_fourth));
        for flush in [third, fourth] {
            flush.join().expect("no panic").expect("a later one is enough");
        }
        let last = scope.spawn(wait);
        next(of_fourth);
        service.flushes().is_over = true;
        service.changed.notify_all();
        assert!(matches!(last.join().expect("no panic"), Err(SessionError::Stopped)));
    });
}

#[test]
fn a_flush_that_is_done_stays_so_when_an_earlier_one_is_done_after_it() {
    let service = service("earlier");
    let number = |_| {
        assert!(matches!(service.flush(Instant::now()), Err(SessionError::Timeout)));
        service.to_scrape.load(Ordering::Relaxed)
    };
    let [earlier, later] = [(), ()].map(number);
    service.act(ServiceMessage::Scraped(later));
    // Asked for late, by a thread that had its number before.
    service.act(ServiceMessage::Scraped(earlier));
    assert!(is_reached(service.flushes().done, later), "who waits for it may not have looked yet");
}

#[test]
fn neither_a_service_that_asks_without_end_nor_flushes_behind_the_end_fill_the_queue() {
    let service = service("endless");
    for number in 1..1000 {
        service.act(ServiceMessage::Question(number));
    }
    service.end(Instant::now());
    for _ in 0..1000 {
        assert!(matches!(service.flush(Instant::now()), Err(SessionError::Stopped)));
    }
    let mut requests = Vec::new();
    service.producer.queue().take(&mut requests);
    assert!(requests.is_empty(), "{}", requests.len());
}

#[test]
fn neither_threads_that_come_and_go_nor_flushes_fill_the_queue_of_a_service_that_takes_nothing() {
    let service = service("stalled");
    for number in 0..1000 {
        let writer = service.producer.producer().writer(0, Exhaustion::Drop);
        let mut writer = writer.expect("a place");
        // The first of them fill shared memory; then each waits for its first chunk a while, in vain.
        if number < 20 {
            writer.packet().varint(8, 1);
        }
        drop(writer);
        assert!(matches!(service.flush(Instant::now()), Err(SessionError::Timeout)));
    }
    let mut requests = Vec::new();
    service.producer.queue().take(&mut requests);
    let chunks = requests.iter().filter(|request| matches!(request, Request::Move(_))).count();
    assert!(chunks > 0 && requests.len() <= 4 * chunks, "{} for {chunks} chunks", requests.len());
}

/// Hears nothing: the connection has ended.
struct Deaf;

impl MessageReceiver for Deaf {
    fn receive(&mut self, _: &Link, _: &mut dyn FnMut(ServiceMessage)) -> Option<()> {
        None
    }
}

#[test]
fn whatever_there_is_to_do_wakes_the_sending_thread_which_otherwise_looks_once_a_second() {
    let service = service("wakes");
    service.waker.set(thread::current());
    let is_woken = |within| {
        let begun = Instant::now();
        thread::park_timeout(within);
        begun.elapsed() < within
    };
    let calls: [(&str, &dyn Fn()); 6] = [
        ("it records from here on", &|| service.begin()),
        ("a question", &|| service.act(ServiceMessage::Question(1))),
        ("something to answer", &|| service.act(ServiceMessage::ToAnswer)),
        ("a flush", &|| assert!(service.flush(Instant::now()).is_err())),
        ("an end", &|| service.ask_end()),
        ("the end of the connection", &|| service.receive(Box::new(Deaf))),
    ];
    for (what, call) in calls {
        while is_woken(Duration::from_millis(10)) {}
        call();
        assert!(is_woken(Duration::from_secs(20)), "{what}");
    }
    // What another thread is just sending, that thread must look at once more.
    let (held, is_held) = std::sync::mpsc::channel();
    let (go, goes_on) = std::sync::mpsc::channel::<()>();
    thread::scope(|scope| {
        let service = &service;
        scope.spawn(move || {
            let _outgoing = service.outgoing();
            held.send(()).expect("the test waits");
            let _ = goes_on.recv();
        });
        is_held.recv().expect("it is held");
        while is_woken(Duration::from_millis(10)) {}
        service.announce_within(Duration::ZERO);
        // Before anything else this thread waits for.
        let woken = is_woken(Duration::from_secs(20));
        drop(go);
        assert!(woken, "a writer that was not announced");
    });
    // Whoever waits for a flush hears of the end.
    assert!(service.flushes().is_over);
}
