//! A machine: what it is, and statistics of it and of its processes.

/// `SystemInfo`.
pub mod system_info {
    /// Message: `Utsname`.
    pub const UTSNAME: u32 = 1;
    /// Int: ticks per second of the kernel's statistics.
    pub const HZ: u32 = 3;
    /// String: what recorded.
    pub const TRACING_SERVICE_VERSION: u32 = 4;
    /// Varint: bytes of a page of memory.
    pub const PAGE_SIZE: u32 = 6;
    /// Int: how far local time is ahead of UTC.
    pub const TIMEZONE_OFF_MINS: u32 = 7;
    /// Varint: processors.
    pub const NUM_CPUS: u32 = 8;
    /// Varint: bytes of memory.
    pub const SYSTEM_RAM_BYTES: u32 = 16;
}

/// `Utsname`: the kernel.
pub mod utsname {
    /// String: its name.
    pub const SYSNAME: u32 = 1;
    /// String: when and how it was built.
    pub const VERSION: u32 = 2;
    /// String: its version.
    pub const RELEASE: u32 = 3;
    /// String: the kind of processor.
    pub const MACHINE: u32 = 4;
}

/// `ProcessStats`.
pub mod process_stats {
    /// Message: `ProcessStats.Process`, repeated.
    pub const PROCESSES: u32 = 1;
    /// Varint: nanoseconds, when all of them had been read.
    pub const COLLECTION_END_TIMESTAMP: u32 = 2;
}

/// `ProcessStats.Process`: sizes are in KiB.
pub mod process_stats_process {
    /// Int: its number.
    pub const PID: u32 = 1;
    /// Varint: the addresses that it has taken.
    pub const VM_SIZE_KB: u32 = 2;
    /// Varint: what is in memory.
    pub const VM_RSS_KB: u32 = 3;
    /// Varint: its own part of that.
    pub const RSS_ANON_KB: u32 = 4;
    /// Varint: the part that files have too.
    pub const RSS_FILE_KB: u32 = 5;
    /// Varint: the part that it shares.
    pub const RSS_SHMEM_KB: u32 = 6;
    /// Varint: what was swapped out.
    pub const VM_SWAP_KB: u32 = 7;
    /// Varint: what may not be swapped out.
    pub const VM_LOCKED_KB: u32 = 8;
    /// Varint: the most that was in memory.
    pub const VM_HWM_KB: u32 = 9;
    /// Int: how likely it is killed when memory runs out.
    pub const OOM_SCORE_ADJ: u32 = 10;
    /// Varint: nanoseconds of CPU time in its own code.
    pub const RUNTIME_USER_MODE: u32 = 21;
    /// Varint: nanoseconds of CPU time in the kernel.
    pub const RUNTIME_KERNEL_MODE: u32 = 22;
}

/// `SysStats`. Numbers count from the machine's start, unless they are sizes.
pub mod sys_stats {
    /// Message: `SysStats.MeminfoValue`, repeated.
    pub const MEMINFO: u32 = 1;
    /// Message: `SysStats.VmstatValue`, repeated.
    pub const VMSTAT: u32 = 2;
    /// Message: `SysStats.CpuTimes`, repeated.
    pub const CPU_STAT: u32 = 3;
    /// Varint: processes and threads that were made.
    pub const NUM_FORKS: u32 = 4;
    /// Varint: interrupts.
    pub const NUM_IRQ_TOTAL: u32 = 5;
    /// Message: `SysStats.InterruptCount`, repeated.
    pub const NUM_IRQ: u32 = 6;
    /// Varint: soft interrupts.
    pub const NUM_SOFTIRQ_TOTAL: u32 = 7;
    /// Message: `SysStats.InterruptCount`, repeated.
    pub const NUM_SOFTIRQ: u32 = 8;
    /// Varint: nanoseconds, when all of it had been read.
    pub const COLLECTION_END_TIMESTAMP: u32 = 9;
    /// Message: `SysStats.DevfreqValue`, repeated.
    pub const DEVFREQ: u32 = 10;
    /// Varint: a processor's frequency in kHz, repeated, in their order.
    pub const CPUFREQ_KHZ: u32 = 11;
    /// Message: `SysStats.BuddyInfo`, repeated.
    pub const BUDDY_INFO: u32 = 12;
    /// Message: `SysStats.DiskStat`, repeated.
    pub const DISK_STAT: u32 = 13;
    /// Message: `SysStats.PsiSample`, repeated.
    pub const PSI: u32 = 14;
    /// Message: `SysStats.ThermalZone`, repeated.
    pub const THERMAL_ZONE: u32 = 15;
    /// Message: `SysStats.CpuIdleState`, repeated.
    pub const CPUIDLE_STATE: u32 = 16;
    /// Varint: a graphics processor's frequency in MHz, repeated.
    pub const GPUFREQ_MHZ: u32 = 17;
    /// Message: `SysStats.SlabInfo`, repeated.
    pub const SLAB_INFO: u32 = 18;
}

/// `SysStats.MeminfoValue` and others of a number and its value.
pub mod sys_stats_value {
    /// Varint: which one, a number of an enumeration.
    pub const KEY: u32 = 1;
    /// Varint: its value.
    pub const VALUE: u32 = 2;
}

/// `SysStats.InterruptCount`.
pub mod interrupt_count {
    /// Int: the interrupt's number.
    pub const IRQ: u32 = 1;
    /// Varint: how often it came.
    pub const COUNT: u32 = 2;
}

/// `SysStats.DevfreqValue`.
pub mod devfreq_value {
    /// String: the device.
    pub const KEY: u32 = 1;
    /// Varint: its frequency in Hz.
    pub const VALUE: u32 = 2;
}

/// `SysStats.CpuTimes`: nanoseconds of a processor.
pub mod cpu_times {
    /// Varint: the processor.
    pub const CPU_ID: u32 = 1;
    /// Varint: in programs.
    pub const USER_NS: u32 = 2;
    /// Varint: in programs of low priority.
    pub const USER_NICE_NS: u32 = 3;
    /// Varint: in the kernel.
    pub const SYSTEM_MODE_NS: u32 = 4;
    /// Varint: idle.
    pub const IDLE_NS: u32 = 5;
    /// Varint: idle while something waited for a disk.
    pub const IO_WAIT_NS: u32 = 6;
    /// Varint: in interrupts.
    pub const IRQ_NS: u32 = 7;
    /// Varint: in soft interrupts.
    pub const SOFTIRQ_NS: u32 = 8;
    /// Varint: taken by other virtual machines.
    pub const STEAL_NS: u32 = 9;
}

/// `SysStats.DiskStat`. Sectors have 512 bytes.
pub mod disk_stat {
    /// String: the disk.
    pub const DEVICE_NAME: u32 = 1;
    /// Varint: sectors that were read.
    pub const READ_SECTORS: u32 = 2;
    /// Varint: milliseconds that this took, of all requests together.
    pub const READ_TIME_MS: u32 = 3;
    /// Varint: sectors that were written.
    pub const WRITE_SECTORS: u32 = 4;
    /// Varint: milliseconds that this took.
    pub const WRITE_TIME_MS: u32 = 5;
    /// Varint: sectors that were discarded.
    pub const DISCARD_SECTORS: u32 = 6;
    /// Varint: milliseconds that this took.
    pub const DISCARD_TIME_MS: u32 = 7;
    /// Varint: flushes.
    pub const FLUSH_COUNT: u32 = 8;
    /// Varint: milliseconds that these took.
    pub const FLUSH_TIME_MS: u32 = 9;
}

/// `SysStats.PsiSample`: how long a resource was short.
pub mod psi_sample {
    /// Varint: a value of [`psi_resource`](super::psi_resource).
    pub const RESOURCE: u32 = 1;
    /// Varint: nanoseconds.
    pub const TOTAL_NS: u32 = 2;
}

/// Values of `SysStats.PsiSample.PsiResource`: something, or everything, waited for a resource.
pub mod psi_resource {
    /// Something waited for a processor.
    pub const CPU_SOME: u64 = 1;
    /// Everything did.
    pub const CPU_FULL: u64 = 2;
    /// Something waited for input or output.
    pub const IO_SOME: u64 = 3;
    /// Everything did.
    pub const IO_FULL: u64 = 4;
    /// Something waited for memory.
    pub const MEMORY_SOME: u64 = 5;
    /// Everything did.
    pub const MEMORY_FULL: u64 = 6;
}

/// `SysStats.ThermalZone`.
pub mod thermal_zone {
    /// String: its folder.
    pub const NAME: u32 = 1;
    /// Varint: degrees Celsius.
    pub const TEMP: u32 = 2;
    /// String: what it is.
    pub const TYPE: u32 = 3;
}

/// `SysStats.BuddyInfo`: free memory of a zone.
pub mod buddy_info {
    /// String: the memory's node.
    pub const NODE: u32 = 1;
    /// String: its zone.
    pub const ZONE: u32 = 2;
    /// Varint: free pieces of 1, 2, 4, … pages, repeated.
    pub const ORDER_PAGES: u32 = 3;
}

/// `SysStats.CpuIdleState`: how long a processor was idle.
pub mod cpuidle_state {
    /// Varint: the processor.
    pub const CPU_ID: u32 = 1;
    /// Message: `SysStats.CpuIdleStateEntry`, repeated.
    pub const CPUIDLE_STATE_ENTRY: u32 = 2;
}

/// `SysStats.CpuIdleStateEntry`.
pub mod cpuidle_state_entry {
    /// String: how deeply.
    pub const STATE: u32 = 1;
    /// Varint: microseconds.
    pub const DURATION_US: u32 = 2;
}

/// `SysStats.SlabInfo`: what the kernel has for objects of a kind.
pub mod slab_info {
    /// String: the kind.
    pub const NAME: u32 = 1;
    /// Varint.
    pub const PAGES_PER_SLAB: u32 = 2;
    /// Varint.
    pub const NUM_SLABS: u32 = 3;
}

/// `CpuInfo`: the processors.
pub mod cpu_info {
    /// Message: `CpuInfo.Cpu`, repeated, in the order of their numbers.
    pub const CPUS: u32 = 1;
}

/// `CpuInfo.Cpu`.
pub mod cpu {
    /// String: what it is called.
    pub const PROCESSOR: u32 = 1;
    /// Varint: a frequency in kHz that it can have, repeated.
    pub const FREQUENCIES: u32 = 2;
    /// Varint: what it can do beside the others.
    pub const CAPACITY: u32 = 3;
    /// Message: `CpuInfo.ArmCpuIdentifier`.
    pub const ARM_IDENTIFIER: u32 = 4;
    /// Varint: bits of what it has; bit 0 is `mte`, bit 1 `mte3`.
    pub const FEATURES: u32 = 5;
}

/// `CpuInfo.ArmCpuIdentifier`.
pub mod arm_cpu_identifier {
    /// Varint.
    pub const IMPLEMENTER: u32 = 1;
    /// Varint.
    pub const ARCHITECTURE: u32 = 2;
    /// Varint.
    pub const VARIANT: u32 = 3;
    /// Varint.
    pub const PART: u32 = 4;
    /// Varint.
    pub const REVISION: u32 = 5;
}

/// `InterruptInfo`.
pub mod interrupt_info {
    /// Message: `InterruptInfo.InterruptMapping`, repeated.
    pub const IRQ_MAPPING: u32 = 1;
}

/// `InterruptInfo.InterruptMapping`: what an interrupt is called.
pub mod interrupt_mapping {
    /// Varint: its number.
    pub const IRQ_ID: u32 = 1;
    /// String.
    pub const NAME: u32 = 2;
}
