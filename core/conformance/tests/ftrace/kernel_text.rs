//! The kernel's text of the same buffers: three renderings, line for line the same events.

use std::collections::HashMap;

use tracebuf_machine::ftrace::{EventFormat, FormatField, Kind, PageLayout, TraceFs};

use super::*;

/// An event as the kernel prints it.
#[derive(Debug)]
struct Line<'t> {
    pid: i64,
    timestamp: u64,
    /// Absent for the built-in events, which are printed their own way.
    id: Option<u16>,
    /// What follows its name, with all its fields.
    fields: &'t str,
    /// What follows its name, as its own format prints it.
    print: &'t str,
}

/// The lines of a rendering that begin an event, with those that belong to it.
fn lines(text: &str, begins: impl Fn(&str) -> bool) -> Vec<&str> {
    let starts = text.match_indices('\n').map(|(at, _)| at + 1);
    let starts = [0].into_iter().chain(starts).filter(|at| begins(text[*at..].lines().next().unwrap_or("")));
    let starts: Vec<_> = starts.collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| text[*start..end].trim_end_matches('\n')).collect()
}

/// After `TASK-PID  [CPU] FLAGS SECONDS: `; `None` if that is not how the line begins.
fn after_head(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(" [")?;
    let (cpu, rest) = rest.split_once("] ")?;
    let (time, rest) = rest.trim_start().split_once(' ')?.1.trim_start().split_once(": ")?;
    let is_number =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (is_number(cpu) && is_number(time) && time.contains('.') && !line.starts_with('#')).then_some(rest)
}

fn raw(line: &str) -> Option<(i64, u64, Option<u16>)> {
    let mut words = line.splitn(4, ' ');
    let (pid, _, timestamp) =
        (words.next()?.parse().ok()?, words.next()?.parse::<u32>().ok()?, words.next()?.parse().ok()?);
    let id = words.next()?.strip_prefix("type: ").and_then(|id| id.trim().parse().ok());
    Some((pid, timestamp, id))
}

fn expected<'t>([ns, fields, print]: [&'t str; 3]) -> Vec<Line<'t>> {
    let ns = lines(ns, |line| raw(line).is_some());
    let fields = lines(fields, |line| after_head(line).is_some());
    let print = lines(print, |line| after_head(line).is_some());
    assert_eq!((ns.len(), fields.len()), (fields.len(), print.len()));
    let all = ns.into_iter().zip(fields).zip(print);
    let all = all.map(|((ns, fields), print)| {
        let (pid, timestamp, id) = raw(ns)?;
        Some(Line { pid, timestamp, id, fields: after_head(fields)?, print: after_head(print)? })
    });
    all.collect::<Option<_>>().expect("events")
}

/// The texts of the fields that the kernel prints with all their values: `NAME=TEXT`, in the format's order.
fn values<'t>(text: &'t str, format: &'t EventFormat) -> Vec<(&'t FormatField, &'t str)> {
    let mut at = text.find(':').map_or(0, |at| at + 1);
    let mut starts: Vec<(&FormatField, usize, usize)> = Vec::new();
    for field in &format.fields {
        let name = format!(" {}=", field.name);
        if let Some(found) = text[at..].find(&name) {
            starts.push((field, at + found, at + found + name.len()));
            at += found + name.len();
        }
    }
    let ends = starts.iter().skip(1).map(|(_, start, _)| *start).chain([text.len()]);
    starts.iter().zip(ends).map(|((field, _, start), end)| (*field, &text[*start..end])).collect()
}

/// A number as the kernel prints it, hexadecimal first; in as many bits as the field has.
fn number(text: &str, field: &FormatField) -> Option<u64> {
    let word = text.split([' ', '(', ')']).find(|word| !word.is_empty())?;
    let value = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => word.parse::<i64>().ok()? as u64,
    };
    Some(value & u64::MAX >> (64 - 8 * field.size as u32))
}

fn uint(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Compares a field's value in a record with its text; false if the kernel prints it in a way that says too little.
fn compare(field: &FormatField, printed: &str, record: &[u8], what: &str) -> bool {
    let value = &record[field.offset..field.end()];
    match field.kind {
        Some(Kind::Text) => assert_eq!(text(value), printed, "{what}"),
        Some(Kind::Located { is_bytes: false, is_relative: false }) => {
            let (place, len) = (uint(&value[..2]) as usize, uint(&value[2..]) as usize);
            assert_eq!(text(&record[place..place + len]), printed, "{what}");
        }
        Some(Kind::Int(_) | Kind::Uint(_) | Kind::Bool | Kind::Inode | Kind::Device | Kind::Pid) => {
            match number(printed, field) {
                Some(number) => assert_eq!(uint(value), number, "{what}"),
                None => return false,
            }
        }
        _ => return false,
    }
    true
}

#[test]
fn every_event_and_field_is_what_the_kernel_prints() {
    for (name, mut fixture) in fixtures() {
        let layout =
            PageLayout::parse(&fixture.read("events/header_page").expect("a file")).expect("a layout");
        let enabled = fixture.events().to_vec();
        let built_in = ["ftrace/print".to_owned(), "ftrace/raw_data".to_owned()];
        let formats = enabled.iter().chain(&built_in).filter_map(|event| {
            let format =
                EventFormat::parse(&fixture.read(&format!("events/{event}/format")).ok()?).expect("a format");
            Some((format.id, format))
        });
        let formats: HashMap<u16, EventFormat> = formats.collect();
        let (mut events, mut fields) = (0, 0);
        for round in 0..fixture.rounds() {
            fixture.begin_round(round);
            for cpu in fixture.cpus().expect("processors") {
                let file =
                    |name: &str| fixture.of_round(&format!("per_cpu/cpu{cpu}/{name}")).unwrap_or_default();
                let texts = ["trace.ns", "trace.fields", "trace"]
                    .map(|name| String::from_utf8_lossy(file(name)).into_owned());
                let mut lines = expected([&texts[0], &texts[1], &texts[2]]).into_iter();
                let mut page = vec![0; layout.page_len()];
                while fixture.read_page(cpu, &mut page).is_ok() {
                    for record in layout.open(&page).expect("a sound page").records() {
                        let record = record.expect("a sound record");
                        let line = lines.next().expect("an event more than the kernel prints");
                        let what = format!("{name}, round {round}, processor {cpu}: {line:?}");
                        let format = &formats[&record.id];
                        let pid =
                            format.common("common_pid").and_then(|pid| pid.bytes(record.data)).map(uint);
                        assert_eq!(
                            (record.timestamp, pid),
                            (line.timestamp, Some(line.pid as u64)),
                            "{what}"
                        );
                        events += 1;
                        if let Some(id) = line.id {
                            assert_eq!(record.id, id, "{what}");
                            let printed = values(line.fields, format).into_iter();
                            fields += printed
                                .filter(|(field, text)| compare(field, text, record.data, &what))
                                .count();
                        }
                        if format.name == "print" {
                            let buf = format.field("buf").expect("a field");
                            let printed = line.print.split_once(": ").expect("text").1;
                            assert_eq!(
                                text(&record.data[buf.offset..]).trim_end_matches('\n'),
                                printed,
                                "{what}"
                            );
                        }
                        if format.name == "sys_enter" {
                            let args = format
                                .field("args")
                                .and_then(|args| args.bytes(record.data))
                                .expect("arguments");
                            let args: Vec<_> = args.chunks(8).map(|arg| format!("{:x}", uint(arg))).collect();
                            assert!(line.print.ends_with(&format!("({})", args.join(", "))), "{what}");
                        }
                    }
                }
                assert_eq!(
                    lines.count(),
                    0,
                    "{name}, round {round}, processor {cpu}: events that were not read"
                );
            }
        }
        println!("{name}: {events} events, {fields} fields");
        assert!(name.starts_with("idle-1") || fields > events, "{name}");
    }
}
