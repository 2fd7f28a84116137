//! `ftrace`: files and pages of a kernel's tracefs, of any bytes, and pages that are as a kernel writes them.
//!
//! Whatever comes, packets are well-formed and no longer than a page makes them. A status in the statistics makes Perfetto
//! refuse the whole trace, so pages that are right must be read to their end.

use crate::input::Input;
use std::io;
use tracebuf::proto::PacketValidator;
use tracebuf_machine::ftrace::{
    ClockPair, EventFormat, FtraceReader, KernelSymbols, PageLayout, StatsPhase, TraceFs,
};

/// The files of a kernel. What is fuzzed is appended to the ones that follow.
const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:240;\tsigned:0;\n";
const COMMON: &str = "format:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
const SWITCH: &str = "name: sched_switch\nID: 1\n\
    \tfield:char next_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t next_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int next_prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n";
const ENTER: &str = "name: sys_enter\nID: 2\n\
    \tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n";
const PRINT: &str = "name: print\nID: 3\n\
    \tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\
    \tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n";
const OWN: &str = "name: of_nobody\nID: 4\n\
    \tfield:__data_loc char[] text;\toffset:8;\tsize:4;\tsigned:0;\n\
    \tfield:__rel_loc u8[] bytes;\toffset:12;\tsize:4;\tsigned:0;\n\
    \tfield:void * function;\toffset:16;\tsize:8;\tsigned:0;\n\
    \tfield:dev_t dev;\toffset:24;\tsize:4;\tsigned:0;\n";
const EVENTS: [&str; 5] =
    ["sched/sched_switch", "raw_syscalls/sys_enter", "ftrace/print", "none/of_nobody", "any/any"];
/// The shortest record of each event.
const SHORTEST: [usize; 4] = [40, 64, 16, 28];

struct Kernel<'a> {
    any: &'a str,
    header: &'a str,
    pages: Vec<Vec<u8>>,
}

impl TraceFs for Kernel<'_> {
    fn read(&mut self, path: &str) -> io::Result<String> {
        let format = match path {
            "events/header_page" => return Ok(self.header.to_owned()),
            "trace_clock" => return Ok("[local]".to_owned()),
            "printk_formats" | "buffer_size_kb" | "per_cpu/cpu0/stats" | "events/any/any/format" => {
                return Ok(self.any.to_owned());
            }
            "events/sched/sched_switch/format" => SWITCH,
            "events/raw_syscalls/sys_enter/format" => ENTER,
            "events/ftrace/print/format" => PRINT,
            "events/none/of_nobody/format" => OWN,
            _ => return Err(io::ErrorKind::NotFound.into()),
        };
        Ok(format!("{format}{COMMON}"))
    }

    fn cpus(&mut self) -> io::Result<Vec<u32>> {
        Ok(vec![0])
    }

    fn read_page(&mut self, _: u32, page: &mut [u8]) -> io::Result<usize> {
        let Some(next) = self.pages.pop() else { return Err(io::ErrorKind::WouldBlock.into()) };
        let len = next.len().min(page.len());
        page[..len].copy_from_slice(&next[..len]);
        Ok(len)
    }

    fn clocks(&mut self) -> io::Result<ClockPair> {
        Ok(ClockPair { ftrace: 1, boot: 2 })
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let how = input.byte();
    match how % 3 {
        0 => files(how, &String::from_utf8_lossy(input.rest())),
        1 => pages(how, input.rest()),
        _ => sound_pages(how, &mut input),
    }
}

/// All files of one text.
fn files(how: u8, any: &str) {
    let _ = PageLayout::parse(any);
    let symbols = KernelSymbols::parse(any);
    assert!(any.lines().count() >= symbols.len() && symbols.at(0).is_none());
    if let Some(format) = EventFormat::parse(any) {
        assert!(format.common("common_pid").is_some_and(|pid| pid.size == 4));
    }
    let header = if how & 0x80 == 0 { HEADER } else { any };
    let pages = vec![any.as_bytes().to_vec(), [any.as_bytes(), &[0; 256]].concat()];
    read(how, Kernel { any, header, pages });
}

/// Pages of any bytes.
fn pages(how: u8, bytes: &[u8]) {
    let pages = bytes.chunks(256).map(|page| {
        let mut page = page.to_vec();
        page.resize(256, 0);
        // Most sizes of 64 bits are none.
        if how & 0x80 == 0 {
            page[9] = 0;
        }
        if how & 0x40 == 0 {
            page[10..16].fill(0);
            page[11] = how & 0x80;
        }
        page
    });
    read(how, Kernel { any: "", header: HEADER, pages: pages.collect() });
}

/// Reads all pages; the statuses met, and the events in packets.
fn read(how: u8, mut kernel: Kernel<'_>) -> (Vec<u8>, usize) {
    let Ok(mut reader) = FtraceReader::new(&mut kernel, EVENTS, how & 4 == 0) else { return (vec![], 0) };
    if how & 8 == 0 {
        reader.symbolize(KernelSymbols::parse("1 T one\n7fffffffffffffff t other\n"));
    }
    let mut events = 0;
    let mut check = |packet: &[u8]| {
        PacketValidator::check([packet]).expect("a well-formed packet");
        events += count(packet);
    };
    let pages = reader.read_pass(&mut kernel, 1000, &mut check).expect("a processor");
    assert!(pages <= 1000);
    let stats = reader.stats(&mut kernel, StatsPhase::End).expect("a processor");
    FtraceReader::write_stats(&stats, &mut check);
    (stats.parse_errors.iter().map(|status| *status as u8).collect(), events)
}

/// The events in a packet.
fn count(packet: &[u8]) -> usize {
    use tracebuf::proto::fields::{compact_sched, ftrace_event_bundle as field, trace_packet};
    use tracebuf::proto::reader::{message, messages};
    let bundle = message(packet, trace_packet::FTRACE_EVENTS).expect("well-formed");
    let lists = message(bundle, field::COMPACT_SCHED).expect("well-formed");
    let states = message(lists, compact_sched::SWITCH_NEXT_COMM_INDEX).expect("well-formed");
    let ends = states.iter().filter(|byte| **byte < 0x80);
    messages(bundle, field::EVENT).count() + ends.count()
}

/// Pages as a kernel writes them: no status, and each event once.
fn sound_pages(how: u8, input: &mut Input<'_>) {
    let (mut pages, mut written) = (Vec::new(), 0);
    while !input.is_over() && pages.len() < 50 {
        let mut page = Page::new(input.u16().into());
        for _ in 0..input.byte() % 30 {
            written += usize::from(page.add(input));
        }
        if page.data.is_empty() {
            continue;
        }
        let flags = u64::from(input.byte() & 3) << 30;
        pages.push(page.finish(flags));
    }
    pages.reverse();
    assert_eq!(read(how, Kernel { any: "", header: HEADER, pages }), (vec![], written));
}

/// A page on its way.
struct Page {
    timestamp: u64,
    data: Vec<u8>,
}

impl Page {
    const ROOM: usize = 240;

    fn new(timestamp: u64) -> Self {
        Self { timestamp, data: Vec::new() }
    }

    /// Adds a record if there is room; whether it is an event that was asked for.
    fn add(&mut self, input: &mut Input<'_>) -> bool {
        let (kind, delta) = (input.byte(), u32::from(input.u16()));
        let event = usize::from(kind >> 4 & 3);
        let (header, body) = match kind & 7 {
            0 => (29 | (delta | 1) << 5, self.padding(delta)),
            1 => (30 | delta << 5, input.u32().to_le_bytes().to_vec()),
            2 => (31 | delta << 5, input.u32().to_le_bytes().to_vec()),
            3 => {
                // Nobody asked for this one.
                let words = 1 + delta % 4;
                (words | delta << 5, vec![9; words as usize * 4])
            }
            how => {
                let record = event_of(event, input);
                let len = record.len();
                if how == 4 || len > 112 {
                    let word = (len as u32 + 4).to_le_bytes();
                    (delta << 5, [&word[..], &record].concat())
                } else {
                    ((len as u32 / 4) | (delta << 5), record)
                }
            }
        };
        if self.data.len() + 4 + body.len() > Self::ROOM {
            return false;
        }
        self.data.extend(header.to_le_bytes());
        self.data.extend(body);
        kind & 7 > 3
    }

    /// The rest of a padding: its length, and so many bytes.
    fn padding(&self, some: u32) -> Vec<u8> {
        let rest = some % 8 * 4;
        [&(rest + 4).to_le_bytes()[..], &vec![0xEE; rest as usize]].concat()
    }

    fn finish(self, flags: u64) -> Vec<u8> {
        let commit = flags | self.data.len() as u64;
        let mut page = [self.timestamp.to_le_bytes(), commit.to_le_bytes()].concat();
        page.extend(self.data);
        page.resize(16 + Self::ROOM, 0);
        page
    }
}

/// A record of one of the events, at least as long as its format.
fn event_of(event: usize, input: &mut Input<'_>) -> Vec<u8> {
    let more = usize::from(input.byte() % 12) * 4;
    let len = SHORTEST[event] + more;
    let mut record = vec![event as u8 + 1, 0];
    record.extend(input.bytes(len - 2));
    record.resize(len, 0);
    if event == 3 {
        // What lies elsewhere is within the record, or of no length.
        let place = 28 | (input.byte() as usize % (more + 1)) << 16;
        record[8..12].copy_from_slice(&(place as u32).to_le_bytes());
        let place = 12 | (input.byte() as usize % (more + 1)) << 16;
        record[12..16].copy_from_slice(&(place as u32).to_le_bytes());
    }
    record
}
