//! Tests of statistics of a machine whose files say what a test wants.

use super::*;
use crate::linux::tests::machine::Machine;
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, number};

/// The values of a message's numbers, in the order of its fields.
fn numbers(message: &[u8]) -> Vec<u64> {
    Fields::of(message)
        .filter_map(|field| match field.value {
            FieldValue::Number(value) => Some(value),
            _ => None,
        })
        .collect()
}

fn look(machine: &Machine) -> Vec<u8> {
    let (proc, mut stats) = (machine.proc(), SysStats::new());
    stats.nanoseconds_per_tick = 10;
    let files = ["stat", "meminfo", "diskstats"].map(|file| proc.read(file).ok());
    let packet = stats.look(&proc, files.each_ref().map(Option::as_deref), || 5);
    let mut bytes = Vec::new();
    let Ok(()) = packet.encode(&mut bytes);
    assert_eq!(number(&bytes, trace_packet::TIMESTAMP), Some(5));
    message(&bytes, trace_packet::SYS_STATS).expect("statistics").to_vec()
}

#[test]
fn each_file_is_told_under_perfettos_numbers() {
    let machine = Machine::new("sys-stats");
    let stat = "cpu  1 1 1 1\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu3 1 2 3 4\nintr 99 0 7 0 9\nprocesses 12\nsoftirq 6 5 1\n";
    machine.says("stat", stat);
    machine
        .says("meminfo", "MemTotal:  40 kB\nNovelty: 3 kB\nDirty: 7 kB\nMapped: x kB\nHugePages_Total: 0\n");
    machine.says("vmstat", "nr_free_pages 7\npgfault 8\nworkingset_refault_file 9\npgmajfault x\n");
    machine.disk("sda");
    machine.says("diskstats", "8 0 sda 1 0 10 5 2 0 20 9 0 1 1\n8 1 sda1 1 0 9 5 2 0 20 9 0 1 1\n");
    machine.says("pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 total=x\n");
    machine.says("pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=6\nfull avg10=0.00 total=7\n");
    machine.has("class/thermal/thermal_zone1/type", "x86_pkg_temp\n");
    machine.has("class/thermal/thermal_zone1/temp", "61500\n");
    machine.has("class/thermal/thermal_zone2/type", "cold\n");
    machine.has("class/thermal/thermal_zone2/temp", "-5000\n");
    machine.has("class/devfreq/gpu/cur_freq", "700\n");
    let stats = look(&machine);
    let all = |field| messages(&stats, field).map(numbers).collect::<Vec<_>>();
    assert_eq!(all(field::CPU_STAT), [vec![0, 10, 20, 30, 40, 50, 60, 70, 80], vec![3, 10, 20, 30, 40]]);
    let totals = [field::NUM_IRQ_TOTAL, field::NUM_SOFTIRQ_TOTAL, field::NUM_FORKS];
    assert_eq!(totals.map(|total| number(&stats, total)), [Some(99), Some(6), Some(12)]);
    assert_eq!(
        (all(field::NUM_IRQ), all(field::NUM_SOFTIRQ)),
        (vec![vec![1, 7], vec![3, 9]], vec![vec![0, 5], vec![1, 1]])
    );
    assert_eq!(
        (all(field::MEMINFO), all(field::VMSTAT)),
        (vec![vec![1, 40], vec![17, 7]], vec![vec![49, 8], vec![186, 9]])
    );
    assert_eq!(all(field::DISK_STAT), [[10, 5, 20, 9]]);
    assert_eq!(all(field::PSI), [[1, 5000], [3, 6000], [4, 7000]]);
    assert_eq!((all(field::THERMAL_ZONE), all(field::DEVFREQ)), (vec![vec![61]], vec![vec![700]]));
    assert_eq!(number(&stats, field::COLLECTION_END_TIMESTAMP), Some(5));
}

#[test]
fn a_processors_frequency_is_in_the_place_of_its_number() {
    let machine = Machine::new("sys-freq");
    let frequencies = || {
        let stats = look(&machine);
        let of = Fields::of(&stats).filter(|field| field.number == field::CPUFREQ_KHZ);
        of.filter_map(|field| if let FieldValue::Number(khz) = field.value { Some(khz) } else { None })
            .collect::<Vec<_>>()
    };
    assert_eq!(frequencies(), []);
    let cpuinfo = "processor\t: 1\ncpu MHz\t\t: 2596.122\n\nprocessor\t: 99999999\ncpu MHz\t: 1\nprocessor\t: 0\ncpu MHz\t: 5\n";
    machine.says("cpuinfo", cpuinfo);
    assert_eq!(frequencies(), [5000, 2_596_122]);
    machine.has("devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "1700000\n");
    machine.has("devices/system/cpu/cpufreq/scaling_cur_freq", "1\n");
    assert_eq!(frequencies(), [0, 0, 1_700_000]);
}

#[test]
fn a_machine_without_any_of_it_says_nothing_and_no_number_is_too_large() {
    let machine = Machine::new("sys-none");
    assert_eq!(numbers(&look(&machine)), [5], "the time of its end");
    machine.says("stat", "cpu0 18446744073709551615 99999999999999999999 x\nintr\ncpu\n");
    let stats = look(&machine);
    assert_eq!(messages(&stats, field::CPU_STAT).map(numbers).collect::<Vec<_>>(), [[0, u64::MAX, 0, 0]]);
}

#[test]
fn what_is_only_told_when_it_is_asked_for_has_the_kernels_names() {
    let machine = Machine::new("sys-more");
    machine.says("buddyinfo", "Node 0, zone   DMA32      4      0     12 \nNode 1, zone x\nrubbish\n");
    let slabinfo = "slabinfo - version: 2.1\n# name <active> ...\n\
                    ext4_inode 10 20 1096 29 8 : tunables 0 0 0 : slabdata 7 9 0\nshort 1 2\n";
    machine.says("slabinfo", slabinfo);
    for (file, text) in [("name", "POLL"), ("time", "77")] {
        machine.has(&format!("devices/system/cpu/cpu3/cpuidle/state0/{file}"), text);
    }
    machine.has("devices/system/cpu/cpu3/cpuidle/state1/name", "without a time");
    machine.has("devices/system/cpu/cpu0/online", "1");
    machine.has("class/drm/card0/device/pp_dpm_sclk", "0: 300Mhz\n1: 800Mhz *\n2: 900Mhz\n");
    assert_eq!(numbers(&look(&machine)), [5], "nobody has asked");
    let groups = [Group::FreeMemory, Group::Slabs, Group::Idle, Group::Graphics];
    let mut bytes = Vec::new();
    let Ok(()) = SysStats::new().look_at(groups.into_iter(), &machine.proc(), || 5).encode(&mut bytes);
    let stats = message(&bytes, trace_packet::SYS_STATS).expect("statistics");
    let all = |field| messages(stats, field).collect::<Vec<_>>();
    let zones = all(field::BUDDY_INFO);
    let texts = |of: &[u8]| {
        [1, 2].map(|field| String::from_utf8_lossy(message(of, field).expect("one")).into_owned())
    };
    assert_eq!((texts(zones[0]), numbers(zones[0])), (["0", "DMA32"].map(Into::into), vec![4, 0, 12]));
    assert_eq!((texts(zones[1]), numbers(zones[1]), zones.len()), (["1", "x"].map(Into::into), vec![], 2));
    let slabs = all(field::SLAB_INFO);
    assert_eq!(
        (message(slabs[0], 1), numbers(slabs[0]), slabs.len()),
        (Some(&b"ext4_inode"[..]), vec![8, 9], 1)
    );
    let idle = all(field::CPUIDLE_STATE);
    assert_eq!(
        (numbers(idle[0]), messages(idle[0], 2).map(numbers).collect::<Vec<_>>()),
        (vec![3], vec![vec![77]])
    );
    assert_eq!((idle.len(), number(stats, field::GPUFREQ_MHZ)), (1, Some(800)));
}
