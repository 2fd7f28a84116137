#!/usr/bin/env python3
"""Compares core/src/proto/fields.rs with the message descriptors that Perfetto publishes.

Needs the package `perfetto` (0.59 or later). Every constant must name a field of its message, with
that number and of that kind, or a value of its enumeration. Exits 1 and says what differs, or prints
how many constants were compared; finding fewer than it should is an error too.

Usage: check_field_numbers.py [FIELDS_RS]
"""

import pathlib
import re
import sys

from google.protobuf.descriptor import FieldDescriptor as F
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

MESSAGES = {
    "trace": [pb.Trace],
    "trace_packet": [pb.TracePacket],
    "clock_snapshot": [pb.ClockSnapshot],
    "clock": [pb.ClockSnapshot.Clock],
    "ftrace_event_bundle": [pb.FtraceEventBundle],
    "process_tree": [pb.ProcessTree],
    "process_tree_process": [pb.ProcessTree.Process],
    "process_tree_thread": [pb.ProcessTree.Thread],
    "track_event": [pb.TrackEvent],
    "track_descriptor": [pb.TrackDescriptor],
    "process_descriptor": [pb.ProcessDescriptor],
    "thread_descriptor": [pb.ThreadDescriptor],
    "counter_descriptor": [pb.CounterDescriptor],
    "debug_annotation": [pb.DebugAnnotation],
    "interned_data": [pb.InternedData],
    "interned_string": [pb.EventCategory, pb.EventName, pb.DebugAnnotationName],
    "log_message": [pb.LogMessage],
    "log_message_body": [pb.LogMessageBody],
    "source_location": [pb.SourceLocation],
    "trace_packet_defaults": [pb.TracePacketDefaults],
    "track_event_defaults": [pb.TrackEventDefaults],
    "trace_stats": [pb.TraceStats],
    "buffer_stats": [pb.TraceStats.BufferStats],
    "writer_stats": [pb.TraceStats.WriterStats],
}

# Our module: the enumeration, and what its values' names begin with.
ENUMS = {
    "sequence_flags": (pb.TracePacket.SequenceFlags, "SEQ_"),
    "data_loss_reason": (pb.TracePacket.DataLossReason, "DATA_LOSS_"),
    "builtin_clock": (pb.BuiltinClock, "BUILTIN_CLOCK_"),
    "log_priority": (pb.LogMessage.Priority, "PRIO_"),
    "track_event_type": (pb.TrackEvent.Type, "TYPE_"),
    "counter_unit": (pb.CounterDescriptor.Unit, "UNIT_"),
    "final_flush_outcome": (pb.TraceStats.FinalFlushOutcome, "FINAL_FLUSH_"),
}

KINDS = {
    F.TYPE_INT32: "Int", F.TYPE_INT64: "Int", F.TYPE_UINT32: "Varint", F.TYPE_UINT64: "Varint",
    F.TYPE_ENUM: "Varint", F.TYPE_BOOL: "Bool", F.TYPE_FIXED64: "Fixed64", F.TYPE_DOUBLE: "Double",
    F.TYPE_STRING: "String", F.TYPE_BYTES: "Bytes", F.TYPE_MESSAGE: "Message",
}


def constants(text):
    """Yields (module, constant, value, first word of its description)."""
    module, kind = None, None
    for line in text.splitlines():
        line = line.strip()
        if match := re.fullmatch(r"pub mod (\w+) \{", line):
            module, kind = match[1], None
        elif match := re.match(r"/// (\w+)", line):
            kind = kind or match[1]
        elif match := re.fullmatch(r"pub const (\w+): u(?:32|64) = (\d+);", line):
            yield module, match[1], int(match[2]), kind
            kind = None
        elif line == "}":
            kind = None


def problem(module, name, value, kind):
    """What is wrong with a constant, or None."""
    if module in ENUMS:
        enum, prefix = ENUMS[module]
        known = dict(enum.items())
        if known.get(prefix + name) != value:
            return f"{prefix + name} is {known.get(prefix + name)}"
        return None
    if module not in MESSAGES:
        return "no such message is known to this script"
    for message in MESSAGES[module]:
        field = message.DESCRIPTOR.fields_by_name.get(name.lower())
        if field is None:
            return f"{message.DESCRIPTOR.full_name} has no such field"
        if field.number != value:
            return f"{field.full_name} is {field.number}"
        expected = "Packed" if field.has_options and field.GetOptions().packed else KINDS[field.type]
        if kind != expected:
            return f"{field.full_name} is of kind {expected}, described as {kind}"
    return None


def main():
    here = pathlib.Path(__file__).resolve().parent
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here.parent / "core/src/proto/fields.rs"
    text = path.read_text()
    found = list(constants(text))
    bad = [(c, p) for c in found if (p := problem(*c))]
    for (module, name, value, _), what in bad:
        print(f"{path.name}: {module}::{name} = {value}: {what}", file=sys.stderr)
    missing = (MESSAGES.keys() | ENUMS.keys()) - {module for module, *_ in found}
    for module in sorted(missing):
        print(f"{path.name}: no constant of {module}", file=sys.stderr)
    unread = text.count("pub const ") - len(found)
    if unread:
        print(f"{path.name}: {unread} constants this script cannot read", file=sys.stderr)
    if bad or missing or unread:
        return 1
    print(f"{len(found)} field numbers and values agree with Perfetto's descriptors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
