//! The kernel's events by the names of sets: what `--events sched,irq` stands for.

/// A set, and its events.
const SETS: [(&str, &[&str]); 8] = [
    (
        "sched",
        &[
            "sched/sched_switch",
            "sched/sched_waking",
            "sched/sched_process_exit",
            "sched/sched_process_free",
            "task/task_newtask",
            "task/task_rename",
        ],
    ),
    (
        "irq",
        &[
            "irq/irq_handler_entry",
            "irq/irq_handler_exit",
            "irq/softirq_entry",
            "irq/softirq_exit",
            "irq_vectors/local_timer_entry",
            "irq_vectors/local_timer_exit",
        ],
    ),
    ("freq", &["power/cpu_frequency", "power/cpu_frequency_limits", "power/suspend_resume"]),
    ("idle", &["power/cpu_idle"]),
    ("syscalls", &["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"]),
    (
        "block",
        &["block/block_io_start", "block/block_io_done", "block/block_rq_issue", "block/block_rq_complete"],
    ),
    (
        "net",
        &["net/netif_receive_skb", "net/net_dev_xmit", "sock/inet_sock_set_state", "tcp/tcp_retransmit_skb"],
    ),
    (
        "mem",
        &[
            "kmem/rss_stat",
            "oom/mark_victim",
            "oom/oom_score_adj_update",
            "vmscan/mm_vmscan_direct_reclaim_begin",
            "vmscan/mm_vmscan_direct_reclaim_end",
        ],
    ),
];

/// The sets that are recorded unless others are asked for: what runs, interrupts, and the processors' frequency and
/// idleness.
pub const DEFAULT_SETS: [&str; 4] = ["sched", "irq", "freq", "idle"];

/// The events that this stands for, each as `group/name` or `group/*`: a set, or what is such a name already. `syscalls/*`
/// is the set `syscalls`: two events that have every call, with its arguments, in place of two for each call.
///
/// ```
/// use tracebuf_machine::ftrace::expanded;
///
/// assert!(expanded("sched")?.contains(&"sched/sched_switch".to_owned()));
/// assert_eq!(expanded("ext4/*")?, ["ext4/*"]);
/// assert_eq!(expanded("ext4:ext4_sync_file_enter")?, ["ext4/ext4_sync_file_enter"]);
/// assert!(expanded("shed").is_err());
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// It is neither a set nor of that form: a text that says which sets there are.
pub fn expanded(events: &str) -> Result<Vec<String>, String> {
    let set = if events == "syscalls/*" { "syscalls" } else { events };
    if let Some((_, events)) = SETS.iter().find(|(name, _)| *name == set) {
        return Ok(events.iter().map(|event| (*event).to_owned()).collect());
    }
    // As the kernel writes it in places.
    let event = events.replacen(':', "/", 1);
    match event.contains('/') && is_event(&event) {
        true => Ok(vec![event]),
        false => {
            let sets: Vec<_> = SETS.iter().map(|(name, _)| *name).collect();
            Err(format!("'{events}' is no set ({}), and no event GROUP/NAME or GROUP/*", sets.join(", ")))
        }
    }
}

/// Whether this can name events: as `group/name`, `group/*` or `name`. Nothing else becomes part of a path.
pub(crate) fn is_event(event: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
    };
    match event.split_once('/') {
        Some((group, name)) => is_name(group) && (name == "*" || is_name(name)),
        None => is_name(event),
    }
}

/// Groups whose events tell what the machine does, whoever runs: they are recorded of our own threads too, or something
/// would be missing between those of others.
const OF_THE_MACHINE: [&str; 11] =
    ["sched", "task", "irq", "irq_vectors", "power", "timer", "workqueue", "ipi", "oom", "thermal", "ftrace"];

/// Whether an event, when our own threads cause it, is to be left out.
#[cfg_attr(
    not(any(target_os = "linux", target_os = "android")),
    allow(dead_code, reason = "only a kernel is filtered")
)]
pub(crate) fn is_of_who_runs(event: &str) -> bool {
    let group = event.split('/').next().unwrap_or_default();
    !OF_THE_MACHINE.contains(&group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_no_event_is_refused_and_never_leaves_the_folder_of_events() {
        for wrong in [
            "",
            "sched_switch",
            "*",
            "*/*",
            "../x",
            "sched/",
            "/x",
            "sched/../x",
            "a/b/c",
            "sched/sw*",
            "a b/c",
        ] {
            let error = expanded(wrong).expect_err(wrong);
            assert!(error.contains("sched, irq"), "{error}");
        }
        assert_eq!(expanded("syscalls/*"), expanded("syscalls"));
        assert_eq!(expanded("syscalls/sys_enter_openat").expect("an event"), ["syscalls/sys_enter_openat"]);
        assert!(DEFAULT_SETS.iter().all(|set| expanded(set).is_ok()));
    }

    #[test]
    fn of_our_own_threads_what_the_machine_does_stays() {
        let ours = ["raw_syscalls/sys_enter", "ext4/*", "block/block_io_start", "kmem/rss_stat"];
        assert!(ours.iter().all(|event| is_of_who_runs(event)));
        assert!(
            DEFAULT_SETS.iter().flat_map(|set| expanded(set)).flatten().all(|event| !is_of_who_runs(&event))
        );
    }
}
