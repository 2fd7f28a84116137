#!/usr/bin/env python3
"""Checks a trace that the firmware of embedded-example sent, against what the firmware itself says in it.

usage: check_firmware.py TRACE             nothing lost: slices nest and end, times go forward, and the counters
                                           have the number and the sum of values that the last log line says
       check_firmware.py --lapped TRACE    for what a ring held: what comes after a sequence's state is whole, names
                                           included, and nothing is lost between
       check_firmware.py --laps N TRACE    the same, after at least N laps
       check_firmware.py --before TRACE    the same, for what a start before the last one left, up to its last words
       check_firmware.py --snapshot TRACE  the same, around an alarm: something before it, and after it
       check_firmware.py --c TRACE         nothing lost of what the C program of embedded-example/c/test does
       check_firmware.py --c-later TRACE   for what it does after that trace: names and all, and nothing from before
       check_firmware.py --oven TRACE      nothing lost of the oven that is recorded in place: what its last log line says
       check_firmware.py --oven-before TRACE   what its start before the last one left, up to its last words
       check_firmware.py --embassy TRACE   nothing lost: tasks, their polls and idle time, as the binary embassy has them
       check_firmware.py --rtic TRACE      nothing lost: tasks of three priorities, as the binary rtic has them
       check_firmware.py --freertos TRACE  nothing lost: what embedded-example/c/test/freertos.c records, exactly
       check_firmware.py --log LINES TRACE     each line of the log, `seconds<tab>text`, is an instant of the main loop,
                                           within a millisecond, and there are no others
       check_firmware.py --part-of WHOLE TRACE   after losses: every packet is one of WHOLE, in WHOLE's order
       check_firmware.py --damage IN OUT   flips or drops one byte in a hundred, always the same ones

Exit status: 0 when all is well, 1 when not, with a line that says what.
"""
import collections
import random
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

LAST_LINE = "{} steps, {} samples, sums {} and {}"


class Bad(Exception):
    """A trace that is not what it should be."""


def load(path):
    trace = perfetto_trace_pb2.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    return trace.packet


Seen = collections.namedtuple("Seen", "counters last_line last begun instants")


class Sequence:
    """One writer's state: names, clock, default track."""

    def __init__(self):
        self.names, self.keys, self.time, self.track, self.valid = {}, {}, 0, 0, False
        self.packets = 0


def check(path, lapped=False, whole_run=True, open_slices={}, losses=False):
    """Returns the counters' values, the last line's arguments, the last event of each track, the slices by path, the
    instants. There may be losses, after which slices nest all the same."""
    sequences = collections.defaultdict(Sequence)
    stacks, counters, names, last_line = collections.defaultdict(list), collections.defaultdict(list), {}, None
    slices, last, begun, instants = 0, {}, collections.Counter(), []
    for packet in load(path):
        sequence = sequences[packet.trusted_packet_sequence_id]
        if packet.previous_packet_dropped and not losses and not (lapped and not sequence.packets):
            raise Bad("packets were lost: %d" % packet.previous_packet_dropped)
        sequence.packets += 1
        if packet.sequence_flags & TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
            sequence.names, sequence.keys, sequence.valid = {}, {}, True
            start = packet.clock_snapshot.clocks[0].timestamp // 1000
            if start + 1 < sequence.time:
                raise Bad("time goes back from %d to %d" % (sequence.time, start))
            sequence.time = start
            sequence.track = packet.trace_packet_defaults.track_event_defaults.track_uuid
        for entry in packet.interned_data.event_names:
            sequence.names[entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_names:
            sequence.keys[entry.iid] = entry.name
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            names[descriptor.uuid] = descriptor.name or descriptor.thread.thread_name
        if not packet.HasField("track_event"):
            continue
        if not sequence.valid:
            if lapped:
                continue
            raise Bad("an event before its sequence's state")
        sequence.time += packet.timestamp
        event = packet.track_event
        track = event.track_uuid or sequence.track
        name = sequence.names.get(event.name_iid) or event.name
        if event.type != TrackEvent.TYPE_COUNTER and event.type != TrackEvent.TYPE_SLICE_END and not name:
            raise Bad("an event without a name")
        if track not in names:
            raise Bad("an event on a track that is not described")
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            stacks[track].append(name)
            begun["/".join([names[track]] + stacks[track])] += 1
            slices += 1
        elif event.type == TrackEvent.TYPE_SLICE_END:
            if stacks[track]:
                stacks[track].pop()
            elif not lapped:
                raise Bad("a slice ends that did not begin")
        elif event.type == TrackEvent.TYPE_COUNTER:
            counters[names.get(track)].append(event.counter_value)
        values = {
            sequence.keys[a.name_iid]: a.uint_value if a.HasField("uint_value") else a.int_value
            for a in event.debug_annotations
        }
        if name == LAST_LINE:
            last_line = values
        last[names[track]] = name, values
        if event.type == TrackEvent.TYPE_INSTANT:
            instants.append((names[track], sequence.time, name, list(values.values())))
    if lapped:
        print("%s: %d slices, counters %s" % (path, slices, {name: len(v) for name, v in counters.items()}))
        return Seen(counters, last_line, last, begun, instants)
    left = {names[track]: stack for track, stack in stacks.items() if stack}
    if left != open_slices:
        raise Bad("slices that do not end: %s" % left)
    if not whole_run:
        print("%s: %d slices, counters %s" % (path, slices, {name: len(v) for name, v in counters.items()}))
        return Seen(counters, last_line, last, begun, instants)
    if last_line is None:
        raise Bad("the firmware's last line is missing")
    seen = {
        "steps": len(counters["power"]),
        "samples": len(counters["temperature"]),
        "powers": sum(counters["power"]),
        "temperatures": sum(counters["temperature"]),
    }
    if seen != last_line:
        raise Bad("the counters say %s, the firmware says %s" % (seen, last_line))
    print("%s: %d slices, %s, as the firmware says" % (path, slices, seen))
    return Seen(counters, last_line, last, begun, instants)


def check_lapped(path):
    counters, last_line, *_ = check(path, lapped=True)
    if last_line is None or len(counters["power"]) < 10:
        raise Bad("only %d values of power, last line %s" % (len(counters["power"]), last_line))


def check_laps(least, path):
    check_lapped(path)
    buffer = load(path)[-1].trace_stats.buffer_stats[0]
    if buffer.write_wrap_count < int(least):
        raise Bad("the ring was lapped %d times" % buffer.write_wrap_count)
    print("%s: the ring of %d bytes was lapped %d times" % (path, buffer.buffer_size, buffer.write_wrap_count))


def check_before(path):
    counters, last_line, last, *_ = check(path, lapped=True)
    name, values = last.get("control interrupt", (None, {}))
    if name != "crash ahead" or last_line is not None:
        raise Bad("the last words are missing: %s" % last)
    if len(counters["power"]) < 10 or counters["power"][-1] != values["power"]:
        raise Bad("power ends with %s, not with %s" % (counters["power"][-3:], values["power"]))


def check_snapshot(path):
    """The alarm is a packet of its own, with about as many packets before it as after it."""
    counters, last_line, *_ = check(path, lapped=True)
    packets = load(path)
    at = [i for i, packet in enumerate(packets) if "alarm" in [e.name for e in packet.interned_data.event_names]]
    if last_line is not None or len(at) != 1:
        raise Bad("%d alarms" % len(at))
    before, after = at[0], len(packets) - at[0] - 1
    if min(before, after) < 20:
        raise Bad("%d packets before the alarm and %d after it" % (before, after))
    print("%s: %d packets before the alarm and %d after it" % (path, before, after))


InPlace = collections.namedtuple("InPlace", "counts counters open spans")


def in_place(path, deepest=1):
    """What was recorded in place, without a loss: each event says its track and its time. Returns slices and instants by
    track and name, the counters' values, the tracks whose slice does not end, and slices by track: name, begin, end."""
    names, counts, open_slices = {}, collections.Counter(), collections.defaultdict(list)
    spans, times = collections.defaultdict(list), collections.defaultdict(int)
    counters = collections.defaultdict(list)
    for packet in load(path):
        if packet.previous_packet_dropped:
            raise Bad("packets were lost: %d" % packet.previous_packet_dropped)
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            names[descriptor.uuid] = descriptor.name or descriptor.thread.thread_name
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        track, stack = names[event.track_uuid], open_slices[event.track_uuid]
        if packet.timestamp < times[event.track_uuid]:
            raise Bad("time goes back on %s" % track)
        times[event.track_uuid] = packet.timestamp
        if event.type == TrackEvent.TYPE_COUNTER:
            counters[track].append(event.counter_value)
        elif event.type == TrackEvent.TYPE_SLICE_END:
            if not stack:
                raise Bad("a slice on %s ends that did not begin" % track)
            spans[track].append((*stack.pop(), packet.timestamp))
        else:
            counts["%s/%s" % (track, event.name)] += 1
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                stack.append((event.name, packet.timestamp))
        if len(stack) > deepest:
            raise Bad("slices on %s do not nest: %s" % (track, stack))
    left = sorted(names[track] for track, stack in open_slices.items() if stack)
    shown = dict(counts) if len(counts) < 40 else "%d tracks and names" % len(counts)
    print("%s: %s, counters %s" % (path, shown, {name: len(values) for name, values in counters.items()}))
    return InPlace(counts, counters, left, spans)


def check_oven(path):
    seen = in_place(path, deepest=2)
    lines = [p.track_event.debug_annotations for p in load(path) if p.track_event.name == LAST_LINE]
    if len(lines) != 1 or seen.open:
        raise Bad("%d last lines; %s do not end" % (len(lines), seen.open))
    steps, samples, powers, temperatures = [argument.int_value for argument in lines[0]]
    counters = [seen.counters["power"], seen.counters["temperature"]]
    for values, count, total in zip(counters, [steps, samples], [powers, temperatures]):
        if (len(values), sum(values)) != (count, total):
            raise Bad("counters have %d values and a sum of %d, not %d and %d" % (len(values), sum(values), count, total))
    slices = [seen.counts[name] for name in ["control interrupt/control", "sensor interrupt/sample", "sensor interrupt/filter"]]
    if slices != [steps, samples, samples] or steps < 200 or not seen.counts["main loop/heating"]:
        raise Bad("%s slices of %d steps and %d samples" % (slices, steps, samples))


def check_oven_before(path):
    """The ring has lapped, so that slices may end that did not begin; what was recorded last is there."""
    told = [p.track_event.name for p in load(path) if p.HasField("track_event")]
    if told.count("last words") != 1 or told.count("crash ahead") != 1 or told.count("control") < 50:
        raise Bad("what is left does not end as it should: %s" % collections.Counter(told))


def check_embassy(path):
    counts, counters, left, _ = in_place(path)
    if counters["level"] != list(range(0, 300, 3)):
        raise Bad("levels are %s" % counters["level"])
    # Each awaits its interrupt once more than it gets it at once: the first poll finds none.
    expected = {
        "control/created": 1, "control/runs": 101, "control/ready": 101, "control/ended": 1, "control's own/step": 100,
        "sensor/created": 1, "sensor/runs": 41, "sensor/ready": 41, "sensor/ended": 1, "sensor's own/sample": 40,
        "send/created": 1,
    }
    wrong = {name: counts[name] for name, count in expected.items() if counts[name] != count}
    # Two executors; of the task that sends, several wake-ups may be one.
    if wrong or not 30 <= counts["send/runs"] <= 60 or not 100 < counts["executor/idle"] < 250:
        raise Bad("%s of %s" % (wrong, counts))
    # What runs at the end is the task that sends; the other executor is idle.
    if left != ["executor", "send"]:
        raise Bad("slices that do not end: %s" % left)


def check_rtic(path):
    counts, counters, left, spans = in_place(path, deepest=2)
    expected = {"control/step": 200, "sensor/sample": 40, "sensor/filter": 40, "report/report": 20}
    if counts != expected or left:
        raise Bad("%s; slices that do not end: %s" % (counts, left))
    if counters != {"level": list(range(0, 600, 3)), "reported": [n * n for n in range(0, 40, 2)]}:
        raise Bad("counters are %s" % counters)
    if [name for name, _, _ in spans["sensor"]] != ["filter", "sample"] * 40:
        raise Bad("slices on sensor are %s" % spans["sensor"])
    # A task of a higher priority interrupts one of a lower one, and ends before that goes on.
    for higher, lower in [("control", "sensor"), ("control", "report"), ("sensor", "report")]:
        within = 0
        for _, begin, end in spans[higher]:
            for name, low_begin, low_end in spans[lower]:
                if begin < low_end and low_begin < end:
                    if not low_begin <= begin <= end <= low_end:
                        raise Bad("a slice on %s is not within %s on %s" % (higher, name, lower))
                    within += 1
        if within < 20:
            raise Bad("%s has interrupted %s only %d times" % (higher, lower, within))


def check_freertos(path):
    counts, counters, left, _ = in_place(path)
    expected = {
        "own/door": 1, "own/bell": 1, "own/plain": 1, "own/tag": 1, "own/?": 1, "own/step": 50,
        "motor/turns": 1, "motor/half": 1, "one of ten/hello": 10,
        "sender/created": 1, "sender/ready": 1, "sender/runs": 51, "sender/queue send": 50,
        # The tick, with the sender running; to which its going on is nothing new.
        "sender/queue send from interrupt": 20, "interrupt/interrupt": 20,
        "receiver/created": 1, "receiver/ready": 51, "receiver/runs": 50, "receiver/ended": 1,
        "receiver/queue receive": 50, "receiver/waits to receive": 50,
        "short/created": 1, "short/ready": 1, "short/runs": 1, "short/ended": 1, "executor/idle": 1,
    }
    if counts != expected or left:
        raise Bad("%s differ; slices that do not end: %s" % (set(counts.items()) ^ set(expected.items()), left))
    expected = {
        "message": list(range(50)), "large": [-2**63],
        "free heap": [4096 - 16, 4096 - 32, 4096 - 16, 4096 - 32, 4096 - 16],
    }
    counters = {name: values for name, values in counters.items() if name != "fraction"}
    if counters != expected:
        raise Bad("counters are %s" % counters)
    events = [packet.track_event for packet in load(path) if packet.HasField("track_event")]
    fractions = [event.double_counter_value for event in events if event.HasField("double_counter_value")]
    lines = [event.log_message.prio for event in events if event.HasField("log_message")]
    details = {
        event.name: (list(event.flow_ids), [(a.name, a.int_value, a.string_value) for a in event.debug_annotations])
        for event in events if event.name in ("door", "bell", "plain")
    }
    arguments = [("open", -1, ""), ("by", 0, "hand")]
    expected = {"door": ([7], arguments), "bell": ([7], arguments), "plain": ([], [])}
    if fractions != [0.5] or lines != [5] or details != expected:
        raise Bad("fractions %s, log %s, details %s" % (fractions, lines, details))


def check_log(lines, path):
    with open(lines) as file:
        log = [line.rstrip("\n").split("\t") for line in file]
    instants = [
        (time, name.replace("{}", "%s") % tuple(values) if values else name)
        for track, time, name, values in check(path).instants
        if track == "main loop"
    ]
    if [text for _, text in log] != [text for _, text in instants] or len(log) < 5:
        raise Bad("the log says %s, the trace %s" % (log, instants))
    apart = [time - float(seconds) * 1e6 for (seconds, _), (time, _) in zip(log, instants)]
    if min(apart) < -1 or max(apart) > 1000:
        raise Bad("log and trace are %s us apart" % apart)
    print("%s: %d lines of the log are instants, %.0f us apart at most" % (path, len(log), max(apart)))


def check_c(path):
    counters, _, last, _, instants = check(path, whole_run=False)
    squares, ticks = counters["squares"], counters["ticks"]
    if squares != [step * step - 50 for step in range(100)]:
        raise Bad("squares are %s" % squares)
    if ticks != list(range(1, len(ticks) + 1)) or len(ticks) < 10:
        raise Bad("ticks are %s" % ticks)
    names = collections.Counter(name for _, _, name, _ in instants)
    if names["0123456789" * 7 + "012345678"] != 40 or names["?"] != 40:
        raise Bad("instants are %s" % names)
    if last["main loop"][0] != "end":
        raise Bad("the main loop ends with %s" % (last["main loop"],))


def check_c_later(path):
    counters, _, _, begun, instants = check(path, whole_run=False)
    if [name for _, _, name, _ in instants] != ["later"] or begun != {"SysTick/tick": 1} or len(counters["ticks"]) != 1:
        raise Bad("instants are %s, slices %s, ticks %s" % (instants, begun, counters["ticks"]))


def bare(packet):
    packet.ClearField("previous_packet_dropped")
    return packet.SerializeToString(deterministic=True)


def check_part_of(whole, path):
    rest = iter([bare(packet) for packet in load(whole)])
    packets = [bare(packet) for packet in load(path)]
    for index, packet in enumerate(packets):
        if packet not in rest:  # consumes up to and including the packet
            raise Bad("packet %d is not one that was sent, or not in the order of sending" % index)
    if len(packets) < 100:
        raise Bad("only %d packets" % len(packets))
    print("%s: %d packets, all as they were sent" % (path, len(packets)))


def damage(source, target):
    chance = random.Random(42)
    with open(source, "rb") as file:
        data = bytearray(file.read())
    damaged = bytearray()
    for byte in data:
        if chance.randrange(100):
            damaged.append(byte)
        elif chance.randrange(2):
            damaged.append(byte ^ 1 << chance.randrange(8))
    with open(target, "wb") as file:
        file.write(damaged)


CHECKS = {
    "--" + one.__name__.removeprefix("check_").replace("_", "-"): one
    for one in (check_lapped, check_laps, check_before, check_snapshot, check_c, check_c_later, check_oven, damage)
    + (check_oven_before, check_embassy, check_rtic, check_freertos, check_log, check_part_of)
}


def main():
    words = sys.argv[1:] or ["--help"]
    if words[0].startswith("-") and words[0] not in CHECKS:
        sys.exit(__doc__)
    try:
        CHECKS[words.pop(0)](*words) if words[0] in CHECKS else check(*words)
    except Bad as bad:
        print("FAIL", bad)
        sys.exit(1)


if __name__ == "__main__":
    main()
