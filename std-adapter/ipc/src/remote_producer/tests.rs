//! Tests of the service's end of a producer, without a session around it.

use tracebuf_session::parts::{FOR_EVER, ProcessTree};

use super::*;
use crate::link::SocketKind;
use tracebuf_sockets::Peer;

/// The time allowed for what takes some milliseconds.
const LONG: Duration = Duration::from_secs(30);

/// A producer that sends bytes, each a message, whose messages wake this thread; and the other end.
fn producer(test: &str, refusals: &Refusals) -> (RemoteProducer<u8>, Link) {
    let path = std::env::temp_dir().join(format!("tracebuf-remote-{test}-{}", std::process::id()));
    let listening = Link::listening(&path, SocketKind::Messages).expect("a socket");
    let other = Link::connected(&path, SocketKind::Messages, Instant::now() + LONG).expect("it listens");
    let link = Arc::new(listening.accept(None).expect("it has come"));
    std::fs::remove_file(path).expect("it is there");
    let waker = Waker::default();
    waker.set(thread::current());
    let Peer { uid, pid } = link.peer();
    let newcomer = NewProducer {
        link,
        identity: ProducerIdentity { producer_id: 2, uid, pid },
        buffers: 1,
        waker,
        time: 0,
        refusals: refusals.clone(),
        process_tree: ProcessTree::default(),
        place: Arc::default(),
        listener: Weak::new(),
    };
    let next = |link: &Link| {
        let mut byte = [0];
        link.receive(&mut byte).ok().filter(|len| *len == 1).map(|_| byte.to_vec())
    };
    let (words, _) = SharedWords::new(8192).expect("memory");
    (RemoteProducer::start(newcomer, words, next, |_| false).expect("a thread"), other)
}

/// Whether this thread is woken within this time.
fn is_woken(within: Duration) -> bool {
    let begun = Instant::now();
    thread::park_timeout(within);
    begun.elapsed() < within
}

/// Waits until as many messages wait as can, and forgets that they have woken this thread.
fn settle(remote: &mut RemoteProducer<u8>) {
    let first = remote.messages.recv_timeout(LONG).expect("it was looked up");
    assert!(first.is_empty());
    while is_woken(Duration::from_millis(200)) {}
}

#[test]
fn who_has_more_than_one_turn_takes_is_looked_at_again_at_once() {
    let (mut remote, other) = producer("turn", &Refusals::default());
    settle(&mut remote);
    assert!(other.try_send(&[1], None).expect("it is there"));
    assert!(is_woken(LONG), "a message");
    while is_woken(Duration::from_millis(200)) {}
    for over in [
        DrainTurn { begin: Instant::now(), taken: WAITING },
        DrainTurn { begin: Instant::now() - TURN, taken: 1 },
    ] {
        let mut turn = over;
        assert_eq!(remote.take(&mut turn), None, "the turn is over");
        // Nothing else comes that would.
        assert!(is_woken(LONG), "what is left waits");
        assert!(!is_woken(Duration::from_millis(20)));
    }
    // However late it is, there is one in each turn.
    let mut turn = DrainTurn { begin: Instant::now() - LONG, taken: 0 };
    assert_eq!(remote.take(&mut turn), Some(vec![1]));
    assert_eq!(turn.taken, 1);
    // What has an end, but nothing before it, needs no further turn.
    let mut turn = DrainTurn::begin();
    assert_eq!((remote.take(&mut turn), remote.is_open), (None, true));
    assert!(!is_woken(Duration::from_millis(20)));
    drop(other);
    assert!(is_woken(LONG), "the end");
    while remote.is_open {
        assert_eq!(remote.take(&mut DrainTurn::begin()), None);
    }
}

#[test]
fn a_turn_takes_as_many_messages_as_may_wait_and_the_next_turn_the_rest() {
    let (mut remote, other) = producer("many", &Refusals::default());
    settle(&mut remote);
    for byte in 0..WAITING as u8 + 3 {
        assert!(other.try_send(&[byte], None).expect("it is there"));
    }
    while is_woken(Duration::from_millis(200)) {}
    // Of a turn without a limit of time.
    let endless = || DrainTurn { begin: Instant::now() + FOR_EVER / 2, taken: 0 };
    let mut taken = Vec::new();
    let mut turns = 0;
    let begun = Instant::now();
    while taken.len() < WAITING + 3 {
        assert!(begun.elapsed() < LONG);
        let (mut turn, before) = (endless(), taken.len());
        while let Some(message) = remote.take(&mut turn) {
            taken.extend(message);
        }
        turns += usize::from(taken.len() > before);
        assert!(taken.len() - before <= WAITING);
        assert!(taken.len() - before < WAITING || is_woken(LONG));
    }
    assert!(taken.into_iter().eq(0..WAITING as u8 + 3) && turns >= 2);
}

#[test]
fn who_says_nothing_is_sent_away_once_and_told_and_who_has_spoken_stays() {
    let refusals = Refusals::default();
    let (mut remote, other) = producer("silent", &refusals);
    settle(&mut remote);
    let hears =
        |other: &Link| other.receive_with(&mut [0; 8], Instant::now() + LONG).map(|(len, _)| len).ok();
    remote.end_if_silent_for(LONG);
    assert!(remote.is_open && remote.messages.try_recv().is_err());
    remote.end_if_silent_for(Duration::ZERO);
    remote.end_if_silent_for(Duration::ZERO);
    assert_eq!(hears(&other), Some(0));
    while remote.is_open {
        assert_eq!(remote.take(&mut DrainTurn::begin()), None);
    }
    let (mut remote, _other) = producer("speaks", &refusals);
    settle(&mut remote);
    remote.speaks();
    remote.end_if_silent_for(Duration::ZERO);
    assert_eq!((remote.take(&mut DrainTurn::begin()), remote.is_open), (None, true));
    assert_eq!(refusals.count(), 1, "and once for all");
}

#[test]
fn no_producer_has_given_up_more_than_it_had_time_for() {
    let (remote, _other) = producer("most", &Refusals::default());
    let before = remote.most_packets();
    thread::sleep(Duration::from_millis(10));
    let after = remote.most_packets();
    let cores = thread::available_parallelism().expect("a number").get() as u64;
    assert!(after - before >= 10_000_000 * cores, "{before} {after}");
    assert!(after <= remote.came.elapsed().as_nanos() as u64 * cores);
}
