#!/usr/bin/env python3
"""Compares the table of the kernel's events with what Perfetto publishes, or writes it.

Needs the package `perfetto`, whose FtraceEvent has the number of each event's message and of the message's fields.
Fields of other types than the table knows are left out: no value of the kernel's fits them.  So is `print.ip`, an
address of the kernel.  Exits 1 and says so when the file is out of date.

Usage: ftrace_events.py [--write]
"""

import pathlib
import sys

from google.protobuf.descriptor import FieldDescriptor as F
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

FILE = pathlib.Path(__file__).resolve().parent.parent / "std-adapter/machine/src/ftrace/events_table.rs"
TYPES = {
    F.TYPE_STRING: "s", F.TYPE_BYTES: "b", F.TYPE_INT32: "i", F.TYPE_INT64: "I", F.TYPE_UINT32: "u",
    F.TYPE_UINT64: "U",
}
# Not events of the kernel's by name: any event, and those that a user defines.
OTHERS = {"generic", "kprobe_event"}
HEAD = """\
//! The events of which Perfetto has a message: its number in `FtraceEvent`, its name, and its fields.
//!
//! Written by `.ci/ftrace_events.py` from Perfetto's descriptors. A field is its name, number and type: string, bytes,
//! int32, Int64, uint32, Uint64, * for repeated.

#[rustfmt::skip]
pub(super) const EVENTS: &[(u32, &str, &str)] = &[
"""


def fields_of(event):
    for field in event.message_type.fields:
        letter = TYPES.get(field.type)
        if letter and (event.name, field.name) != ("print", "ip"):
            yield f"{field.name}={field.number}{letter}{'*' * field.is_repeated}"


def table():
    events = [f for f in pb.FtraceEvent.DESCRIPTOR.fields if f.message_type and f.name not in OTHERS]
    lines = [f'    ({e.number}, "{e.name}", "{" ".join(fields_of(e))}"),\n' for e in sorted(events, key=lambda e: e.number)]
    return HEAD + "".join(lines) + "];\n", len(lines)


def main():
    text, count = table()
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(text)
    elif FILE.read_text() != text:
        print(f"{FILE.name} is out of date: {' '.join(sys.argv)} --write", file=sys.stderr)
        return 1
    print(f"{count} events agree with Perfetto's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
