//! The machine's own data sources in sessions of the service.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::time::Duration;

use tracebuf::proto::fields::config::{
    buffer_config, ftrace_config, incremental_state_config, process_stats_config, sys_stats_config,
    system_info_config, trace_config, trace_config_data_source,
};
use tracebuf::proto::fields::ipc::data_source_config;
use tracebuf::proto::fields::{
    cpu_info, ftrace_stats, process_stats, process_stats_process, process_tree, process_tree_process,
    sys_stats, sys_stats_value, trace_packet,
};
use tracebuf::proto::reader::{message, messages, number};
use tracebuf_service::wire::ProtoBuilder;

use super::{Consumer, Service};
use crate::text;
use crate::trace::Trace;

/// A data source with its own configuration in this field.
fn source(name: &str, field: u32, config: ProtoBuilder) -> ProtoBuilder {
    let config = ProtoBuilder::new().bytes(data_source_config::NAME, name.as_bytes()).message(field, &config);
    ProtoBuilder::new().message(trace_config_data_source::CONFIG, &config)
}

fn statistics(period: u32) -> ProtoBuilder {
    let config = ProtoBuilder::new().number(sys_stats_config::MEMINFO_PERIOD_MS, period);
    let config = config.number(sys_stats_config::MEMINFO_COUNTERS, 1_u32); // MemTotal
    source("linux.sys_stats", data_source_config::SYS_STATS_CONFIG, config)
}

fn processes() -> ProtoBuilder {
    let config = ProtoBuilder::new().number(process_stats_config::SCAN_ALL_PROCESSES_ON_START, true);
    let config = config.number(process_stats_config::RECORD_THREAD_NAMES, true);
    let config = config.number(process_stats_config::PROC_STATS_POLL_MS, 50_u32);
    source("linux.process_stats", data_source_config::PROCESS_STATS_CONFIG, config)
}

fn system_info() -> ProtoBuilder {
    let config = ProtoBuilder::new().number(system_info_config::IRQ_NAMES, true);
    source("linux.system_info", data_source_config::SYSTEM_INFO_CONFIG, config)
}

fn events(names: &[&str]) -> ProtoBuilder {
    let config = ProtoBuilder::new()
        .each(names, |config, name| config.bytes(ftrace_config::FTRACE_EVENTS, name.as_bytes()));
    source("linux.ftrace", data_source_config::FTRACE_CONFIG, config)
}

fn config(sources: &[ProtoBuilder]) -> ProtoBuilder {
    let buffer = ProtoBuilder::new().number(buffer_config::SIZE_KB, 16_384_u32);
    let config = ProtoBuilder::new().message(trace_config::BUFFERS, &buffer);
    config.each(sources, |config, source| config.message(trace_config::DATA_SOURCES, source))
}

/// Ends a session, and reads what it has.
fn ended(consumer: &mut Consumer, enabled: u64, path: &Path) -> Trace {
    consumer.simple("Flush");
    consumer.disable(enabled);
    consumer.read(path)
}

fn all_of(trace: &Trace, field: u32) -> Vec<&[u8]> {
    let found = trace.packets().filter_map(|packet| message(packet, field));
    found.filter(|found| !found.is_empty()).collect()
}

/// The values of `MemTotal`.
fn memory(trace: &Trace) -> Vec<u64> {
    let stats = all_of(trace, trace_packet::SYS_STATS).into_iter();
    let values = stats.flat_map(|stats| messages(stats, sys_stats::MEMINFO));
    let known = values.filter(|value| number(value, sys_stats_value::KEY) == Some(1));
    known.filter_map(|value| number(value, sys_stats_value::VALUE)).collect()
}

/// Command lines, by process.
fn command_lines(trace: &Trace) -> BTreeMap<u64, Vec<String>> {
    let trees = all_of(trace, trace_packet::PROCESS_TREE).into_iter();
    let told = trees.flat_map(|tree| messages(tree, process_tree::PROCESSES));
    let lines = told.map(|process| {
        let words = messages(process, process_tree_process::CMDLINE);
        let words = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        (number(process, process_tree_process::PID).expect("a number"), words)
    });
    lines.collect()
}

#[test]
fn several_sessions_each_have_what_they_want_of_the_machine_until_their_end() {
    let service = Service::start("serve-machine");
    let mut consumers = [service.consumer(), service.consumer()];
    let wanted = [config(&[statistics(20)]), config(&[statistics(1000), processes(), system_info()])];
    let enabled = [0, 1].map(|at: usize| consumers[at].enable(&wanted[at], None));
    std::thread::sleep(Duration::from_millis(500));
    // Some that come when it records.
    let mut sleeper = std::process::Command::new("sleep").arg("1234").spawn().expect("a command");
    std::thread::sleep(Duration::from_millis(300));
    let [first, second] = [0, 1].map(|at: usize| {
        let path = service.folder.join(format!("{at}.pftrace"));
        ended(&mut consumers[at], enabled[at], &path)
    });
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    let total = std::fs::read_to_string("/proc/meminfo").expect("a file");
    let total = total.lines().find_map(|line| line.strip_prefix("MemTotal:")).expect("a line");
    let total: u64 = total.trim().trim_end_matches(" kB").parse().expect("a number");
    let [often, seldom] = [&first, &second].map(memory);
    assert!(often.iter().chain(&seldom).all(|value| *value == total));
    // On a busy machine both have fewer.
    assert!(!seldom.is_empty() && often.len() > 3 * seldom.len(), "{} {}", often.len(), seldom.len());
    assert!(command_lines(&first).is_empty(), "it wants none");
    let lines = command_lines(&second);
    let own: Vec<_> = std::env::args().collect();
    assert_eq!(lines.get(&std::process::id().into()), Some(&own));
    assert_eq!(lines.get(&sleeper.id().into()), Some(&vec!["sleep".to_owned(), "1234".to_owned()]));
    let used = all_of(&second, trace_packet::PROCESS_STATS).into_iter();
    let mut used = used.flat_map(|stats| messages(stats, process_stats::PROCESSES));
    let own = used.find(|one| number(one, process_stats_process::PID) == Some(std::process::id().into()));
    let size = own.and_then(|own| number(own, process_stats_process::VM_RSS_KB)).expect("it is told");
    assert!((1_000..total).contains(&size), "{size}");
    assert!(all_of(&first, trace_packet::CPU_INFO).is_empty(), "it wants none");
    let [info] = all_of(&second, trace_packet::CPU_INFO)[..] else { panic!("it is told once") };
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").expect("a file");
    let mut numbers = cpuinfo.lines().filter_map(|line| line.strip_prefix("processor")?.split(':').nth(1));
    let last: usize = numbers.next_back().expect("one").trim().parse().expect("a number");
    assert_eq!(messages(info, cpu_info::CPUS).count(), last + 1);
    for trace in [&first, &second] {
        trace.assert_ends_with_stats();
        assert_eq!(trace.losses(), 0);
        let uid = u64::from(rustix::process::geteuid().as_raw());
        assert!(all_of(trace, trace_packet::SYS_STATS).len() == memory(trace).len());
        assert!(trace.all_have(trace_packet::TRUSTED_UID, uid));
    }
}

#[test]
fn names_are_told_again_in_the_session_that_clears_state_and_in_no_other() {
    let service = Service::start("serve-clear");
    let mut consumers = [service.consumer(), service.consumer()];
    let clear = ProtoBuilder::new().number(incremental_state_config::CLEAR_PERIOD_MS, 100_u32);
    let clears = config(&[processes()]).message(trace_config::INCREMENTAL_STATE_CONFIG, &clear);
    let wanted = [clears, config(&[processes()])];
    let enabled = [0, 1].map(|at: usize| consumers[at].enable(&wanted[at], None));
    std::thread::sleep(Duration::from_secs(1));
    let told = [0, 1].map(|at: usize| {
        let path = service.folder.join(format!("{at}.pftrace"));
        let trace = ended(&mut consumers[at], enabled[at], &path);
        let trees = all_of(&trace, trace_packet::PROCESS_TREE).into_iter();
        let told = trees.flat_map(|tree| messages(tree, process_tree::PROCESSES));
        let own = u64::from(std::process::id());
        told.filter(|one| number(one, process_tree_process::PID) == Some(own)).count()
    });
    assert!(told[0] > 1 && told[1] == 1, "{told:?}");
}

/// A service of a user who may not have the kernel's events; this one, if that is so.
fn unprivileged(test: &str) -> Service {
    if !rustix::process::geteuid().is_root() {
        return Service::start(test);
    }
    // The command where that user can have it, too.
    let folder = std::env::temp_dir().join(format!("tracebuf-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).expect("it is ours");
    let command = folder.join("tracebuf");
    std::fs::copy(env!("CARGO_BIN_EXE_tracebuf"), &command).expect("room");
    let mut command = std::process::Command::new(command);
    command
        .arg("serve")
        .uid(65_534)
        .gid(65_534)
        .env("PERFETTO_PRODUCER_SOCK_NAME", folder.join("p"))
        .env("PERFETTO_CONSUMER_SOCK_NAME", folder.join("c"))
        .stderr(std::process::Stdio::null());
    Service { child: command.spawn().expect("it runs"), folder }.listening()
}

#[test]
fn without_the_right_to_the_kernels_events_a_session_has_the_rest_and_its_trace_says_why() {
    let service = unprivileged("serve-no-events");
    let mut consumer = service.consumer();
    let enabled = consumer.enable(&config(&[events(&["sched/sched_switch"]), statistics(20)]), None);
    std::thread::sleep(Duration::from_millis(200));
    let trace = ended(&mut consumer, enabled, &service.folder.join("trace"));
    assert!(!memory(&trace).is_empty());
    let told = all_of(&trace, trace_packet::FTRACE_STATS);
    let why = message(told[0], ftrace_stats::ATRACE_ERRORS).expect("well-formed");
    assert!(text(why).starts_with("linux.ftrace is not recorded"), "{}", text(why));
    let folder = service.folder.clone();
    drop(service);
    let _ = std::fs::remove_dir_all(folder);
}

#[test]
fn a_service_without_the_machine_offers_nothing_of_it_and_called_traced_it_never_does() {
    let folder = crate::trace::folder("serve-no-machine");
    let traced = folder.join("traced");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tracebuf"), &traced).expect("a link");
    let with_option = crate::tracebuf(&["serve", "--no-machine"]);
    let commands = [with_option, std::process::Command::new(&traced), crate::tracebuf(&["serve"])];
    let offered = commands.map(|mut command| {
        command
            .env("PERFETTO_PRODUCER_SOCK_NAME", folder.join("p"))
            .env("PERFETTO_CONSUMER_SOCK_NAME", folder.join("c"))
            .stderr(std::process::Stdio::null());
        let mut service =
            Service { child: command.spawn().expect("it runs"), folder: folder.clone() }.listening();
        let mut consumer = service.consumer();
        let mut is_offered = || {
            let request = consumer.call("QueryServiceState", &ProtoBuilder::new(), None);
            consumer.answers(request).concat().windows(15).any(|bytes| bytes == b"linux.sys_stats")
        };
        // Where it is not, that is so after as long as it takes where it is.
        let is_offered = crate::wait_until(3, &mut is_offered);
        service.kill();
        is_offered
    });
    assert_eq!(offered, [false, false, true]);
}

/// As root: `mount -t tracefs nodev /sys/kernel/tracing`, then
/// `cargo test -p tracebuf-cli --test commands of_a_kernel -- --ignored --test-threads 1`.
mod of_a_kernel {
    use std::collections::BTreeSet;

    use tracebuf::proto::fields::{compact_sched, ftrace_event, ftrace_event_bundle, process_tree_thread};
    use tracebuf::proto::reader::{FieldValue, Fields};

    use super::*;

    const NAME: &str = "runs-and-sleeps";

    fn instances() -> BTreeSet<String> {
        let entries = std::fs::read_dir("/sys/kernel/tracing/instances").expect("a tracefs").flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Whether a name is in the switches' lists.
    fn has_run(trace: &Trace, name: &str) -> bool {
        all_of(trace, trace_packet::FTRACE_EVENTS).into_iter().any(|bundle| {
            let lists = message(bundle, ftrace_event_bundle::COMPACT_SCHED).expect("well-formed");
            messages(lists, compact_sched::INTERN_TABLE).any(|known| text(known) == name)
        })
    }

    /// What ran, by number: the next ones of all switches, in lists or not.
    fn ran(trace: &Trace) -> BTreeSet<u64> {
        const SWITCH: u32 = 4; // FtraceEvent.sched_switch
        const NEXT_PID: u32 = 6;
        let mut ran = BTreeSet::new();
        for bundle in all_of(trace, trace_packet::FTRACE_EVENTS) {
            for event in messages(bundle, ftrace_event_bundle::EVENT) {
                assert!(number(event, ftrace_event::TIMESTAMP).is_some());
                ran.extend(messages(event, SWITCH).filter_map(|switch| number(switch, NEXT_PID)));
            }
            let lists = message(bundle, ftrace_event_bundle::COMPACT_SCHED).expect("well-formed");
            for packed in messages(lists, compact_sched::SWITCH_NEXT_PID) {
                // Each number as a field of its own, to be read as one.
                let mut rest = packed;
                while !rest.is_empty() {
                    let len = rest.iter().position(|byte| byte & 0x80 == 0).expect("whole") + 1;
                    let (one, after) = rest.split_at(len);
                    let field = [&[8], one].concat();
                    let value = Fields::of(&field).next().expect("a field").value;
                    if let FieldValue::Number(pid) = value {
                        ran.insert(pid);
                    }
                    rest = after;
                }
            }
        }
        ran
    }

    #[test]
    #[ignore = "needs root and a tracefs"]
    fn two_sessions_have_switches_of_their_own_with_names_and_no_instance_stays() {
        let service = Service::start("serve-kernel");
        let before = instances();
        let mut consumers = [service.consumer(), service.consumer()];
        let names = ["sched_switch", "task/*", "no/such", "../../../tmp/x"];
        let wanted = config(&[events(&names), processes()]);
        let enabled = [0, 1].map(|at: usize| consumers[at].enable(&wanted, None));
        assert!(crate::wait_until(30, || instances().len() == before.len() + 2), "each has its own");
        // A thread that runs and sleeps, and is called as no other.
        let has_ended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let ends = has_ended.clone();
        let thread = std::thread::Builder::new().name(NAME.into()).spawn(move || {
            while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
            rustix::thread::gettid().as_raw_nonzero().get() as u64
        });
        // What a set of buffers records begins a moment after it is there.
        std::thread::sleep(Duration::from_secs(1));
        let traces = [0, 1].map(|at: usize| {
            let path = service.folder.join(format!("kernel{at}.pftrace"));
            ended(&mut consumers[at], enabled[at], &path)
        });
        has_ended.store(true, std::sync::atomic::Ordering::Relaxed);
        let thread = thread.expect("a thread").join().expect("no panic");
        for trace in &traces {
            assert!(has_run(trace, NAME));
            let trees = all_of(trace, trace_packet::PROCESS_TREE).into_iter();
            let mut threads = trees.flat_map(|tree| messages(tree, process_tree::THREADS));
            let named = threads.find(|one| number(one, process_tree_thread::TID) == Some(thread));
            // In a pid namespace of its own the kernel's events have other numbers than processes.
            if tracebuf_std::process::pid_namespace() == 0 {
                assert!(ran(trace).contains(&thread), "it has run");
                let name = message(named.expect("it is named"), process_tree_thread::NAME);
                assert_eq!(text(name.expect("well-formed")), NAME);
            } else {
                assert!(named.is_none(), "under a number that is another thread's");
            }
            let stats = all_of(trace, trace_packet::FTRACE_STATS);
            let unknown: Vec<_> = messages(stats[0], ftrace_stats::UNKNOWN_FTRACE_EVENTS).map(text).collect();
            assert_eq!(unknown, ["no/such"]);
            assert!(stats.len() >= 2 && trace.losses() == 0);
        }
        assert_eq!(instances(), before);
    }

    #[test]
    #[ignore = "needs root and a tracefs"]
    fn categories_are_the_kernels_events_that_there_are_and_what_is_none_is_told() {
        let service = Service::start("serve-categories");
        let mut consumer = service.consumer();
        let categories = ["sched", "freq", "idle", "gfx", "view"];
        let wanted = ProtoBuilder::new()
            .each(categories, |config, name| config.bytes(ftrace_config::ATRACE_CATEGORIES, name.as_bytes()));
        let wanted = config(&[source("linux.ftrace", data_source_config::FTRACE_CONFIG, wanted)]);
        let before = instances();
        let enabled = consumer.enable(&wanted, None);
        assert!(crate::wait_until(30, || instances() != before));
        std::thread::sleep(Duration::from_secs(1));
        let trace = ended(&mut consumer, enabled, &service.folder.join("trace"));
        assert!(!ran(&trace).is_empty(), "sched stands for switches");
        let stats = all_of(&trace, trace_packet::FTRACE_STATS);
        assert_eq!(messages(stats[0], ftrace_stats::UNKNOWN_FTRACE_EVENTS).count(), 0);
        let told = message(stats[0], ftrace_stats::ATRACE_ERRORS).map(text);
        assert_eq!(told, Some("linux.ftrace does without the category \"view\""));
    }
}
