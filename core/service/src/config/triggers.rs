//! Triggers of a session, as its config has them.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tracebuf::proto::fields::config::{trigger, trigger_config};
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, numbers};

use super::limits::MOST_LISTED;
use super::{LONGEST, text};

const START: u64 = 1;
const STOP: u64 = 2;
const CLONE: u64 = 4;

/// Which triggers start or stop a session, and how long it waits for one.
#[derive(Clone, Debug)]
pub(crate) struct TriggerConfig {
    /// Whether they start it; else they stop it, or let it be cloned.
    pub(crate) starts: bool,
    /// Whether its consumer is to clone it.
    pub(crate) clones: bool,
    pub(crate) timeout_ms: u64,
    pub(crate) triggers: Vec<Trigger>,
}

#[derive(Clone, Debug)]
pub(crate) struct Trigger {
    pub(crate) name: String,
    pub(crate) producers: String,
    pub(crate) stop_delay_ms: u64,
    pub(crate) most_a_day: u64,
    /// How often it is passed over, from 0 to 1.
    pub(crate) skipped: f64,
}

impl TriggerConfig {
    /// `None` if there are none.
    pub(super) fn of(config: &[u8]) -> Result<Option<Self>, String> {
        use trigger_config as fields;
        let of = [fields::TRIGGER_MODE, fields::TRIGGER_TIMEOUT_MS, fields::USE_CLONE_SNAPSHOT_IF_AVAILABLE];
        let malformed = || "The triggers of the trace config are malformed".to_string();
        let [mode, timeout_ms, clones] = numbers(config, of).ok_or_else(malformed)?;
        if clones != 0 && mode != STOP {
            return Err("use_clone_snapshot_if_available goes with STOP_TRACING alone".to_string());
        }
        match mode {
            0 => return Ok(None),
            START | STOP | CLONE => {}
            other => return Err(format!("Unknown trigger mode {other}")),
        }
        if timeout_ms == 0 || timeout_ms > LONGEST {
            return Err(format!(
                "A session with triggers must have a trigger_timeout_ms, of at most {LONGEST}"
            ));
        }
        let mut triggers: Vec<Trigger> = Vec::new();
        for one in messages(config, fields::TRIGGERS) {
            let one = Trigger::of(one).ok_or_else(malformed)?;
            if triggers.len() >= MOST_LISTED {
                return Err("Too many triggers configured".to_string());
            }
            if triggers.iter().any(|other| other.name == one.name) {
                return Err(format!("Duplicate trigger name {}", one.name));
            }
            triggers.push(one);
        }
        Ok(Some(Self { starts: mode == START, clones: mode == CLONE || clones != 0, timeout_ms, triggers }))
    }
}

impl Trigger {
    fn of(one: &[u8]) -> Option<Self> {
        let [stop_delay_ms, most_a_day] = numbers(one, [trigger::STOP_DELAY_MS, trigger::MAX_PER_24_H])?;
        let skipped = Fields::of(one).filter_map(|read| match read.value {
            FieldValue::Fixed(bits) if read.number == trigger::SKIP_PROBABILITY => Some(f64::from_bits(bits)),
            _ => None,
        });
        Some(Self {
            name: text(message(one, trigger::NAME)?),
            producers: text(message(one, trigger::PRODUCER_NAME_REGEX)?),
            stop_delay_ms,
            most_a_day,
            skipped: skipped.last().unwrap_or(0.0),
        })
    }
}
