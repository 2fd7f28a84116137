//! What `/sys` says of processors and other devices: frequencies, temperatures, idle times.

use tracebuf::proto::Sink;
use tracebuf::proto::fields::{
    cpuidle_state, cpuidle_state_entry, devfreq_value, sys_stats as field, thermal_zone,
};

use super::Looked;
use crate::proc::Proc;

const PROCESSORS: &str = "devices/system/cpu";

/// Of processors, by `cpufreq`, or else by what x86 says in `/proc/cpuinfo`.
pub(super) fn frequencies(proc: &Proc, out: &mut Looked) {
    let mut processors: Vec<(usize, u64)> = Vec::new();
    for name in proc.sys_entries(PROCESSORS) {
        let number = name.strip_prefix("cpu").and_then(|number| number.parse().ok());
        let khz =
            number.and_then(|_| proc.sys_number(format!("{PROCESSORS}/{name}/cpufreq/scaling_cur_freq")));
        processors.extend(number.zip(khz));
    }
    if processors.is_empty() {
        processors = of_cpuinfo(&proc.read("cpuinfo").unwrap_or_default());
    }
    let count = processors.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
    let mut all = vec![0; count];
    for (number, khz) in processors {
        all.get_mut(number).into_iter().for_each(|place| *place = khz);
    }
    // Those that are off, in between, have 0: a place in the list is a processor's number.
    all.into_iter().for_each(|khz| out.number(field::CPUFREQ_KHZ, khz));
}

pub(super) fn device_frequencies(proc: &Proc, out: &mut Looked) {
    for name in proc.sys_entries("class/devfreq") {
        if let Some(hz) = proc.sys_number(format!("class/devfreq/{name}/cur_freq")) {
            out.texts(field::DEVFREQ, &[(devfreq_value::KEY, &name)], [(devfreq_value::VALUE, hz)]);
        }
    }
}

fn of_cpuinfo(text: &str) -> Vec<(usize, u64)> {
    /// More than any kernel is built for.
    const MAX: usize = 1 << 16;
    let (mut number, mut found) = (None, Vec::new());
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        match key.trim() {
            "processor" => number = value.trim().parse().ok().filter(|number| *number < MAX),
            "cpu MHz" => {
                let khz = value.trim().parse::<f64>().ok().map(|mhz| (mhz * 1000.0).round() as u64);
                found.extend(number.take().zip(khz));
            }
            _ => {}
        }
    }
    found
}

pub(super) fn temperatures(proc: &Proc, out: &mut Looked) {
    for name in proc.sys_entries("class/thermal").into_iter().filter(|name| name.starts_with("thermal_zone"))
    {
        let kind = proc.sys_text(format!("class/thermal/{name}/type"));
        // Thousandths of a degree; those below zero cannot be told.
        let degrees = proc.sys_number(format!("class/thermal/{name}/temp"));
        if let (Some(kind), Some(degrees)) = (kind, degrees) {
            let mut zone = Vec::new();
            let Ok(()) = zone.string(thermal_zone::NAME, &name);
            let Ok(()) = zone.varint(thermal_zone::TEMP, degrees / 1000);
            let Ok(()) = zone.string(thermal_zone::TYPE, &kind);
            let Ok(()) = out.0.bytes(field::THERMAL_ZONE, &zone);
        }
    }
}

/// How long each processor was idle, and how deeply.
pub(super) fn idle(proc: &Proc, out: &mut Looked) {
    for name in proc.sys_entries(PROCESSORS) {
        let Some(cpu) = name.strip_prefix("cpu").and_then(|number| number.parse().ok()) else { continue };
        let folder = format!("{PROCESSORS}/{name}/cpuidle");
        let mut told = Vec::new();
        let Ok(()) = told.varint(cpuidle_state::CPU_ID, cpu);
        let before = told.len();
        for state in proc.sys_entries(&folder).into_iter().filter(|name| name.starts_with("state")) {
            let text = proc.sys_text(format!("{folder}/{state}/name"));
            if let Some((text, time)) = text.zip(proc.sys_number(format!("{folder}/{state}/time"))) {
                let mut entry = Vec::new();
                let Ok(()) = entry.string(cpuidle_state_entry::STATE, &text);
                let Ok(()) = entry.varint(cpuidle_state_entry::DURATION_US, time);
                let Ok(()) = told.bytes(cpuidle_state::CPUIDLE_STATE_ENTRY, &entry);
            }
        }
        if told.len() > before {
            let Ok(()) = out.0.bytes(field::CPUIDLE_STATE, &told);
        }
    }
}

/// Of the graphics processor, as the driver of Adreno's, Intel's or AMD's says it.
pub(super) fn graphics_frequency(proc: &Proc, out: &mut Looked) {
    let adreno = || Some(proc.sys_number("class/kgsl/kgsl-3d0/devfreq/cur_freq")? / 1_000_000);
    let intel = || proc.sys_number("class/drm/card0/gt_act_freq_mhz");
    let amd = || {
        let levels = proc.sys_text("class/drm/card0/device/pp_dpm_sclk")?;
        // The level that it has now ends with a star: "1: 800Mhz *".
        let now = levels.lines().find_map(|line| line.trim_end().strip_suffix('*'))?;
        now.split_ascii_whitespace().find_map(|word| word.strip_suffix("Mhz")?.parse().ok())
    };
    adreno().or_else(intel).or_else(amd).into_iter().for_each(|mhz| out.number(field::GPUFREQ_MHZ, mhz));
}
