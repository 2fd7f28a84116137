//! A tracefs in memory: when bundles begin and end, and what a read that fails leads to.

use std::collections::VecDeque;

use tracebuf::proto::fields::{
    compact_sched, ftrace_event_bundle as field, ftrace_stats, generic_event_descriptor,
};
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, number};

use super::super::source::ClockPair;
use super::super::stats::StatsPhase;
use super::*;

const PAGE: usize = 4096;
const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                      \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                      \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                      \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
                      \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";
const SWITCH: u8 = 1;
const WORK: u8 = 2;
/// Events that Perfetto has no message for.
const OTHERS: [u8; 2] = [7, 8];
const EVENTS: [&str; 3] = ["sched/sched_switch", "workqueue/workqueue_execute_end", "none/none"];

/// A kernel whose pages are made up; a read that is an error is an errno, one that is short is short.
#[derive(Default)]
struct Kernel {
    reads: VecDeque<Result<Vec<u8>, i32>>,
    clock: &'static str,
    state: &'static str,
}

impl TraceFs for Kernel {
    fn read(&mut self, path: &str) -> io::Result<String> {
        let format =
            |id: u8, name: &str, fields: &str| format!("name: {name}\nID: {id}\nformat:\n{COMMON}{fields}");
        Ok(match path {
            "events/header_page" => HEADER.to_owned(),
            "trace_clock" => format!("local [{}] x\n", self.clock),
            "buffer_size_kb" => "7 (expanded: 1408)\n".to_owned(),
            "per_cpu/cpu0/stats" => "overrun: 7\n".to_owned(),
            "events/sched/sched_switch/format" => {
                let state = self.state;
                let fields = format!(
                    "\tfield:{state} prev_state;\toffset:8;\tsize:8;\tsigned:1;\n\
                     \tfield:char next_comm[16];\toffset:16;\tsize:16;\tsigned:0;\n\
                     \tfield:pid_t next_pid;\toffset:32;\tsize:4;\tsigned:1;\n\
                     \tfield:int next_prio;\toffset:36;\tsize:4;\tsigned:1;\n"
                );
                format(SWITCH, "sched_switch", &fields)
            }
            "events/workqueue/workqueue_execute_end/format" => format(
                WORK,
                "workqueue_execute_end",
                "\tfield:void * function;\toffset:8;\tsize:8;\tsigned:0;\n",
            ),
            "events/group/one/format" => {
                format(OTHERS[0], "one", "\tfield:int of_it;\toffset:8;\tsize:4;\tsigned:1;\n")
            }
            "events/group/two/format" => {
                format(OTHERS[1], "two", "\tfield:int of_it;\toffset:8;\tsize:4;\tsigned:1;\n")
            }
            _ => return Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn cpus(&mut self) -> io::Result<Vec<u32>> {
        Ok(vec![0])
    }

    fn read_page(&mut self, _: u32, page: &mut [u8]) -> io::Result<usize> {
        match self.reads.pop_front() {
            Some(Ok(read)) => {
                page[..read.len()].copy_from_slice(&read);
                Ok(read.len())
            }
            Some(Err(errno)) => Err(io::Error::from_raw_os_error(errno)),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn clocks(&mut self) -> io::Result<ClockPair> {
        Ok(ClockPair { ftrace: 5, boot: 6 })
    }
}

fn kernel() -> Kernel {
    Kernel { clock: "boot", state: "long", ..Kernel::default() }
}

fn page(timestamp: u64, flags: u64, records: &[Vec<u8>]) -> Vec<u8> {
    let data: Vec<u8> = records
        .iter()
        .flat_map(|record| {
            [&((record.len() as u32 / 4) | (1 << 5)).to_le_bytes(), record.as_slice()].concat()
        })
        .collect();
    let mut page = [timestamp.to_le_bytes(), (flags | data.len() as u64).to_le_bytes()].concat();
    page.extend(data);
    page.resize(PAGE, 0);
    page
}

fn work(function: u64) -> Vec<u8> {
    [[WORK, 0, 0, 0, 9, 0, 0, 0], function.to_le_bytes()].concat()
}

fn switch(name: &str) -> Vec<u8> {
    let mut record = vec![SWITCH, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    record.extend(name.bytes());
    record.resize(32, 0);
    record.extend([3, 0, 0, 0, 120, 0, 0, 0]);
    record
}

/// The packets of a read pass over these pages.
fn pass(reader: &mut FtraceReader, mut kernel: Kernel, reads: Vec<Result<Vec<u8>, i32>>) -> Vec<Vec<u8>> {
    kernel.reads = reads.into();
    let mut packets = Vec::new();
    reader.read_pass(&mut kernel, usize::MAX, &mut |packet| packets.push(packet.to_vec())).unwrap();
    packets
}

fn reader(compact: bool) -> FtraceReader {
    FtraceReader::new(&mut kernel(), EVENTS, compact).unwrap()
}

fn bundle(packet: &[u8]) -> &[u8] {
    message(packet, trace_packet::FTRACE_EVENTS).unwrap()
}

fn previous_end(packet: &[u8]) -> u64 {
    number(bundle(packet), field::PREVIOUS_BUNDLE_END_TIMESTAMP).unwrap()
}

#[test]
fn a_loss_begins_a_bundle_even_without_an_event() {
    let mut reader = reader(true);
    let reads =
        vec![Ok(page(10, 0, &[work(1)])), Ok(page(20, 1 << 31, &[vec![0; 4]])), Ok(page(30, 0, &[work(1)]))];
    let packets = pass(&mut reader, kernel(), reads);
    let told = |packet: &Vec<u8>| (number(bundle(packet), field::LOST_EVENTS), previous_end(packet));
    assert_eq!(packets.iter().map(told).collect::<Vec<_>>(), [(None, 0), (Some(1), 11)]);
    assert_eq!(messages(bundle(&packets[1]), field::EVENT).count(), 1);
    let later = pass(&mut reader, kernel(), vec![Ok(page(40, 0, &[work(1)]))]);
    assert_eq!(previous_end(&later[0]), 31);
}

#[test]
fn packets_stay_small_and_each_says_where_the_one_before_ended() {
    for compact in [true, false] {
        let mut reader = reader(compact);
        let records: Vec<_> = (0..90).map(|index| switch(&format!("name {index}"))).collect();
        let reads = (0..40).map(|index| Ok(page(index * 1000, 0, &records))).collect();
        let packets = pass(&mut reader, kernel(), reads);
        let mut end = 0;
        for packet in &packets {
            assert!(packet.len() < 16 << 10, "{}", packet.len());
            assert_eq!(previous_end(packet), end);
            let list = message(bundle(packet), field::COMPACT_SCHED).unwrap();
            // Each page has more names than a table should: the next begins another.
            assert_eq!(messages(list, compact_sched::INTERN_TABLE).count(), if compact { 90 } else { 0 });
            end = match messages(bundle(packet), field::EVENT).last() {
                Some(event) => number(event, 1).unwrap(),
                None => end / 1000 * 1000 + if end == 0 { 90 } else { 1090 },
            };
        }
        assert_eq!(packets.len() == 40, compact);
    }
}

#[test]
fn scheduling_is_in_lists_only_if_the_kernels_fields_are_as_expected() {
    let lists = |kernel: fn() -> Kernel, compact| {
        let mut reader = FtraceReader::new(&mut kernel(), EVENTS, compact).unwrap();
        let packets =
            pass(&mut reader, kernel(), vec![Ok(page(10, 0, &[switch("a"), switch("b"), switch("a")]))]);
        message(bundle(&packets[0]), field::COMPACT_SCHED).unwrap().to_vec()
    };
    let expected = b"\x2a\x01a\x2a\x01b\x12\x03\x01\x01\x01\x1a\x03\x03\x03\x03\x22\x03\x78\x78\x78\x0a\x03\x0b\x01\x01\x32\x03\x00\x01\x00";
    assert_eq!(lists(kernel, true), expected);
    assert!(lists(kernel, false).is_empty());
    assert!(lists(|| Kernel { state: "pid_t x[2]; char *", ..kernel() }, true).is_empty());
}

#[test]
fn reads_that_fail_are_told_unless_they_fail_now_and_then() {
    let statuses = |reads| {
        let mut reader = reader(true);
        pass(&mut reader, kernel(), reads);
        let stats = reader.stats(&mut kernel(), StatsPhase::Start).unwrap();
        (stats.parse_errors.iter().map(|status| *status as u8).collect::<Vec<_>>(), stats)
    };
    // Of Linux: EAGAIN, EBUSY, ENOMEM, ENODEV; nothing at all; EIO; less than a page.
    for errno in if cfg!(target_os = "linux") { &[11, 16, 12, 19][..] } else { &[] } {
        assert_eq!(statuses(vec![Err(*errno)]).0, []);
    }
    assert_eq!(statuses(vec![Ok(vec![]), Err(5)]).0, [], "it stops at nothing");
    assert_eq!(statuses(vec![Err(5)]).0, [2]);
    assert_eq!(statuses(vec![Ok(vec![0; 100]), Ok(page(1, 0, &[]))]).0, [3]);
    let (statuses, stats) =
        statuses(vec![Ok(page(1, 0, &[])), Ok(page(1, 0, &[work(1)[..8].to_vec()])), Err(5)]);
    assert_eq!(statuses, [2, 4, 17]);
    assert_eq!((stats.buffer_pages, stats.cpus[0].overrun), (2, 7));
    assert_eq!(stats.unknown_events, ["none/none"]);
    let mut packet = Vec::new();
    FtraceReader::write_stats(&stats, &mut |bytes| packet = bytes.to_vec());
    let stats = message(&packet, trace_packet::FTRACE_STATS).unwrap();
    let errors = Fields::of(stats).filter(|field| field.number == ftrace_stats::FTRACE_PARSE_ERRORS);
    assert!(errors.map(|field| field.value).eq([2, 4, 17].map(FieldValue::Number)));
}

#[test]
fn a_fault_is_in_the_bundle_with_the_pages_time_after_the_events_before_it() {
    let mut reader = reader(true);
    let packets = pass(&mut reader, kernel(), vec![Ok(page(10, 0, &[work(1), switch("a")[..16].to_vec()]))]);
    let error = message(bundle(&packets[0]), field::ERROR).unwrap();
    assert_eq!((number(error, 1), number(error, 2)), (Some(10), Some(16)));
    assert_eq!(messages(bundle(&packets[0]), field::EVENT).count(), 1);
}

#[test]
fn functions_are_named_in_the_first_packet_of_a_pass_that_points_to_them() {
    let mut reader = reader(true);
    reader.symbolize(KernelSymbols::parse("1000 T first\n2000 t second\n"));
    let lossy = |timestamp, function| Ok(page(timestamp, 1 << 31, &[work(function)]));
    let told = |packets: &[Vec<u8>]| {
        let of = |packet: &Vec<u8>| {
            let interned = message(packet, trace_packet::INTERNED_DATA).unwrap();
            let symbol = message(interned, interned_data::KERNEL_SYMBOLS).unwrap();
            let name = String::from_utf8(message(symbol, interned_bytes::STR).unwrap().to_vec()).unwrap();
            (number(symbol, interned_bytes::IID), name, number(packet, trace_packet::SEQUENCE_FLAGS))
        };
        packets.iter().map(of).collect::<Vec<_>>()
    };
    let packets = pass(
        &mut reader,
        kernel(),
        vec![lossy(1, 0x2004), lossy(2, 0x2004), lossy(3, 0x1000), lossy(4, 0xFFF)],
    );
    let none = || (None, String::new(), None);
    let expected =
        [(Some(1), "second".to_owned(), Some(1)), none(), (Some(2), "first".to_owned(), None), none()];
    assert_eq!(told(&packets), expected);
    // A number that means another function now must not keep the name that it had.
    let packets = pass(&mut reader, kernel(), vec![lossy(5, 0xFFF), lossy(6, 0x1000)]);
    assert_eq!(told(&packets), [(None, String::new(), Some(1)), (Some(2), "first".to_owned(), None)]);
}

#[test]
fn a_clock_that_is_not_the_traces_is_told_with_a_moment_of_both() {
    for (clock, told) in
        [("boot", None), ("global", Some(2)), ("local", Some(3)), ("mono_raw", Some(4)), ("x86-tsc", Some(1))]
    {
        let kernel = || Kernel { clock, ..kernel() };
        let mut reader = FtraceReader::new(&mut kernel(), EVENTS, true).unwrap();
        let packets = pass(&mut reader, kernel(), vec![Ok(page(10, 0, &[work(1)]))]);
        let fields = [field::FTRACE_CLOCK, field::FTRACE_TIMESTAMP, field::BOOT_TIMESTAMP];
        let moment = told.map(|_| [5, 6]).map_or([None; 2], |moment| moment.map(Some));
        assert_eq!(
            fields.map(|field| number(bundle(&packets[0]), field)),
            [told, moment[0], moment[1]],
            "{clock}"
        );
    }
}

#[test]
fn the_first_switch_of_a_processor_can_be_in_full() {
    let mut reader = reader(true);
    reader.first_switch_in_full();
    let reads = vec![
        Ok(page(10, 0, &[switch("a"), switch("b"), switch("c")])),
        Ok(page(20, 1 << 31, &[switch("d"), switch("e")])),
    ];
    let packets = pass(&mut reader, kernel(), reads);
    let told: Vec<_> = packets
        .iter()
        .map(|packet| {
            let lists = message(bundle(packet), field::COMPACT_SCHED).unwrap();
            let names = messages(lists, compact_sched::INTERN_TABLE).map(|name| name[0]).collect::<Vec<_>>();
            let full = messages(bundle(packet), field::EVENT).map(|event| message(event, 4).unwrap());
            (full.map(|full| number(full, 6)).collect::<Vec<_>>(), names)
        })
        .collect();
    assert_eq!(told, [(vec![Some(3)], vec![b'b', b'c']), (vec![], vec![b'd', b'e'])]);
    assert_eq!(reader.events(), 5);
}

#[test]
fn an_event_without_a_message_has_the_same_number_whatever_else_a_source_reads() {
    let numbers = |events: &[&str]| {
        let mut reader = FtraceReader::new(&mut kernel(), events.iter().copied(), true).unwrap();
        let records = OTHERS.map(|id| vec![id, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0]);
        let packets = pass(&mut reader, kernel(), vec![Ok(page(1000, 0, &records))]);
        let told =
            packets.iter().flat_map(|packet| messages(bundle(packet), field::GENERIC_EVENT_DESCRIPTORS));
        let told = told.filter_map(|told| number(told, generic_event_descriptor::FIELD_ID));
        told.collect::<Vec<_>>()
    };
    let [one, two] = OTHERS.map(|id| 65_536 + u64::from(id));
    assert_eq!(numbers(&["group/one", "group/two"]), [one, two]);
    assert_eq!(numbers(&["group/two"]), [two]);
    assert_eq!(numbers(&["group/two", "group/one"]), [one, two]);
}

#[test]
fn threads_that_events_name_are_noted_once() {
    let mut reader = reader(true);
    pass(&mut reader, kernel(), vec![Ok(page(10, 0, &[switch("a")]))]);
    assert!(reader.take_threads().is_empty(), "nobody wants to know");
    reader.note_threads();
    pass(&mut reader, kernel(), vec![Ok(page(20, 0, &[switch("a"), work(1), switch("a")]))]);
    // The next thread, and the one in which the other event came.
    assert_eq!(reader.take_threads(), [3, 9]);
    pass(&mut reader, kernel(), vec![Ok(page(30, 0, &[switch("a"), work(1)]))]);
    assert!(reader.take_threads().is_empty());
}

#[test]
fn times_are_those_of_the_trace_where_its_boot_time_is_ahead() {
    for (clock, ahead, moved) in [("boot", 1000, 1000), ("boot", -7, -7), ("local", 1000, 0)] {
        let kernel = || Kernel { clock, ..kernel() };
        let mut reader = FtraceReader::new(&mut kernel(), EVENTS, true).unwrap();
        reader.set_ahead(ahead);
        let packets = pass(&mut reader, kernel(), vec![Ok(page(10, 0, &[work(1), switch("a")]))]);
        let event = message(bundle(&packets[0]), field::EVENT).unwrap();
        let lists = message(bundle(&packets[0]), field::COMPACT_SCHED).unwrap();
        let at = |time: u64| time.checked_add_signed(moved).unwrap();
        assert_eq!(number(event, 1), Some(at(11)), "{clock}");
        let (first, _) =
            tracebuf::proto::varint::decode(message(lists, compact_sched::SWITCH_TIMESTAMP).unwrap())
                .unwrap();
        assert_eq!(first, at(12));
        // The time that the next bundle counts from.
        let packets = pass(&mut reader, kernel(), vec![Ok(page(10, 0, &[work(1)]))]);
        assert_eq!(number(bundle(&packets[0]), field::PREVIOUS_BUNDLE_END_TIMESTAMP), Some(at(12)));
    }
}
