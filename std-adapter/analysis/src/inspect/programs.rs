//! Programs that fold what a ring overwrites, with their memory, and their states as text.

use tracebuf::proto::fields::{protovms, protovms_instance, protovms_stats, trace_packet};
use tracebuf::proto::reader::{Field, FieldValue, Fields, messages, number};
use tracebuf::proto::{PacketView, SequenceId, TracePackets};
use tracebuf_session::CarryOver;
use tracebuf_std::display::Count;

/// Most lines of a state.
const LINES: usize = 10_000;
/// How deep messages are shown within each other.
const DEPTH: usize = 32;
/// Most bytes of one that is no text.
const BYTES: usize = 32;

/// Those that a trace has, before the packets of its buffers.
pub(super) fn of_trace(trace: &[u8]) -> Vec<String> {
    const SERVICE: u64 = SequenceId::SERVICE.get() as u64;
    let packets = TracePackets::new(trace).map_while(Result::ok);
    let of_service = packets.take_while(|packet| PacketView::of(packet).sequence_id <= SERVICE);
    let vms = of_service.flat_map(|packet| messages(packet, trace_packet::PROTOVMS));
    vms.flat_map(|vms| messages(vms, protovms::INSTANCE)).flat_map(shown).collect()
}

fn shown(vm: &[u8]) -> Vec<String> {
    let part = |of| messages(vm, of).next().unwrap_or_default();
    let (program, state) = (part(protovms_instance::PROGRAM), part(protovms_instance::STATE));
    let is_producer = |field: Field<'_>| match field.value {
        FieldValue::Number(id) if field.number == protovms_instance::PRODUCER_ID => Some(id.to_string()),
        _ => None,
    };
    let producers: Vec<_> = Fields::of(vm).filter_map(is_producer).collect();
    let (program, len) = (Count(program.len() as u64, "byte"), Count(state.len() as u64, "byte"));
    let limit = number(vm, protovms_instance::MEMORY_LIMIT_KB).unwrap_or(0);
    let title =
        format!("program of {program}, producers {}: {len} of state in {limit} KiB", producers.join(", "));
    let mut lines = vec![title];
    lines.extend(messages(vm, protovms_instance::STATS).next().map(memory));
    with_state(lines, state)
}

/// What a session keeps beside a ring in a file: packets of descriptions and last values.
pub(super) fn of_kept(kept: &[u8]) -> Vec<String> {
    let carried = CarryOver::recovered(kept.to_vec(), std::iter::empty());
    let counts = carried.as_ref().and_then(CarryOver::kept);
    let (Some(mut carried), Some(kept)) = (carried, counts) else {
        return vec!["what was kept beside the ring is damaged".to_owned()];
    };
    let mut state = Vec::new();
    let packets = carried.begin_file(&mut state);
    let title = format!(
        "kept beside the ring: {}, and what threads need to go on, {} used of {}",
        Count(packets, "packet"),
        Count(kept.used, "byte"),
        kept.memory
    );
    with_state(vec![title], &state)
}

fn memory(stats: &[u8]) -> String {
    use protovms_stats as field;
    let of = |field| number(stats, field).unwrap_or(0);
    let (cells, used) = (of(field::CELLS), of(field::USED));
    format!(
        "  {} of 32 bytes used, {} free, at most {} used at a time; {} patches, {} of them unknown, {} aborted",
        Count(used, "cell"),
        cells.saturating_sub(used),
        of(field::HIGH_WATER),
        of(field::PATCHES),
        of(field::ERRORS),
        of(field::ABORTS)
    )
}

fn with_state(mut lines: Vec<String>, state: &[u8]) -> Vec<String> {
    add(state, 1, &mut lines);
    if lines.len() > LINES {
        lines.truncate(LINES);
        lines.push("  …".to_owned());
    }
    lines
}

/// Appends a line for each field. What a message is, and what a text, is a guess: there is no schema.
fn add(message: &[u8], depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    for Field { number, value, .. } in Fields::of(message) {
        if lines.len() > LINES {
            break;
        }
        let value = match value {
            FieldValue::Number(value) => value.to_string(),
            FieldValue::Fixed(bits) => format!("{bits:#x}"),
            FieldValue::Bytes(bytes) if is_message(bytes) && depth < DEPTH => {
                lines.push(format!("{indent}{number} {{"));
                add(bytes, depth + 1, lines);
                lines.push(format!("{indent}}}"));
                continue;
            }
            FieldValue::Bytes(bytes) => match text(bytes) {
                Some(text) => format!("{text:?}"),
                None => {
                    let more = if bytes.len() > BYTES { "…" } else { "" };
                    let shown: String = bytes.iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect();
                    format!("{}: {shown}{more}", Count(bytes.len() as u64, "byte"))
                }
            },
        };
        lines.push(format!("{indent}{number}: {value}"));
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

fn is_message(bytes: &[u8]) -> bool {
    let mut fields = Fields::of(bytes);
    let are_sound = fields.by_ref().all(|field| field.number > 0);
    !bytes.is_empty() && are_sound && fields.is_at_end() && text(bytes).is_none()
}

#[cfg(test)]
mod tests {
    use crate::inspect::Inspection;
    use tracebuf::proto::Sink;

    fn field(of: u32, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let Ok(()) = out.bytes(of, bytes);
        out
    }

    /// A trace of one packet of the service.
    fn trace(packet: &[u8]) -> Vec<u8> {
        field(1, &[&[0x50, 1], packet].concat())
    }

    #[test]
    fn a_state_is_shown_with_its_memory_and_its_producers() {
        let event =
            [&[0x48, 4, 0x59, 1, 0, 0, 0, 0, 0, 0, 0][..], &field(23, b"a \"name\""), &field(4, &[255; 40])];
        let state = [&[0x40, 0xAC, 2][..], &field(11, &event.concat())].concat();
        let vm = [field(1, &[0x12, 0]), field(2, &state), vec![0x18, 64, 0x20, 2, 0x20, 7]].concat();
        let stats = [&[0xC2, 0x3E, 13][..], &[8, 0xAC, 2, 16, 7, 24, 1, 32, 127, 40, 12, 48, 30]].concat();
        let both = [field(1, &[&vm[..], &stats].concat()), field(1, &[0x20, 9])].concat();
        let shown = Inspection::of_file(&trace(&field(125, &both))).expect("a trace").to_string();
        let bytes = format!("    4: 40 bytes: {}…", "ff".repeat(32));
        let expected = [
            "program of 2 bytes, producers 2, 7: 69 bytes of state in 64 KiB",
            "  12 cells of 32 bytes used, 115 free, at most 30 used at a time; 300 patches, 7 of them unknown, 1 aborted",
            "  8: 300",
            "  11 {",
            "    9: 4",
            "    11: 0x1",
            "    23: \"a \\\"name\\\"\"",
            &bytes,
            "  }",
            "program of 0 bytes, producers 9: 0 bytes of state in 0 KiB",
        ];
        assert!(shown.contains(&expected.join("\n")), "{shown}");
    }

    #[test]
    fn states_that_are_long_or_deep_or_broken_are_shown_as_far_as_they_go() {
        let deep = (0..200).fold(vec![0x08, 1], |inner, _| field(1, &inner));
        let long: Vec<u8> = (0..100_000).flat_map(|_| [0x08, 1]).collect();
        for state in [deep, long, vec![0x0A, 0x7F, 1], vec![0x0A, 2, 0, 0]] {
            let shown =
                Inspection::of_file(&trace(&field(125, &field(1, &field(2, &state))))).expect("a trace");
            assert!((1..=10_002).contains(&shown.programs.len()), "{}", shown.programs.len());
        }
    }
}
