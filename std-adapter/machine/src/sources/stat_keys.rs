//! Names of statistics in `/proc`, and Perfetto's numbers for them.

/// `/proc/meminfo`, with numbers of `MeminfoCounters`; in the order of names.
pub(super) const MEMINFO: [(&str, u64); 33] = [
    ("Active", 7),
    ("Active(anon)", 9),
    ("Active(file)", 11),
    ("AnonPages", 19),
    ("Buffers", 4),
    ("Cached", 5),
    ("CmaFree", 33),
    ("CmaTotal", 32),
    ("CommitLimit", 27),
    ("Committed_AS", 28),
    ("Dirty", 17),
    ("Inactive", 8),
    ("Inactive(anon)", 10),
    ("Inactive(file)", 12),
    ("KernelStack", 25),
    ("Mapped", 20),
    ("MemAvailable", 3),
    ("MemFree", 2),
    ("MemTotal", 1),
    ("Mlocked", 14),
    ("PageTables", 26),
    ("SReclaimable", 23),
    ("SUnreclaim", 24),
    ("Shmem", 21),
    ("Slab", 22),
    ("SwapCached", 6),
    ("SwapFree", 16),
    ("SwapTotal", 15),
    ("Unevictable", 13),
    ("VmallocChunk", 31),
    ("VmallocTotal", 29),
    ("VmallocUsed", 30),
    ("Writeback", 18),
];

/// `/proc/vmstat`, with numbers of `VmstatCounters`: what happened. Sizes are in `/proc/meminfo` too. In the order of names.
pub(super) const VMSTAT: [(&str, u64); 30] = [
    ("allocstall_dma32", 130),
    ("allocstall_movable", 97),
    ("allocstall_normal", 98),
    ("compact_daemon_wake", 85),
    ("compact_fail", 83),
    ("compact_stall", 82),
    ("compact_success", 84),
    ("oom_kill", 115),
    ("pageoutrun", 72),
    ("pgactivate", 47),
    ("pgdeactivate", 48),
    ("pgfault", 49),
    ("pgfree", 46),
    ("pgmajfault", 50),
    ("pgmigrate_success", 77),
    ("pgpgin", 38),
    ("pgpgout", 39),
    ("pgrefill", 118),
    ("pgrotated", 74),
    ("pgscan_direct", 119),
    ("pgscan_kswapd", 120),
    ("pgsteal_direct", 124),
    ("pgsteal_kswapd", 125),
    ("pswpin", 41),
    ("pswpout", 42),
    ("slabs_scanned", 68),
    ("thp_collapse_alloc", 155),
    ("thp_fault_alloc", 158),
    ("workingset_refault_anon", 185),
    ("workingset_refault_file", 186),
];

/// The number of a name.
pub(super) fn key(table: &[(&str, u64)], name: &str) -> Option<u64> {
    let at = table.binary_search_by_key(&name, |(known, _)| known).ok()?;
    table.get(at).map(|(_, key)| *key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_found_and_has_a_number_of_its_own() {
        for table in [&MEMINFO[..], &VMSTAT] {
            assert!(table.iter().all(|(name, number)| key(table, name) == Some(*number)));
            let numbers: std::collections::BTreeSet<_> = table.iter().map(|(_, number)| number).collect();
            assert_eq!(numbers.len(), table.len());
        }
        assert_eq!(
            (key(&MEMINFO, "MemTotal"), key(&MEMINFO, "Mem"), key(&VMSTAT, "")),
            (Some(1), None, None)
        );
    }
}
