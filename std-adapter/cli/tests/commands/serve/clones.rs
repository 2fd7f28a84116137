//! A session that writes a file: cloned into another while it goes on, and with a filter.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use tracebuf::proto::fields::{config, consumer};
use tracebuf::proto::reader::number;
use tracebuf::proto::varint;
use tracebuf_service::wire::ProtoBuilder;

use super::{Service, Trace, track_events, wait_until};

const PATIENCE: Duration = Duration::from_secs(30);

/// One that can be read, too, as the command `perfetto` opens it.
fn open(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(true).open(path).expect("a file")
}

fn into_file() -> ProtoBuilder {
    track_events()
        .number(config::trace_config::WRITE_INTO_FILE, true)
        .number(config::trace_config::FILE_WRITE_PERIOD_MS, 100_u32)
}

#[test]
fn a_session_that_writes_a_file_is_cloned_into_another_and_both_have_every_event() {
    let service = Service::start("serve-clones");
    let (follower, recorder) = service.followed();
    let [path, copy] = ["file.pftrace", "clone.pftrace"].map(|name| service.folder.join(name));
    let mut consumer = service.consumer();
    let enabled = consumer.enable(&into_file(), Some(&open(&path)));
    assert!(wait_until(30, || recorder.is_on()));
    (0..1000).for_each(|_| recorder.instant("early"));
    follower.flush(PATIENCE).expect("the service takes it");
    let is_written = || std::fs::metadata(&path).is_ok_and(|file| file.len() > 5000);
    assert!(wait_until(30, is_written), "at its period");
    (0..500).for_each(|_| recorder.instant("late"));
    let mut cloner = service.consumer();
    let by_id = ProtoBuilder::new().number(consumer::clone_session_request::SESSION_ID, 1_u32);
    // Without a file of its own there is no clone.
    let refused = cloner.call("CloneSession", &by_id, None);
    assert_eq!(number(&cloner.answers(refused)[0], consumer::clone_session_response::SUCCESS), Some(0));
    let request = cloner.call("CloneSession", &by_id, Some(&open(&copy)));
    let said = cloner.answers(request).remove(0);
    use consumer::clone_session_response::{SUCCESS, WAS_WRITE_INTO_FILE};
    assert_eq!([SUCCESS, WAS_WRITE_INTO_FILE].map(|field| number(&said, field)), [Some(1); 2]);
    let clone = Trace::read(&copy);
    assert_eq!((clone.events(3), clone.losses()), (1500, 0));
    clone.assert_ends_with_stats();
    (0..10).for_each(|_| recorder.instant("after"));
    follower.flush(PATIENCE).expect("the service takes it");
    consumer.disable(enabled);
    let whole = Trace::read(&path);
    assert_eq!((whole.events(3), whole.losses()), (1510, 0));
    assert!(whole.contains("after") && !clone.contains("after"));
}

/// A bytecode that keeps all, with rules for the names of events.
fn bytecode() -> Vec<u8> {
    let words: [u32; 19] = [
        1 << 3 | 3,
        1,
        0,
        1 << 3 | 2,
        11,
        12 << 3 | 3,
        2,
        13 << 3 | 2,
        1000,
        0,
        1 << 3 | 1,
        2 << 3 | 3,
        3,
        3 << 3 | 2,
        100,
        0,
        1 << 3 | 1,
        2 << 3 | 4,
        0,
    ];
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    let sum = bytes
        .fold(0xCBF2_9CE4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
    let mut encoded = Vec::new();
    for word in words.into_iter().chain([sum as u32]) {
        let mut one = [0; varint::MAX_LEN];
        let len = varint::encode(word.into(), &mut one).expect("room");
        encoded.extend_from_slice(&one[..len]);
    }
    encoded
}

#[test]
fn names_that_a_rule_is_for_are_overwritten_in_what_is_read_and_in_the_file() {
    use config::string_filter_rule::{POLICY, REGEX_PATTERN};
    let rule = ProtoBuilder::new().number(POLICY, 1_u32).bytes(REGEX_PATTERN, b"login of (\\w+)");
    let chain = ProtoBuilder::new().message(config::string_filter_chain::RULES, &rule);
    let filter = ProtoBuilder::new()
        .bytes(config::trace_filter::BYTECODE_V2, &bytecode())
        .message(config::trace_filter::STRING_FILTER_CHAIN, &chain);
    let service = Service::start("serve-filters");
    let (follower, recorder) = service.followed();
    let path = service.folder.join("file.pftrace");
    let mut consumers = [service.consumer(), service.consumer()];
    let [reads, writes] = &mut consumers;
    let filtered = |config: ProtoBuilder| config.message(config::trace_config::TRACE_FILTER, &filter);
    let enabled = reads.enable(&filtered(track_events()), None);
    let written = writes.enable(&filtered(into_file()), Some(&open(&path)));
    assert!(wait_until(30, || recorder.is_on()));
    // The program records into one session at a time, or into both: whichever it is has them.
    for name in ["login of anna", "logout of bert"] {
        (0..10).for_each(|_| recorder.instant(name));
    }
    follower.flush(PATIENCE).expect("the service takes it");
    reads.disable(enabled);
    writes.disable(written);
    let traces = [reads.read(&service.folder.join("read.pftrace")), Trace::read(&path)];
    let events: usize = traces.iter().map(|trace| trace.events(3)).sum();
    assert!(events >= 20, "{events}");
    for trace in traces {
        assert!(!trace.contains("anna"));
        if trace.events(3) > 0 {
            assert!(trace.contains("login of P60R") && trace.contains("logout of bert"));
        }
        trace.assert_ends_with_stats();
    }
}
