//! Categories of the kernel's events, by the names that Android's atrace and the command `perfetto` have for them.

/// What each stands for, as `group/name` or `group/*`. Many are of kernels for phones: no kernel has them all.
const CATEGORIES: [(&str, &[&str]); 23] = [
    (
        "binder_driver",
        &[
            "binder/binder_transaction",
            "binder/binder_transaction_received",
            "binder/binder_transaction_alloc_buf",
            "binder/binder_set_priority",
        ],
    ),
    ("binder_lock", &["binder/binder_lock", "binder/binder_locked", "binder/binder_unlock"]),
    ("camera", &["lwis/*"]),
    (
        "disk",
        &[
            "f2fs/f2fs_sync_file_enter",
            "f2fs/f2fs_sync_file_exit",
            "f2fs/f2fs_write_begin",
            "f2fs/f2fs_write_end",
            "f2fs/f2fs_iostat",
            "f2fs/f2fs_iostat_latency",
            "ext4/ext4_da_write_begin",
            "ext4/ext4_da_write_end",
            "ext4/ext4_sync_file_enter",
            "ext4/ext4_sync_file_exit",
            "block/block_bio_queue",
            "block/block_bio_complete",
            "ufs/ufshcd_command",
        ],
    ),
    (
        "freq",
        &[
            "power/cpu_frequency",
            "power/cpu_frequency_limits",
            "power/gpu_frequency",
            "power/clock_set_rate",
            "power/clock_disable",
            "power/clock_enable",
            "power/suspend_resume",
            "clk/clk_set_rate",
            "clk/clk_disable",
            "clk/clk_enable",
            "cpuhp/cpuhp_enter",
            "cpuhp/cpuhp_exit",
            "cpuhp/cpuhp_pause",
            "msm_bus/*",
        ],
    ),
    ("gfx", &["mdss/*", "mali/*", "sde/*", "dpu/*", "g2d/*", "panel/*"]),
    ("i2c", &["i2c/*"]),
    ("idle", &["power/cpu_idle"]),
    ("ion", &["kmem/ion_alloc_buffer_start"]),
    ("irq", &["irq/*", "ipi/*"]),
    ("irqoff", &["preemptirq/irq_enable", "preemptirq/irq_disable"]),
    ("load", &["cpufreq_interactive/*"]),
    ("membus", &["memory_bus/*"]),
    (
        "memory",
        &[
            "kmem/rss_stat",
            "kmem/ion_heap_grow",
            "kmem/ion_heap_shrink",
            "ion/ion_stat",
            "mm_event/mm_event_record",
            "dmabuf_heap/dma_heap_stat",
            "gpu_mem/gpu_mem_total",
        ],
    ),
    (
        "memreclaim",
        &[
            "vmscan/mm_vmscan_direct_reclaim_begin",
            "vmscan/mm_vmscan_direct_reclaim_end",
            "vmscan/mm_vmscan_memcg_reclaim_begin",
            "vmscan/mm_vmscan_memcg_reclaim_end",
            "vmscan/mm_vmscan_kswapd_wake",
            "vmscan/mm_vmscan_kswapd_sleep",
            "lowmemorykiller/*",
        ],
    ),
    ("mmc", &["mmc/*"]),
    ("pagecache", &["filemap/*"]),
    ("preemptoff", &["preemptirq/preempt_enable", "preemptirq/preempt_disable"]),
    ("regulators", &["regulator/*"]),
    (
        "sched",
        &[
            "sched/sched_switch",
            "sched/sched_waking",
            "sched/sched_blocked_reason",
            "sched/sched_cpu_hotplug",
            "sched/sched_pi_setprio",
            "sched/sched_process_exit",
            "cgroup/*",
            "oom/oom_score_adj_update",
            "task/task_rename",
            "task/task_newtask",
            "systrace/0",
            "scm/*",
        ],
    ),
    ("sync", &["sync/*", "fence/*", "dma_fence/*"]),
    ("thermal", &["thermal/thermal_temperature", "thermal/cdev_update"]),
    ("workq", &["workqueue/*"]),
];

/// The events of a category; `None` if it is not one of the kernel's.
pub(super) fn events_of(category: &str) -> Option<&'static [&'static str]> {
    CATEGORIES.iter().find(|(name, _)| *name == category).map(|(_, events)| *events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftrace::is_event;

    #[test]
    fn each_category_is_there_once_and_has_events_and_nothing_else() {
        assert!(CATEGORIES.is_sorted_by(|(one, _), (other, _)| one < other));
        for (name, events) in CATEGORIES {
            assert_eq!(events_of(name), Some(events));
            assert!(
                !events.is_empty() && events.iter().all(|event| is_event(event) && event.contains('/')),
                "{name}"
            );
        }
        assert_eq!(events_of("view"), None, "of programs");
    }
}
