#!/usr/bin/env python3
"""Compares the field numbers of core/src/proto with what Perfetto publishes.

Needs the package `perfetto` (0.59 or later), whose descriptors have all that is in a trace, and for the rest, the
messages of the producer socket, the C++ source in the crate `perfetto-sdk-sys` that std-adapter/ipc/interop/ builds with: cargo says
where that is. Every constant must name a field of its message, with that number and of that kind, or a value of its
enumeration, or a method. Exits 1 and says what differs, or prints how many constants were compared; finding fewer than
it should is an error too.

Usage: check_field_numbers.py
"""

import json
import pathlib
import re
import subprocess
import sys

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FieldDescriptor as F
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

MESSAGES = {
    "trace": [pb.Trace],
    "trace_packet": [pb.TracePacket],
    "clock_snapshot": [pb.ClockSnapshot],
    "clock": [pb.ClockSnapshot.Clock],
    "ftrace_event_bundle": [pb.FtraceEventBundle],
    "ftrace_event": [pb.FtraceEvent],
    "compact_sched": [pb.FtraceEventBundle.CompactSched],
    "ftrace_error": [pb.FtraceEventBundle.FtraceError],
    "generic_event_descriptor": [pb.FtraceEventBundle.GenericEventDescriptor],
    "descriptor_proto": [descriptor_pb2.DescriptorProto],
    "field_descriptor_proto": [descriptor_pb2.FieldDescriptorProto],
    "ftrace_stats": [pb.FtraceStats],
    "ftrace_cpu_stats": [pb.FtraceCpuStats],
    "interned_bytes": [pb.InternedString],
    "process_tree": [pb.ProcessTree],
    "process_tree_process": [pb.ProcessTree.Process],
    "process_tree_thread": [pb.ProcessTree.Thread],
    "system_info": [pb.SystemInfo],
    "utsname": [pb.Utsname],
    "process_stats": [pb.ProcessStats],
    "process_stats_process": [pb.ProcessStats.Process],
    "sys_stats": [pb.SysStats],
    "sys_stats_value": [pb.SysStats.MeminfoValue, pb.SysStats.VmstatValue],
    "interrupt_count": [pb.SysStats.InterruptCount],
    "devfreq_value": [pb.SysStats.DevfreqValue],
    "cpu_times": [pb.SysStats.CpuTimes],
    "disk_stat": [pb.SysStats.DiskStat],
    "psi_sample": [pb.SysStats.PsiSample],
    "thermal_zone": [pb.SysStats.ThermalZone],
    "buddy_info": [pb.SysStats.BuddyInfo],
    "cpuidle_state": [pb.SysStats.CpuIdleState],
    "cpuidle_state_entry": [pb.SysStats.CpuIdleStateEntry],
    "slab_info": [pb.SysStats.SlabInfo],
    "cpu_info": [pb.CpuInfo],
    "cpu": [pb.CpuInfo.Cpu],
    "arm_cpu_identifier": [pb.CpuInfo.ArmCpuIdentifier],
    "interrupt_info": [pb.InterruptInfo],
    "interrupt_mapping": [pb.InterruptInfo.InterruptMapping],
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
    "data_source_config": [pb.DataSourceConfig],
    "trace_config": [pb.TraceConfig],
    "buffer_config": [pb.TraceConfig.BufferConfig],
    "trace_config_data_source": [pb.TraceConfig.DataSource],
    "producer_config": [pb.TraceConfig.ProducerConfig],
    "builtin_data_source": [pb.TraceConfig.BuiltinDataSource],
    "incremental_state_config": [pb.TraceConfig.IncrementalStateConfig],
    "trigger_config": [pb.TraceConfig.TriggerConfig],
    "trigger": [pb.TraceConfig.TriggerConfig.Trigger],
    "session_semaphore": [pb.TraceConfig.SessionSemaphore],
    "guardrail_overrides": [pb.TraceConfig.GuardrailOverrides],
    "compression": [pb.TraceConfig.CompressionConfig],
    "zstd": [pb.TraceConfig.CompressionConfig.Zstd],
    "trace_filter": [pb.TraceConfig.TraceFilter],
    "string_filter_chain": [pb.TraceConfig.TraceFilter.StringFilterChain],
    "string_filter_rule": [pb.TraceConfig.TraceFilter.StringFilterRule],
    "filter_stats": [pb.TraceStats.FilterStats],
    "slow_data_sources": [pb.TracingServiceEvent.DataSources],
    "slow_data_source": [pb.TracingServiceEvent.DataSources.DataSource],
    "concurrent_session_event": [pb.ConcurrentSessionEvent],
    "received_trigger": [pb.Trigger],
    "tracing_service_event": [pb.TracingServiceEvent],
    "trace_uuid": [pb.TraceUuid],
    "track_event_config": [pb.TrackEventConfig],
    "ftrace_config": [pb.FtraceConfig],
    "compact_sched_config": [pb.FtraceConfig.CompactSchedConfig],
    "tracefs_option": [pb.FtraceConfig.TracefsOption],
    "system_info_config": [pb.SystemInfoConfig],
    "process_stats_config": [pb.ProcessStatsConfig],
    "sys_stats_config": [pb.SysStatsConfig],
    "data_source_descriptor": [pb.DataSourceDescriptor],
    "track_event_descriptor": [pb.TrackEventDescriptor],
    "track_event_category": [pb.TrackEventCategory],
    "protovm_config": [pb.ProtoVmConfig],
    "protovms": [pb.TracePacket.ProtoVms],
    "protovms_instance": [pb.TracePacket.ProtoVms.Instance],
    "trace_provenance": [pb.TraceProvenance],
    "trace_provenance_buffer": [pb.TraceProvenance.Buffer],
    "trace_provenance_sequence": [pb.TraceProvenance.Sequence],
}

# Messages that only the C++ source has, by their classes there.
CLASSES = {
    "ipc_frame": "IPCFrame",
    "bind_service": "IPCFrame_BindService",
    "bind_service_reply": "IPCFrame_BindServiceReply",
    "method_info": "IPCFrame_BindServiceReply_MethodInfo",
    "invoke_method": "IPCFrame_InvokeMethod",
    "invoke_method_reply": "IPCFrame_InvokeMethodReply",
    "request_error": "IPCFrame_RequestError",
    "initialize_connection_request": "InitializeConnectionRequest",
    "initialize_connection_response": "InitializeConnectionResponse",
    "register_data_source_request": "RegisterDataSourceRequest",
    "unregister_data_source_request": "UnregisterDataSourceRequest",
    "register_trace_writer_request": "RegisterTraceWriterRequest",
    "unregister_trace_writer_request": "UnregisterTraceWriterRequest",
    "notify_data_source_started_request": "NotifyDataSourceStartedRequest",
    "notify_data_source_stopped_request": "NotifyDataSourceStoppedRequest",
    "activate_triggers_request": "ActivateTriggersRequest",
    "commit_data_request": "CommitDataRequest",
    "chunks_to_move": "CommitDataRequest_ChunksToMove",
    "chunk_to_patch": "CommitDataRequest_ChunkToPatch",
    "patch": "CommitDataRequest_ChunkToPatch_Patch",
    "get_async_command_response": "GetAsyncCommandResponse",
    "setup_tracing": "GetAsyncCommandResponse_SetupTracing",
    "setup_data_source": "GetAsyncCommandResponse_SetupDataSource",
    "start_data_source": "GetAsyncCommandResponse_StartDataSource",
    "stop_data_source": "GetAsyncCommandResponse_StopDataSource",
    "flush": "GetAsyncCommandResponse_Flush",
    "clear_incremental_state": "GetAsyncCommandResponse_ClearIncrementalState",
    "enable_tracing_request": "EnableTracingRequest",
    "enable_tracing_response": "EnableTracingResponse",
    "change_trace_config_request": "ChangeTraceConfigRequest",
    "read_buffers_response": "ReadBuffersResponse",
    "slice": "ReadBuffersResponse_Slice",
    "flush_request": "FlushRequest",
    "detach_request": "DetachRequest",
    "attach_request": "AttachRequest",
    "attach_response": "AttachResponse",
    "get_trace_stats_response": "GetTraceStatsResponse",
    "observe_events_request": "ObserveEventsRequest",
    "observe_events_response": "ObserveEventsResponse",
    "observable_events": "ObservableEvents",
    "clone_trigger_hit": "ObservableEvents_CloneTriggerHit",
    "data_source_instance_state_change": "ObservableEvents_DataSourceInstanceStateChange",
    "query_service_state_request": "QueryServiceStateRequest",
    "query_service_state_response": "QueryServiceStateResponse",
    "tracing_service_state": "TracingServiceState",
    "tracing_service_state_producer": "TracingServiceState_Producer",
    "tracing_service_state_data_source": "TracingServiceState_DataSource",
    "tracing_session": "TracingServiceState_TracingSession",
    "query_capabilities_response": "QueryCapabilitiesResponse",
    "tracing_service_capabilities": "TracingServiceCapabilities",
    "save_trace_for_bugreport_response": "SaveTraceForBugreportResponse",
    "clone_session_request": "CloneSessionRequest",
    "clone_session_response": "CloneSessionResponse",
}
CPP_ENUMS = {
    "smb_scraping_mode": ("InitializeConnectionRequest_ProducerSMBScrapingMode", "SMB_SCRAPING_"),
    "protocol_abi_version": ("ProtocolAbiVersion", "PROTOCOL_ABI_VERSION_"),
}
# What a field is in C++, where that tells its kind; otherwise it is a message.
CPP_KINDS = {
    "bool": ["Bool"], "uint32_t": ["Varint"], "uint64_t": ["Varint"], "int32_t": ["Int"], "int64_t": ["Int"],
    "std::string": ["String", "Bytes"],
}

# Our module: the enumeration, and what its values' names begin with.
ENUMS = {
    "sequence_flags": (pb.TracePacket.SequenceFlags, "SEQ_"),
    "data_loss_reason": (pb.TracePacket.DataLossReason, "DATA_LOSS_"),
    "ftrace_clock": (pb.FtraceClock, "FTRACE_CLOCK_"),
    "ftrace_phase": (pb.FtraceStats.Phase, ""),
    "psi_resource": (pb.SysStats.PsiSample.PsiResource, "PSI_RESOURCE_"),
    "field_type": (descriptor_pb2.FieldDescriptorProto.Type, "TYPE_"),
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
        elif match := re.fullmatch(r"pub const (\w+): &str = \"(\w+)\";", line):
            yield module, match[1], match[2], None
            kind = None
        elif line == "}":
            module, kind = None, None


def counters(text):
    """The same for the list of a buffer's counters, whose constants have the names of the counters."""
    for name, constant, value in re.findall(r"^ +(\w+): (\w+) = (\d+),$", text, re.MULTILINE):
        yield "buffer_stats", constant, int(value), "Varint" if constant == name.upper() else "of another name"


class Cpp:
    """The C++ source of Perfetto's SDK."""

    def __init__(self, root):
        command = ["cargo", "metadata", "--locked", "--format-version", "1", "--manifest-path", root / "std-adapter/ipc/interop/Cargo.toml"]
        metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        crate = next(p for p in metadata["packages"] if p["name"] == "perfetto-sdk-sys")
        self.text = (pathlib.Path(crate["manifest_path"]).parent / "libperfetto_c/perfetto_c.cc").read_text()
        port = re.search(r"ProducerPort::NewDescriptor\(\) \{(.*?)^\}", self.text, re.DOTALL | re.MULTILINE)[1]
        self.service = re.search(r'service_name = "(\w+)"', port)[1]
        self.methods = re.findall(r'^ +"(\w+)",$', port, re.MULTILINE)

    def body(self, what):
        """What is between the braces of a class or an enumeration."""
        return re.search(rf"^{what} : [^{{;]*\{{(.*?)^\}};", self.text, re.DOTALL | re.MULTILINE)[1]

    def field_problem(self, name, value, kind, message):
        body = self.body(f"class PERFETTO_EXPORT_COMPONENT {message}")
        camel = "".join(part.capitalize() for part in name.split("_"))
        number = re.search(rf"\bk{camel}FieldNumber = (\d+),", body)
        if not number or int(number[1]) != value:
            return f"{message} has {number[0] if number else 'no such field'}"
        of = re.search(rf"^  (?:const )?(?:std::vector<)?([\w:]+)>?&? {name.lower()}\(\) const ", body, re.MULTILINE)[1]
        enum = re.search(rf"^enum {of} : int", self.text, re.MULTILINE)
        expected = ["Varint"] if enum else CPP_KINDS.get(of, ["Message"])
        return None if kind in expected else f"{message}'s is {of}, described as {kind}"

    def value_problem(self, name, value, enum, prefix):
        values = dict(re.findall(rf"(?:{enum}_)?{prefix}(\w+) = (\d+),", self.body(f"enum {enum}")))
        return None if values.get(name) == str(value) else f"{enum} has {prefix}{name} = {values.get(name)}"

    def name_problem(self, module, name, value):
        if module is None:
            return None if value == self.service else f"the service is {self.service}"
        spelled = re.sub(r"(?<!^)([A-Z])", r"_\1", value).upper()
        return None if value in self.methods and name == spelled else "there is no such method"


def problem(cpp, module, name, value, kind):
    """What is wrong with a constant, or None."""
    # What only this project writes, under a number that Perfetto leaves to others.
    if module == "protovms_stats" or (module, name, value) == ("protovms_instance", "STATS", 1000):
        return None
    if isinstance(value, str):
        return cpp.name_problem(module, name, value)
    if module in CLASSES:
        return cpp.field_problem(name, value, kind, CLASSES[module])
    if module in CPP_ENUMS:
        return cpp.value_problem(name, value, *CPP_ENUMS[module])
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
    root = pathlib.Path(__file__).resolve().parent.parent
    proto, cpp = root / "core/src/proto", Cpp(root)
    files = [proto / "fields.rs", *sorted((proto / "fields").glob("*.rs"))]
    found, failed = [], False

    def fail(path, what):
        nonlocal failed
        failed = True
        print(f"{path.relative_to(root)}: {what}", file=sys.stderr)

    def check(path, those):
        for constant in those:
            found.append(constant)
            if what := problem(cpp, *constant):
                module, name, value, _ = constant
                fail(path, f"{module}::{name} = {value}: {what}")

    for path in files:
        text = path.read_text()
        those = list(constants(text))
        check(path, those)
        # Those that a macro makes of the list of counters are checked there.
        unread = len(re.findall(r"pub const (?!\$)", text)) - len(those)
        if unread:
            fail(path, f"{unread} constants this script cannot read")
    check(proto / "buffer_stats.rs", counters((proto / "buffer_stats.rs").read_text()))
    known = MESSAGES.keys() | ENUMS.keys() | CLASSES.keys() | CPP_ENUMS.keys()
    for module in sorted(known - {module for module, *_ in found}):
        fail(proto, f"no constant of {module}")
    if failed:
        return 1
    print(f"{len(found)} field numbers, values and names agree with Perfetto's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
