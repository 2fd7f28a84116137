//! What a service's session wants of the machine's data sources: their configurations, read.

use std::time::Duration;

use tracebuf::proto::fields::config::{
    compact_sched_config, ftrace_config, process_stats_config, sys_stats_config, system_info_config,
    tracefs_option,
};
use tracebuf::proto::fields::ipc::data_source_config;
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, number};

use super::event_categories::events_of;
use super::ftrace_source::FtraceOptions;
use super::sys_stats::Group;
use crate::ftrace::is_event;

/// The least time between two looks, as in Perfetto.
const LEAST: Duration = Duration::from_millis(10);

/// Fields of `FtraceConfig` that would change what is recorded, and are not known here.
const UNSUPPORTED: [(u32, &str); 12] = [
    (3, "atrace_apps"),
    (15, "throttle_rss_stat"),
    (16, "disable_generic_events"),
    (18, "syscall_events"),
    (19, "enable_function_graph"),
    (20, "function_filters"),
    (21, "function_graph_roots"),
    (22, "print_filter"),
    (23, "preserve_ftrace_buffer"),
    (24, "use_monotonic_raw_clock"),
    (25, "instance_name"),
    (30, "kprobe_events"),
];

/// `FtraceConfig`.
#[derive(Debug)]
pub(super) struct WantedEvents {
    pub(super) options: FtraceOptions,
    /// What is not done of it: names of fields, and what names no event.
    pub(super) without: Vec<String>,
}

fn is_set(config: &[u8], field: u32) -> bool {
    number(config, field).is_some_and(|value| value != 0)
}

/// The message in this field of a `DataSourceConfig`; empty for a malformed one.
fn within(config: &[u8], field: u32) -> &[u8] {
    message(config, field).unwrap_or_default()
}

impl WantedEvents {
    /// Of a `DataSourceConfig`. If it does not say how large the kernel's buffer of a processor is, it has so many KiB, and
    /// if it says more than the second, that.
    pub(super) fn of(config: &[u8], [buffer_kib, most_kib]: [u64; 2]) -> Self {
        use ftrace_config::{
            ATRACE_CATEGORIES, ATRACE_USERSPACE_ONLY, BUFFER_SIZE_KB, COMPACT_SCHED, DRAIN_BUFFER_PERCENT,
            DRAIN_PERIOD_MS, FTRACE_EVENTS, SYMBOLIZE_KSYMS,
        };
        let config = within(config, data_source_config::FTRACE_CONFIG);
        let (mut events, mut if_there, mut without) = (Vec::new(), Vec::new(), Vec::<String>::new());
        for field in Fields::of(config) {
            let unsupported = UNSUPPORTED.iter().find(|(number, _)| *number == field.number);
            let is_off = field.value == FieldValue::Number(0);
            if let Some((_, name)) =
                unsupported.filter(|(_, name)| !is_off && !without.iter().any(|one| one == name))
            {
                without.push((*name).to_owned());
            }
            if let (FTRACE_EVENTS, FieldValue::Bytes(event)) = (field.number, field.value) {
                let event = String::from_utf8_lossy(event).replacen(':', "/", 1);
                if is_event(&event) {
                    events.push(event)
                } else {
                    without.push(format!("the event \"{event}\""))
                }
            }
        }
        for category in messages(config, ATRACE_CATEGORIES) {
            let category = String::from_utf8_lossy(category);
            match events_of(&category).filter(|_| !is_set(config, ATRACE_USERSPACE_ONLY)) {
                Some(events) => if_there.extend(events),
                None => without.push(format!("the category \"{category}\"")),
            }
        }
        let mut options = FtraceOptions::new(events).if_there(if_there);
        let wanted_kib = number(config, BUFFER_SIZE_KB).filter(|kib| *kib > 0).unwrap_or(buffer_kib);
        if wanted_kib > most_kib {
            without.push(format!("more than {most_kib} KiB of buffer for each processor"));
        }
        options = options.buffer_kib(wanted_kib.min(most_kib));
        if let Some(period) = number(config, DRAIN_PERIOD_MS).filter(|period| *period > 0) {
            options = options.period(Duration::from_millis(period));
        }
        let compact = within(config, COMPACT_SCHED);
        if number(compact, compact_sched_config::ENABLED) == Some(0) {
            options = options.verbose();
        }
        if is_set(config, SYMBOLIZE_KSYMS) {
            options = options.symbols();
        }
        if let Some(percent) =
            number(config, DRAIN_BUFFER_PERCENT).filter(|percent| (1..=100).contains(percent))
        {
            options = options.watermark(percent as u8);
        }
        for (file, text) in settings(config, &mut without) {
            options = options.set(file, text);
        }
        if !without.is_empty() {
            options = options.tell(format!("linux.ftrace does without {}", without.join(", ")));
        }
        Self { options, without }
    }

    /// Whether it chooses threads by the kernel's numbers.
    pub(super) fn chooses_threads(config: &[u8]) -> bool {
        !numbers(within(config, data_source_config::FTRACE_CONFIG), ftrace_config::TIDS_TO_TRACE).is_empty()
    }
}

/// What an `FtraceConfig` wants in files of the set of buffers, each with its text. Names of options that are none are among what
/// is done `without`: they would be parts of a path.
fn settings(config: &[u8], without: &mut Vec<String>) -> Vec<(String, String)> {
    use ftrace_config::{TIDS_TO_TRACE, TRACEFS_OPTIONS, TRACING_CPUMASK};
    let mut settings = Vec::new();
    for option in messages(config, TRACEFS_OPTIONS) {
        let name = String::from_utf8_lossy(message(option, tracefs_option::NAME).unwrap_or_default());
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        match number(option, tracefs_option::STATE) {
            Some(state @ 1..=2) if is_name && !name.is_empty() => {
                settings.push((format!("options/{name}"), u64::from(state == 1).to_string()));
            }
            _ => without.push(format!("the option \"{name}\"")),
        }
    }
    let threads: Vec<_> = numbers(config, TIDS_TO_TRACE).iter().map(u64::to_string).collect();
    if !threads.is_empty() {
        settings.push(("set_event_pid".to_owned(), threads.join(" ")));
    }
    let mask = message(config, TRACING_CPUMASK).unwrap_or_default();
    if !mask.is_empty() {
        settings.push(("tracing_cpumask".to_owned(), String::from_utf8_lossy(mask).into_owned()));
    }
    settings
}

/// Whether a `SystemInfoConfig`, in this `DataSourceConfig`, wants the names of interrupts.
pub(super) fn wants_interrupts(config: &[u8]) -> bool {
    is_set(within(config, data_source_config::SYSTEM_INFO_CONFIG), system_info_config::IRQ_NAMES)
}

/// `ProcessStatsConfig`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WantedProcesses {
    pub(super) scans: bool,
    pub(super) has_threads: bool,
    pub(super) poll: Option<Duration>,
}

impl WantedProcesses {
    /// Of a `DataSourceConfig`.
    pub(super) fn of(config: &[u8]) -> Self {
        use process_stats_config::{PROC_STATS_POLL_MS, RECORD_THREAD_NAMES, SCAN_ALL_PROCESSES_ON_START};
        let config = within(config, data_source_config::PROCESS_STATS_CONFIG);
        Self {
            scans: is_set(config, SCAN_ALL_PROCESSES_ON_START),
            has_threads: is_set(config, RECORD_THREAD_NAMES),
            poll: period(config, PROC_STATS_POLL_MS),
        }
    }
}

/// `SysStatsConfig`: how often is looked at a group, and the only counters of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WantedStats {
    pub(super) periods: Vec<(Group, Duration)>,
    pub(super) only: Vec<(Group, Vec<u64>)>,
}

impl WantedStats {
    /// Of a `DataSourceConfig`.
    pub(super) fn of(config: &[u8]) -> Self {
        use sys_stats_config as fields;
        let config = within(config, data_source_config::SYS_STATS_CONFIG);
        let groups = [
            (Group::Memory, fields::MEMINFO_PERIOD_MS),
            (Group::Events, fields::VMSTAT_PERIOD_MS),
            (Group::Stat, fields::STAT_PERIOD_MS),
            (Group::Disks, fields::DISKSTAT_PERIOD_MS),
            (Group::Pressure, fields::PSI_PERIOD_MS),
            (Group::Frequencies, fields::CPUFREQ_PERIOD_MS),
            (Group::Devices, fields::DEVFREQ_PERIOD_MS),
            (Group::Temperatures, fields::THERMAL_PERIOD_MS),
            (Group::FreeMemory, fields::BUDDYINFO_PERIOD_MS),
            (Group::Idle, fields::CPUIDLE_PERIOD_MS),
            (Group::Graphics, fields::GPUFREQ_PERIOD_MS),
            (Group::Slabs, fields::SLAB_PERIOD_MS),
        ];
        let counters = [
            (Group::Memory, fields::MEMINFO_COUNTERS),
            (Group::Events, fields::VMSTAT_COUNTERS),
            (Group::Stat, fields::STAT_COUNTERS),
        ];
        let periods = groups.into_iter().filter_map(|(group, field)| Some((group, period(config, field)?)));
        let only = counters.into_iter().map(|(group, field)| (group, numbers(config, field)));
        Self { periods: periods.collect(), only: only.filter(|(_, counters)| !counters.is_empty()).collect() }
    }
}

fn period(config: &[u8], field: u32) -> Option<Duration> {
    let period = number(config, field).filter(|period| *period > 0)?;
    Some(Duration::from_millis(period).max(LEAST))
}

/// A repeated number, packed or not.
fn numbers(config: &[u8], of: u32) -> Vec<u64> {
    let mut all = Vec::new();
    for field in Fields::of(config).filter(|field| field.number == of) {
        match field.value {
            FieldValue::Number(number) => all.push(number),
            FieldValue::Bytes(packed) => {
                let (mut number, mut shift) = (0_u64, 0_u32);
                for byte in packed {
                    number |= u64::from(byte & 0x7F).checked_shl(shift).unwrap_or(0);
                    shift = shift.saturating_add(7);
                    if byte & 0x80 == 0 {
                        all.push(number);
                        (number, shift) = (0, 0);
                    }
                }
            }
            FieldValue::Fixed(_) => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracebuf::proto::Sink;

    fn config(field: u32, fill: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let (mut inner, mut config) = (Vec::new(), Vec::new());
        fill(&mut inner);
        let Ok(()) = config.bytes(field, &inner);
        config
    }

    #[test]
    fn what_names_no_event_never_becomes_part_of_a_path_and_what_is_not_done_is_told() {
        let config = config(data_source_config::FTRACE_CONFIG, |config| {
            for event in ["sched/sched_switch", "irq:*", "print", "../../../etc/x", "a/b/c", "", "sched/../x"]
            {
                let Ok(()) = config.string(ftrace_config::FTRACE_EVENTS, event);
            }
            for category in ["idle", "view", "mmc"] {
                let Ok(()) = config.string(ftrace_config::ATRACE_CATEGORIES, category);
            }
            let Ok(()) = config.string(3, "app");
            let Ok(()) = config.string(3, "other");
            let Ok(()) = config.varint(15, 0);
            let Ok(()) = config.varint(ftrace_config::DRAIN_PERIOD_MS, 250);
            let Ok(()) = config.varint(ftrace_config::DRAIN_BUFFER_PERCENT, 101);
        });
        let wanted = WantedEvents::of(&config, [64, 4096]);
        let refused = ["../../../etc/x", "a/b/c", "", "sched/../x"].map(|event| {
            let event = event.replacen(':', "/", 1);
            format!("the event \"{event}\"")
        });
        let others = ["atrace_apps", "the category \"view\""].map(str::to_owned);
        assert_eq!(wanted.without, [&refused[..], &others].concat());
        let told = format!("{:?}", wanted.options);
        assert!(told.contains(r#"["sched/sched_switch", "irq/*", "print"]"#), "{told}");
        assert!(told.contains(r#"if_there: ["power/cpu_idle", "mmc/*"]"#), "{told}");
        assert!(told.contains("buffer_kib: 64") && told.contains("250ms"), "{told}");
        assert!(told.contains("is_verbose: false") && told.contains("symbols: false"), "{told}");
        assert!(told.contains("watermark: 50") && told.contains("settings: []"), "{told}");
        let why = "linux.ftrace does without the event \\\"../../../etc/x\\\", ";
        assert!(told.contains(why) && told.contains("atrace_apps"), "the trace says so too: {told}");
    }

    #[test]
    fn threads_processors_and_options_are_set_and_no_option_leads_out_of_its_folder() {
        let config = config(data_source_config::FTRACE_CONFIG, |config| {
            for (name, state) in [("event-fork", 1), ("../x", 1), ("", 2), ("irq-info", 2), ("bin", 3)] {
                let mut option = Vec::new();
                let Ok(()) = option.string(tracefs_option::NAME, name);
                let Ok(()) = option.varint(tracefs_option::STATE, state);
                let Ok(()) = config.bytes(ftrace_config::TRACEFS_OPTIONS, &option);
            }
            let Ok(()) = config.varint(ftrace_config::TIDS_TO_TRACE, 7);
            let Ok(()) = config.varint(ftrace_config::TIDS_TO_TRACE, 9);
            let Ok(()) = config.string(ftrace_config::TRACING_CPUMASK, "f,ff");
            let Ok(()) = config.varint(ftrace_config::DRAIN_BUFFER_PERCENT, 80);
            let Ok(()) = config.varint(ftrace_config::BUFFER_SIZE_KB, 1 << 40);
        });
        assert!(WantedEvents::chooses_threads(&config));
        let wanted = WantedEvents::of(&config, [64, 4096]);
        let refused = ["../x", "", "bin"].map(|name| format!("the option \"{name}\""));
        let large = "more than 4096 KiB of buffer for each processor".to_owned();
        assert_eq!(wanted.without, [&[large][..], &refused].concat());
        let told = format!("{:?}", wanted.options);
        assert!(told.contains("buffer_kib: 4096"), "{told}");
        let settings = r#"[("options/event-fork", "1"), ("options/irq-info", "0"), ("set_event_pid", "7 9"), ("tracing_cpumask", "f,ff")]"#;
        assert!(told.contains(settings) && told.contains("watermark: 80"), "{told}");
    }

    #[test]
    fn statistics_have_their_periods_and_counters_packed_or_not() {
        let config = config(data_source_config::SYS_STATS_CONFIG, |config| {
            let Ok(()) = config.varint(sys_stats_config::MEMINFO_PERIOD_MS, 1);
            let Ok(()) = config.varint(sys_stats_config::STAT_PERIOD_MS, 0);
            let Ok(()) = config.varint(sys_stats_config::PSI_PERIOD_MS, 1000);
            let Ok(()) = config.varint(sys_stats_config::SLAB_PERIOD_MS, 500);
            let Ok(()) = config.varint(sys_stats_config::MEMINFO_COUNTERS, 2);
            let Ok(()) = config.bytes(sys_stats_config::MEMINFO_COUNTERS, &[3, 0x81, 1]);
        });
        let wanted = WantedStats::of(&config);
        let [half, second] = [500, 1000].map(Duration::from_millis);
        assert_eq!(wanted.periods, [(Group::Memory, LEAST), (Group::Pressure, second), (Group::Slabs, half)]);
        assert_eq!(wanted.only, [(Group::Memory, vec![2, 3, 129])]);
        assert_eq!(WantedStats::of(b"\xFF\xFF"), WantedStats::default(), "of a malformed one");
    }
}
