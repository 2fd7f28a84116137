//! Traces that Perfetto's recorder wrote of the same pages.

use std::collections::{BTreeMap, HashMap};

use tracebuf::proto::fields::{
    compact_sched, ftrace_event_bundle as field, generic_event_descriptor, trace_packet,
};
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, number};
use tracebuf::proto::{Sink, TracePackets, varint};

use super::*;

/// What a trace says of a processor.
#[derive(Debug, Default, PartialEq)]
struct Processor {
    /// By time; what does not depend on how a trace is cut.
    events: Vec<(u64, Vec<u8>)>,
    losses: u64,
}

fn contents(trace: &[u8]) -> BTreeMap<u64, Processor> {
    let mut processors = BTreeMap::<u64, Processor>::new();
    for packet in TracePackets::new(trace) {
        let packet = packet.expect("a whole trace");
        for bundle in messages(packet, trace_packet::FTRACE_EVENTS) {
            let cpu = number(bundle, field::CPU).expect("a processor");
            let processor = processors.entry(cpu).or_default();
            processor.losses += number(bundle, field::LOST_EVENTS).unwrap_or(0);
            let end = processor.events.iter().map(|(time, _)| *time).max().unwrap_or(0);
            let previous_end = number(bundle, field::PREVIOUS_BUNDLE_END_TIMESTAMP);
            assert_eq!(previous_end, Some(end), "processor {cpu}");
            let described: HashMap<u64, &[u8]> = messages(bundle, field::GENERIC_EVENT_DESCRIPTORS)
                .map(|one| (number(one, generic_event_descriptor::FIELD_ID).expect("a number"), one))
                .collect();
            let events = messages(bundle, field::EVENT).map(|event| plain_event(event, &described));
            let lists = message(bundle, field::COMPACT_SCHED).expect("lists");
            processor.events.extend(events.chain(listed(lists)));
        }
    }
    // A trace says nothing of the order of events of one time in lists and outside.
    processors.values_mut().for_each(|processor| processor.events.sort());
    processors.retain(|_, processor| *processor != Processor::default());
    processors
}

/// An event's time and bytes, with what describes it in place of a number that only this trace has.
fn plain_event(event: &[u8], described: &HashMap<u64, &[u8]>) -> (u64, Vec<u8>) {
    let mut plain = Vec::new();
    for field in Fields::of(event) {
        match field.value {
            FieldValue::Bytes(body) if field.number >= 65536 => {
                let descriptor = described[&field.number.into()];
                plain.extend(description(descriptor).into_bytes());
                plain.extend(body);
            }
            // Perfetto's lengths are longer than they must be where a message crosses a chunk's end.
            FieldValue::Bytes(body) => {
                let Ok(()) = plain.bytes(field.number, body);
            }
            _ => plain.extend(field.whole),
        }
    }
    (number(event, 1).expect("a time"), plain)
}

/// Group, name and fields of an event that the trace describes.
fn description(descriptor: &[u8]) -> String {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.expect("text")).into_owned();
    let event = message(descriptor, generic_event_descriptor::EVENT_DESCRIPTOR).expect("a message");
    let fields = messages(event, 2)
        .map(|field| format!("{} {:?} {:?}", text(message(field, 1)), number(field, 3), number(field, 5)));
    let group = text(message(descriptor, generic_event_descriptor::GROUP_NAME));
    format!("{group}/{}: {}", text(message(event, 1)), fields.collect::<Vec<_>>().join(", "))
}

/// The events in lists, as the bytes of their values.
fn listed(lists: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let names: Vec<_> = messages(lists, compact_sched::INTERN_TABLE).collect();
    let list = |of: u32| {
        let mut rest = message(lists, of).expect("a list");
        let mut values = Vec::new();
        while let Some((value, len)) = varint::decode(rest) {
            values.push(value);
            rest = &rest[len..];
        }
        values
    };
    let events = |time: u32, name: u32, values: &[u32]| {
        let columns: Vec<_> = values.iter().map(|of| list(*of)).collect();
        let mut now = 0;
        let event = list(time).into_iter().zip(list(name)).enumerate().map(|(index, (delta, name))| {
            now += delta;
            let mut bytes = names[name as usize].to_vec();
            for (column, of) in columns.iter().zip(values) {
                let Ok(()) = bytes.varint(*of, column[index]);
            }
            (now, bytes)
        });
        event.collect::<Vec<_>>()
    };
    let switches =
        [compact_sched::SWITCH_PREV_STATE, compact_sched::SWITCH_NEXT_PID, compact_sched::SWITCH_NEXT_PRIO];
    let wakings = [
        compact_sched::WAKING_PID,
        compact_sched::WAKING_TARGET_CPU,
        compact_sched::WAKING_PRIO,
        compact_sched::WAKING_COMMON_FLAGS,
    ];
    let mut all = events(compact_sched::SWITCH_TIMESTAMP, compact_sched::SWITCH_NEXT_COMM_INDEX, &switches);
    all.extend(events(compact_sched::WAKING_TIMESTAMP, compact_sched::WAKING_COMM_INDEX, &wakings));
    all
}

#[test]
fn traces_hold_what_those_of_perfettos_recorder_hold() {
    for (name, mut fixture) in fixtures() {
        for (form, compact) in [("compact", true), ("verbose", false)] {
            let Some(perfettos) = fixture.file(&format!("perfetto/{form}.pftrace")) else { continue };
            let perfettos = contents(perfettos);
            let mut trace = Vec::new();
            record(&mut fixture, compact, &mut |packet| {
                assert!(packet.len() < 16 << 10, "{name}: a packet of {} bytes", packet.len());
                let Ok(()) = trace.bytes(1, packet);
            })
            .expect("a sound fixture");
            let ours = contents(&trace);
            assert_eq!(
                ours.keys().collect::<Vec<_>>(),
                perfettos.keys().collect::<Vec<_>>(),
                "{name} {form}"
            );
            for (cpu, processor) in &ours {
                let theirs = &perfettos[cpu];
                assert_eq!(processor.losses, theirs.losses, "{name} {form}, processor {cpu}");
                assert_eq!(processor.events.len(), theirs.events.len(), "{name} {form}, processor {cpu}");
                for (our, their) in processor.events.iter().zip(&theirs.events) {
                    assert_eq!(our, their, "{name} {form}, processor {cpu}");
                }
            }
        }
    }
}

#[test]
fn statistics_are_those_of_the_beginning_and_the_end() {
    let mut fixture = fixture("lost-1.tar.gz");
    let mut stats = Vec::new();
    record(&mut fixture, true, &mut |packet| {
        let found = messages(packet, trace_packet::FTRACE_STATS).map(<[u8]>::to_vec);
        stats.extend(found);
    })
    .expect("a sound fixture");
    let of = |stats: &[u8]| {
        let overruns = messages(stats, 2).map(|cpu| number(cpu, 3).expect("a number"));
        (number(stats, 1), overruns.sum::<u64>(), number(stats, 9))
    };
    let [start, end] = &stats[..] else { panic!("{} statistics", stats.len()) };
    assert_eq!(of(start), (Some(1), 0, None));
    assert!(of(end).0 == Some(2) && of(end).1 > 0 && of(end).2.is_none(), "{:?}", of(end));
}
