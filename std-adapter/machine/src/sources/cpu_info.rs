//! What the processors are, in Perfetto's packets: its `linux.system_info`.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tracebuf::producer::track_event::Clock;
use tracebuf::proto::Sink;
use tracebuf::proto::fields::{
    arm_cpu_identifier as arm, cpu as field, cpu_info, interrupt_info, interrupt_mapping, trace_packet,
};
use tracebuf_session::BootClock;

use super::data_source::{DataSource, SourceOutput};
use crate::proc::Proc;

/// The wait of a source that has said all.
const NEVER: Duration = Duration::from_secs(3600);
/// More processors than any kernel is built for.
const MAX: usize = 1 << 13;
/// Where frequencies are that a processor can have.
const FREQUENCIES: [&str; 2] = ["scaling_available_frequencies", "scaling_boost_frequencies"];

/// Perfetto's `linux.system_info`: the processors, and what interrupts are called if that is asked for. It is told once:
/// readers would have it twice otherwise.
#[derive(Debug)]
pub(super) struct SystemInfoSource {
    proc: Proc,
    has_interrupts: bool,
}

impl SystemInfoSource {
    pub(super) const fn new(proc: Proc, has_interrupts: bool) -> Self {
        Self { proc, has_interrupts }
    }
}

impl DataSource for SystemInfoSource {
    fn name(&self) -> &'static str {
        "linux.system_info"
    }

    fn start(&mut self, out: &mut SourceOutput) -> io::Result<()> {
        let mut tell = |number: u32, message: &[u8]| {
            out.packet(|packet| {
                packet.varint(trace_packet::TIMESTAMP, BootClock.now());
                packet.bytes(number, message);
            });
        };
        tell(trace_packet::CPU_INFO, &processors(&self.proc));
        if self.has_interrupts {
            let names = interrupts(&self.proc.read("interrupts").unwrap_or_default());
            tell(trace_packet::INTERRUPT_INFO, &names);
        }
        Ok(())
    }

    fn drain(&mut self, _: &mut SourceOutput) -> Duration {
        NEVER
    }

    fn stop(&mut self, _: &mut SourceOutput) {}
}

/// The numbers by which Arm's processors are told apart.
const IDENTIFIER: [(&str, u32, u32); 5] = [
    ("CPU implementer", 16, arm::IMPLEMENTER),
    ("CPU architecture", 10, arm::ARCHITECTURE),
    ("CPU variant", 16, arm::VARIANT),
    ("CPU part", 16, arm::PART),
    ("CPU revision", 10, arm::REVISION),
];

/// A processor, of `/proc/cpuinfo`.
#[derive(Debug, Default)]
struct Processor {
    name: String,
    identifier: BTreeMap<u32, u64>,
    features: u64,
}

/// The processors that are on, by number.
fn parse(cpuinfo: &str) -> BTreeMap<usize, Processor> {
    let (mut found, mut current, mut name_of_all) = (BTreeMap::<usize, Processor>::new(), None, None);
    for (key, value) in cpuinfo.lines().filter_map(|line| line.split_once(':')) {
        let (key, value) = (key.trim(), value.trim());
        if key == "processor" {
            current = value.parse().ok().filter(|number| *number < MAX);
            current.into_iter().for_each(|number| _ = found.entry(number).or_default());
        }
        // Arm's older kernels name all processors at once, before or behind them.
        if key == "Processor" {
            name_of_all = Some(value);
        }
        let Some(processor) = current.and_then(|number| found.get_mut(&number)) else { continue };
        match key {
            "model name" => value.clone_into(&mut processor.name),
            "Features" | "flags" => {
                let words = value.split_ascii_whitespace();
                let bits = words.map(|word| match word {
                    "mte" => 1,
                    "mte3" => 2,
                    _ => 0,
                });
                processor.features = bits.fold(0, |all, bit| all | bit);
            }
            _ => {
                let known = IDENTIFIER.iter().find(|(name, ..)| *name == key);
                processor.identifier.extend(known.and_then(|(_, base, field)| {
                    let digits = value.trim_start_matches("0x");
                    Some((*field, u32::from_str_radix(digits, *base).ok()?.into()))
                }));
            }
        }
    }
    for processor in found.values_mut().filter(|processor| processor.name.is_empty()) {
        name_of_all.unwrap_or("unknown").clone_into(&mut processor.name);
    }
    found
}

/// `CpuInfo`. Readers take a processor's place for its number, so those that are off have an empty one.
fn processors(proc: &Proc) -> Vec<u8> {
    let found = parse(&proc.read("cpuinfo").unwrap_or_default());
    let count = found.keys().last().map_or(0, |last| last + 1);
    let mut all = Vec::new();
    for number in 0..count {
        let mut told = Vec::new();
        if let Some(processor) = found.get(&number) {
            let folder = format!("devices/system/cpu/cpu{number}");
            let Ok(()) = told.string(field::PROCESSOR, &processor.name);
            for file in FREQUENCIES {
                let text = proc.sys_text(format!("{folder}/cpufreq/{file}")).unwrap_or_default();
                for khz in text.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()) {
                    let Ok(()) = told.varint(field::FREQUENCIES, khz.into());
                }
            }
            if let Some(capacity) = proc.sys_number(format!("{folder}/cpu_capacity")) {
                let Ok(()) = told.varint(field::CAPACITY, capacity);
            }
            // With less than all of it, it is another processor's.
            if processor.identifier.len() == IDENTIFIER.len() {
                let mut identifier = Vec::new();
                for (field, value) in &processor.identifier {
                    let Ok(()) = identifier.varint(*field, *value);
                }
                let Ok(()) = told.bytes(field::ARM_IDENTIFIER, &identifier);
            }
            if processor.features != 0 {
                let Ok(()) = told.varint(field::FEATURES, processor.features);
            }
        }
        let Ok(()) = all.bytes(cpu_info::CPUS, &told);
    }
    all
}

/// `InterruptInfo`, of `/proc/interrupts`: a line has its number, a count for each processor, the controller, how it is
/// triggered, and who has it. Those without a number are not hardware's.
fn interrupts(text: &str) -> Vec<u8> {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let counts = header.split_ascii_whitespace().filter(|word| word.starts_with("CPU")).count();
    let mut all = Vec::new();
    for line in lines {
        let Some((number, rest)) = line.split_once(':') else { continue };
        let Ok(number) = number.trim().parse::<u32>() else { continue };
        let words: Vec<&str> = rest.split_ascii_whitespace().skip(counts).collect();
        let is_trigger = |word: &&str| {
            ["Level", "Edge"].contains(word)
                || ["-edge", "-level", "-fasteoi"].iter().any(|end| word.ends_with(end))
        };
        // Of a line without a known trigger, the last word.
        let begin = words.iter().rposition(is_trigger).map_or(words.len().saturating_sub(1), |at| at + 1);
        // Before it there is the controller at least.
        let name = words.get(begin.max(1)..).unwrap_or_default().join(" ");
        if !name.is_empty() {
            let mut told = Vec::new();
            let Ok(()) = told.varint(interrupt_mapping::IRQ_ID, number.into());
            let Ok(()) = told.string(interrupt_mapping::NAME, &name);
            let Ok(()) = all.bytes(interrupt_info::IRQ_MAPPING, &told);
        }
    }
    all
}

#[cfg(test)]
mod tests;
