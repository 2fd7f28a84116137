#!/usr/bin/env python3
"""Decodes trace files with the Python package `perfetto`, which knows nothing of this project.

usage: check_traces.py [--stats-last] TRACE...   each decodes, without a field that is unknown anywhere
       check_traces.py --same-packets OURS REAL  both decode, and hold the same producer packets in order

Files may be gzipped.  With --stats-last the last packet of each TRACE, or of OURS, must hold the statistics.
--same-packets leaves aside what the service adds (the trusted fields, and its own
packets, which have sequence id 1); packets of one producer's writer must come under one sequence id in
each of the files.  Only OURS is searched for unknown fields: a service may be newer than the package.
Exit status: 0 when all is well, 1 when not, with a line that says what.
"""
import argparse
import collections
import gzip
import sys
import zlib

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

SERVICE_SEQUENCE = 1
# trusted_uid, trusted_packet_sequence_id, previous_packet_dropped, trusted_pid, machine_id
TRUSTED_FIELDS = {3, 10, 42, 79, 98}


class Bad(Exception):
    """A trace that is not what it should be."""


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Bad("a varint at byte %d does not end" % at)
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of a message as (number, value or None, raw bytes), by the wire format alone."""
    at = 0
    while at < len(data):
        start = at
        tag, at = varint(data, at)
        number, kind, value = tag >> 3, tag & 7, None
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            at += 8
        elif kind == 2:
            length, at = varint(data, at)
            value = data[at : at + length]
            at += length
        elif kind == 5:
            at += 4
        else:
            raise Bad("wire type %d at byte %d" % (kind, start))
        if at > len(data):
            raise Bad("field %d at byte %d leaves the message" % (number, start))
        yield number, value, data[start:at]


def unknown(message, where):
    """Paths of all fields, at any depth, that the package's descriptors do not know."""
    for field in unknown_fields.UnknownFieldSet(message):
        # Events that only the trace itself describes have numbers of a range that is reserved for them, and what a machine
        # of ProtoVM did is said by this project alone.
        described = where.endswith(".ftrace_events.event") and 65536 <= field.field_number <= 131072
        if not described and not (where.endswith(".instance") and field.field_number == 1000):
            yield "%s.%d" % (where, field.field_number)
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        name = "%s.%s" % (where, descriptor.name)
        if descriptor.message_type.GetOptions().map_entry:
            if descriptor.message_type.fields_by_name["value"].message_type is not None:
                for item in value.values():
                    yield from unknown(item, name)
        elif hasattr(value, "ListFields"):
            yield from unknown(value, name)
        else:
            for item in value:
                yield from unknown(item, name)


def unpacked(data):
    """A trace, with what its compressed packets hold in their places."""
    trace, whole = perfetto_trace_pb2.Trace(), perfetto_trace_pb2.Trace()
    trace.ParseFromString(data)
    for packet in trace.packet:
        if packet.HasField("compressed_packets"):
            whole.packet.extend(unpacked(zlib.decompress(packet.compressed_packets)).packet)
        else:
            whole.packet.append(packet)
    return whole


def check(path):
    """Decodes a trace; returns how many packets it holds, and the last one if it holds statistics."""
    try:
        trace = unpacked(read(path))
    except Exception as error:  # the package's own kinds differ between its versions
        raise Bad("%s does not decode: %s" % (path, error)) from error
    found = collections.Counter(unknown(trace, "Trace"))
    if found:
        path_of_first, count = found.most_common(1)[0]
        raise Bad("%s: %d unknown fields; %d times %s" % (path, sum(found.values()), count, path_of_first))
    if not trace.packet:
        raise Bad("%s holds no packet" % path)
    for number, packet in enumerate(trace.packet):
        if not packet.trusted_packet_sequence_id:
            raise Bad("%s: packet %d has no sequence id" % (path, number))
    last = trace.packet[len(trace.packet) - 1]
    return len(trace.packet), last.HasField("trace_stats") and last


def producer_packets(path):
    """(sequence id, bytes without the trusted fields) of every packet that a producer wrote, in order."""
    for number, packet, _ in fields(read(path)):
        if number != 1 or not isinstance(packet, bytes):
            raise Bad("%s holds something other than packets: field %d" % (path, number))
        sequence, kept = 0, []
        for inner, value, raw in fields(packet):
            if inner == 10:
                sequence = value
            if inner not in TRUSTED_FIELDS:
                kept.append(raw)
        if sequence != SERVICE_SEQUENCE:
            yield sequence, b"".join(kept)


def same_packets(ours, real):
    mine, theirs = list(producer_packets(ours)), list(producer_packets(real))
    ids = {}
    for number, ((my_id, my_bytes), (their_id, their_bytes)) in enumerate(zip(mine, theirs)):
        if my_bytes != their_bytes:
            raise Bad(
                "producer packet %d: %s has %d bytes of sequence %d (%s…), %s has %d of sequence %d (%s…)"
                % (number, ours, len(my_bytes), my_id, my_bytes[:16].hex(),
                   real, len(their_bytes), their_id, their_bytes[:16].hex())
            )
        if ids.setdefault(my_id, their_id) != their_id:
            raise Bad("producer packet %d: sequence %d was %d, is %d" % (number, my_id, ids[my_id], their_id))
    if len(mine) != len(theirs):
        raise Bad("%s holds %d producer packets, %s holds %d" % (ours, len(mine), real, len(theirs)))
    if len(set(ids.values())) != len(ids):
        raise Bad("two sequences of one trace are one in the other: %s" % ids)
    return len(mine)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--same-packets", nargs=2, metavar=("OURS", "REAL"))
    parser.add_argument("--stats-last", action="store_true", help="the last packet must hold the statistics")
    parser.add_argument("traces", nargs="*", metavar="TRACE")
    options = parser.parse_args()
    traces = list(options.traces)
    try:
        if options.same_packets:
            traces.append(options.same_packets[0])
            count = same_packets(*options.same_packets)
            print("%s and %s: the same %d producer packets" % (*options.same_packets, count))
        if not traces:
            parser.error("no trace was given")
        for path in traces:
            count, stats = check(path)
            if options.stats_last and not stats:
                raise Bad("%s does not end with statistics" % path)
            print("%s: %d packets, no unknown field" % (path, count))
    except Bad as bad:
        print("FAIL %s" % bad)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
