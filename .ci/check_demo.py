#!/usr/bin/env python3
"""Checks what a trace of track events says, with the Python package `perfetto`.

usage: check_demo.py --threads N [--lapped | --complete] TRACE...

As a reader would, sequence by sequence: `sequence_flags` and `previous_packet_dropped` say when names and
times can be known; packets that need a state which is lost are left aside.  In the others every interned name
must resolve, times must not go backwards on a sequence, slices must nest on each track, and every track of
an event must be described; each thread's track must have a name and a thread id of its own.
--complete: nothing was lost, so all packets can be read, and every slice and flow that begins ends.
--lapped: the ring has lapped: something was lost on every sequence, and most of what is left can be read.
Exit status: 0 when all is well, 1 when not, with a line that says what.
"""
import argparse
import collections
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from check_traces import SERVICE_SEQUENCE, Bad, check, read

STATE_CLEARED, NEEDS_STATE = 1, 2
SLICE_BEGIN, SLICE_END, INSTANT, COUNTER = 1, 2, 3, 4


class Sequence:
    """What a reader knows of a sequence."""

    def __init__(self):
        self.packets = self.skipped = self.losses = self.states = 0
        self.valid = False
        self.time = None
        # Slices that may have begun in what was lost.
        self.unknown_depth = False
        self.stacks = collections.defaultdict(list)
        self.clear()

    def clear(self):
        self.names, self.categories, self.keys = {}, {}, {}
        self.clocks, self.default_clock, self.default_track = {}, None, None

    def lose(self):
        self.losses += 1
        self.valid = False
        self.unknown_depth = True
        self.stacks.clear()

    def intern(self, data):
        tables = (
            (self.names, data.event_names),
            (self.categories, data.event_categories),
            (self.keys, data.debug_annotation_names),
        )
        for table, entries in tables:
            for entry in entries:
                if not entry.iid or not entry.name:
                    raise Bad("an interned name without a number or a text")
                if table.setdefault(entry.iid, entry.name) != entry.name:
                    raise Bad("number %d is %r, was %r" % (entry.iid, entry.name, table[entry.iid]))

    def snapshot(self, clocks):
        base = None
        for clock in clocks:
            if clock.clock_id < 64:
                base = clock.timestamp
        for clock in clocks:
            if clock.clock_id >= 64:
                if base is None:
                    raise Bad("a clock of the sequence without a builtin one beside it")
                unit = clock.unit_multiplier_ns or 1
                self.clocks[clock.clock_id] = [base, unit, clock.is_incremental]

    def now(self, packet):
        """The packet's time in nanoseconds of the builtin clock; None if it has none."""
        if not packet.HasField("timestamp"):
            return None
        clock = packet.timestamp_clock_id or self.default_clock or 6
        if clock < 64:
            time = packet.timestamp
        elif clock not in self.clocks:
            raise Bad("clock %d is not in a snapshot of this state" % clock)
        else:
            entry = self.clocks[clock]
            if not entry[2]:
                raise Bad("the demonstration's own clocks are incremental")
            entry[0] += packet.timestamp * entry[1]
            time = entry[0]
        if self.time is not None and time < self.time:
            raise Bad("time goes back by %d ns" % (self.time - time))
        self.time = time
        return time


class Trace:
    def __init__(self):
        self.sequences = collections.defaultdict(Sequence)
        self.tracks, self.used = {}, set()
        self.events = collections.Counter()
        self.names = collections.Counter()
        self.flows, self.ended_flows = set(), set()

    def packet(self, packet):
        sequence = self.sequences[packet.trusted_packet_sequence_id]
        sequence.packets += 1
        # The first packet of a sequence comes after nothing; if it is not the first, others are lost.
        first = sequence.packets == 1 and not packet.first_packet_on_sequence
        if packet.previous_packet_dropped or first:
            sequence.lose()
        if packet.sequence_flags & STATE_CLEARED:
            sequence.clear()
            sequence.valid = True
            sequence.states += 1
        if packet.HasField("track_descriptor"):
            self.describe(packet.track_descriptor)
        if packet.sequence_flags & NEEDS_STATE and not sequence.valid:
            sequence.skipped += 1
            return
        sequence.intern(packet.interned_data)
        sequence.snapshot(packet.clock_snapshot.clocks)
        # The defaults are for the packets that follow; the one that sets them says all itself.
        time = sequence.now(packet)
        if packet.HasField("clock_snapshot") and not packet.clock_snapshot.primary_trace_clock:
            raise Bad("a clock snapshot does not say which clock is the trace's")
        if packet.HasField("trace_packet_defaults"):
            sequence.default_clock = packet.trace_packet_defaults.timestamp_clock_id
            sequence.default_track = packet.trace_packet_defaults.track_event_defaults.track_uuid
        if packet.HasField("track_event"):
            if time is None:
                raise Bad("an event without a time")
            self.event(sequence, packet.track_event)

    def describe(self, descriptor):
        before = self.tracks.setdefault(descriptor.uuid, descriptor)
        if before != descriptor:
            raise Bad("track %d is described in two ways" % descriptor.uuid)

    def event(self, sequence, event):
        track = event.track_uuid if event.HasField("track_uuid") else sequence.default_track
        if not track:
            raise Bad("an event without a track")
        self.used.add(track)
        self.events[event.type] += 1
        name = event.name
        if event.name_iid:
            name = sequence.names.get(event.name_iid)
            if name is None:
                raise Bad("name %d is not known in this state" % event.name_iid)
        for iid in event.category_iids:
            if iid not in sequence.categories:
                raise Bad("category %d is not known in this state" % iid)
        for annotation in event.debug_annotations:
            if not annotation.name and annotation.name_iid not in sequence.keys:
                raise Bad("annotation key %d is not known in this state" % annotation.name_iid)
        self.flows.update(event.flow_ids)
        self.ended_flows.update(event.terminating_flow_ids)
        if event.type in (SLICE_BEGIN, INSTANT):
            if not name:
                raise Bad("a slice or an instant without a name")
            self.names[name] += 1
        if event.type == SLICE_BEGIN:
            sequence.stacks[track].append(name)
        elif event.type == SLICE_END:
            if sequence.stacks[track]:
                sequence.stacks[track].pop()
            elif not sequence.unknown_depth:
                raise Bad("a slice ends on track %d that has not begun" % track)
        elif event.type == COUNTER:
            if not event.HasField("counter_value") and not event.HasField("double_counter_value"):
                raise Bad("a counter without a value")
            if not self.tracks[track].HasField("counter"):
                raise Bad("track %d counts and is no counter" % track)

    def finish(self, threads, complete, lapped):
        for track in self.used:
            while track:
                if track not in self.tracks:
                    raise Bad("track %d is not described" % track)
                track = self.tracks[track].parent_uuid
        own = [d.thread for d in self.tracks.values() if d.HasField("thread")]
        if any(not thread.thread_name or not thread.tid for thread in own):
            raise Bad("a thread without a name or an id")
        if len({thread.tid for thread in own}) != len(own) or len({t.thread_name for t in own}) != len(own):
            raise Bad("two threads share a name or an id")
        writers = {i: s for i, s in self.sequences.items() if i != SERVICE_SEQUENCE}
        # For a thread that ended early, a ring may hold nothing, or only some packets after its last state, which
        # cannot be identified; all others have a name.
        told = [s for s in writers.values() if s.states]
        if not told or not len(told) <= len(own) <= len(writers) <= threads or complete and len(told) != threads:
            counts = (len(own), len(told), len(writers), threads)
            raise Bad("%d named threads, %d with a state, %d writers of %d" % counts)
        for number, sequence in writers.items():
            where = "sequence %d: " % number
            # Whatever was lost, what was open last was closed: each thread ran to its end.
            if not sequence.unknown_depth and any(sequence.stacks.values()):
                raise Bad(where + "slices do not end: %s" % dict(sequence.stacks))
            if complete and (sequence.losses or sequence.skipped):
                raise Bad(where + "%d losses, %d skipped" % (sequence.losses, sequence.skipped))
            if lapped and not sequence.losses:
                raise Bad(where + "no loss")
        if complete and self.flows != self.ended_flows:
            raise Bad("flows that do not end: %s" % (self.flows ^ self.ended_flows))
        packets = sum(s.packets for s in writers.values())
        skipped = sum(s.skipped for s in writers.values())
        if lapped and skipped * 2 > packets:
            raise Bad("%d of %d packets cannot be told" % (skipped, packets))
        return packets, skipped


def check_events(path, options):
    check(path)
    file = perfetto_trace_pb2.Trace()
    file.ParseFromString(read(path))
    trace = Trace()
    for number, packet in enumerate(file.packet):
        try:
            trace.packet(packet)
        except Bad as bad:
            raise Bad("packet %d of sequence %d: %s" % (number, packet.trusted_packet_sequence_id, bad)) from bad
    packets, skipped = trace.finish(options.threads, options.complete, options.lapped)
    print(
        "%s: %d packets, %d without their state; %d slices, %d instants, %d counter values, %d flows, %d tracks"
        % (path, packets, skipped, trace.events[SLICE_BEGIN], trace.events[INSTANT], trace.events[COUNTER],
           len(trace.flows), len(trace.tracks))
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, required=True, help="so many threads have written, each with its name")
    parser.add_argument("--complete", action="store_true", help="nothing was lost")
    parser.add_argument("--lapped", action="store_true", help="something was lost on every sequence")
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    options = parser.parse_args()
    try:
        for path in options.traces:
            check_events(path, options)
    except Bad as bad:
        print("FAIL %s" % bad)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
