//! A consumer's `TraceConfig`: what of it the service reads, and why it is refused.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use tracebuf::buffer::FillPolicy;
use tracebuf::proto::Sink;
use tracebuf::proto::fields::builtin_clock;
use tracebuf::proto::fields::config::{
    buffer_config, builtin_data_source, compression, guardrail_overrides, incremental_state_config,
    producer_config, session_semaphore, trace_config as field, trace_config_data_source, zstd,
};
use tracebuf::proto::fields::ipc::data_source_config;
use tracebuf::proto::reader::{FieldValue, Fields, message, messages, number, numbers};

use crate::host::Codec;
use crate::wire::frames::MAX_IPC_FRAME;

mod limits;
mod triggers;

pub(crate) use limits::{LONGEST_NAME, cut};
pub(crate) use triggers::{Trigger, TriggerConfig};

/// Milliseconds of seven days, the longest that a session may be told to last.
pub(crate) const LONGEST: u64 = 7 * 24 * 3600 * 1000;
const DISCARD: u64 = 2;
const DEFLATE: u64 = 1;
/// The level of zstd without one, and those that take no longer than the others can wait.
const LEVEL: i32 = 3;
const LEVELS: [i32; 2] = [-7, 9];

/// What of a `TraceConfig` the service reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct TraceConfig {
    /// As it came: the trace repeats it.
    pub(crate) whole: Vec<u8>,
    pub(crate) buffers: Vec<BufferConfig>,
    pub(crate) sources: Vec<SourceConfig>,
    pub(crate) producers: Vec<ProducerConfig>,
    pub(crate) duration_ms: u64,
    pub(crate) counts_sleep: bool,
    pub(crate) is_deferred: bool,
    pub(crate) writes_file: bool,
    pub(crate) output_path: String,
    pub(crate) write_period_ms: u64,
    pub(crate) max_file_size: Option<u64>,
    pub(crate) write_flush_mode: u64,
    pub(crate) syncs_writes: bool,
    pub(crate) flush_period_ms: u64,
    pub(crate) flush_timeout_ms: u64,
    pub(crate) stop_timeout_ms: u64,
    pub(crate) clear_period_ms: u64,
    pub(crate) name: String,
    pub(crate) uuid: [u64; 2],
    pub(crate) bugreport_score: i32,
    pub(crate) bugreport_filename: String,
    pub(crate) guardrails: bool,
    pub(crate) triggers: Option<TriggerConfig>,
    /// Names, and with how many others of each the session begins.
    pub(crate) semaphores: Vec<(String, u64)>,
    pub(crate) exclusive: u64,
    /// Ways in which it may be compressed, the best first; `None` if it is not to be.
    pub(crate) codecs: Option<Vec<Codec>>,
    /// The way in which it is.
    pub(crate) codec: Option<Codec>,
    /// Its `TraceFilter`.
    pub(crate) filter: Option<Vec<u8>>,
    /// Whether producers of other users than the service's are kept out from now on.
    pub(crate) locks: Option<bool>,
    /// Most KiB of all buffers with guardrails.
    most_kb: u64,
    pub(crate) builtin: BuiltinConfig,
}

#[derive(Clone, Debug)]
pub(crate) struct BufferConfig {
    pub(crate) size_kb: u64,
    pub(crate) policy: FillPolicy,
    pub(crate) name: String,
    /// Whether a clone gets the buffer itself, and the session an empty one.
    pub(crate) is_transferred: bool,
    /// Whether it is emptied before each clone.
    pub(crate) is_cleared: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct SourceConfig {
    pub(crate) name: String,
    /// Its `DataSourceConfig` as it came.
    pub(crate) config: Vec<u8>,
    /// The place of its buffer among those of the session.
    pub(crate) buffer: usize,
    pub(crate) producers: Vec<String>,
    pub(crate) producer_patterns: Vec<String>,
    pub(crate) machines: Vec<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct ProducerConfig {
    pub(crate) name: String,
    pub(crate) size: u64,
    pub(crate) page: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct BuiltinConfig {
    pub(crate) clocks: bool,
    pub(crate) config: bool,
    pub(crate) system_info: bool,
    pub(crate) events: bool,
    pub(crate) primary_clock: u64,
    pub(crate) interval_ms: u64,
    /// Whether the interval counts sleep.
    pub(crate) counts_sleep: bool,
    pub(crate) histograms: bool,
    /// Whether the trace tells of other sessions.
    pub(crate) others: bool,
}

impl Default for BuiltinConfig {
    fn default() -> Self {
        Self {
            clocks: true,
            config: true,
            system_info: true,
            events: true,
            primary_clock: builtin_clock::BOOTTIME,
            interval_ms: 10_000,
            counts_sleep: false,
            histograms: true,
            others: false,
        }
    }
}

/// What this service does not do, and a trace would not be the same without.
const REFUSED: [(u32, &str); 1] = [(field::PRIORITY_BOOST, "priority_boost")];

/// Ways in which a trace may be compressed, the one with the highest number first. `None` if they are malformed.
fn codecs(whole: &[u8]) -> Option<Option<Vec<Codec>>> {
    let old_form = number(whole, field::COMPRESSION_TYPE).unwrap_or(0) == DEFLATE;
    let kinds: Vec<(u32, &[u8])> = Fields::of(message(whole, field::COMPRESSION)?)
        .filter_map(|kind| match kind.value {
            FieldValue::Bytes(within) => Some((kind.number, within)),
            _ => None,
        })
        .collect();
    let within = |kind| kinds.iter().rev().find(|(number, _)| *number == kind).map(|(_, within)| *within);
    let zstd = within(compression::ZSTD).map(|within| {
        let level = number(within, zstd::LEVEL).unwrap_or(0) as i32;
        let [least, most] = LEVELS;
        Codec::Zstd { level: if level == 0 { LEVEL } else { level.clamp(least, most) } }
    });
    let deflate = (old_form || within(compression::DEFLATE).is_some()).then_some(Codec::Deflate);
    let wants = old_form || !kinds.is_empty();
    Some(wants.then(|| zstd.into_iter().chain(deflate).collect()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn texts(of: &[u8], field: u32) -> Vec<String> {
    messages(of, field).map(text).collect()
}

impl TraceConfig {
    /// Reads one.
    ///
    /// # Errors
    /// Why there can be no such session.
    pub(crate) fn of(whole: &[u8]) -> Result<Self, String> {
        let malformed = || "The trace config is malformed".to_string();
        // Producers, and those who attach, get it in a frame of their own.
        if whole.len() > MAX_IPC_FRAME - 1024 {
            return Err(format!("The trace config is too long ({} bytes)", whole.len()));
        }
        let mut fields = Fields::of(whole);
        for read in &mut fields {
            let is_set = !matches!(read.value, FieldValue::Number(0) | FieldValue::Bytes([]));
            if let Some((_, name)) = REFUSED.iter().find(|(number, _)| is_set && *number == read.number) {
                return Err(format!("{name} is not supported by this service"));
            }
        }
        if !fields.is_at_end() {
            return Err(malformed());
        }
        let of = |field, default| number(whole, field).filter(|value| *value != 0).unwrap_or(default);
        let string = |field| message(whole, field).map(text).unwrap_or_default();
        let builtin = message(whole, field::BUILTIN_DATA_SOURCES).unwrap_or_default();
        let clear = message(whole, field::INCREMENTAL_STATE_CONFIG).unwrap_or_default();
        let overrides = message(whole, field::GUARDRAIL_OVERRIDES).unwrap_or_default();
        let filters: Vec<&[u8]> = messages(whole, field::TRACE_FILTER).collect();
        let mut config = Self {
            duration_ms: of(field::DURATION_MS, 0),
            counts_sleep: of(field::PREFER_SUSPEND_CLOCK_FOR_DURATION, 0) != 0,
            is_deferred: of(field::DEFERRED_START, 0) != 0,
            writes_file: of(field::WRITE_INTO_FILE, 0) != 0,
            output_path: string(field::OUTPUT_PATH),
            write_period_ms: of(field::FILE_WRITE_PERIOD_MS, 5000).max(100),
            max_file_size: number(whole, field::MAX_FILE_SIZE_BYTES).filter(|size| *size != 0),
            write_flush_mode: of(field::WRITE_FLUSH_MODE, 0),
            syncs_writes: of(field::FFLUSH_POST_WRITE, 0) == 2,
            flush_period_ms: of(field::FLUSH_PERIOD_MS, 0),
            flush_timeout_ms: of(field::FLUSH_TIMEOUT_MS, 5000),
            stop_timeout_ms: of(field::DATA_SOURCE_STOP_TIMEOUT_MS, 5000),
            clear_period_ms: number(clear, incremental_state_config::CLEAR_PERIOD_MS).unwrap_or(0),
            name: string(field::UNIQUE_SESSION_NAME),
            uuid: [of(field::TRACE_UUID_MSB, 0), of(field::TRACE_UUID_LSB, 0)],
            bugreport_score: of(field::BUGREPORT_SCORE, 0) as i32,
            bugreport_filename: string(field::BUGREPORT_FILENAME),
            guardrails: of(field::ENABLE_EXTRA_GUARDRAILS, 0) != 0,
            triggers: TriggerConfig::of(message(whole, field::TRIGGER_CONFIG).unwrap_or_default())?,
            exclusive: of(field::EXCLUSIVE_PRIO, 0),
            codecs: codecs(whole).ok_or_else(malformed)?,
            filter: (!filters.is_empty()).then(|| filters.concat()),
            locks: match number(whole, field::LOCKDOWN_MODE) {
                Some(1) => Some(false),
                Some(2) => Some(true),
                _ => None,
            },
            most_kb: number(overrides, guardrail_overrides::MAX_TRACING_BUFFER_SIZE_KB)
                .unwrap_or(0)
                .max(limits::GUARDED),
            builtin: BuiltinConfig::of(builtin).ok_or_else(malformed)?,
            ..Self::default()
        };
        for buffer in messages(whole, field::BUFFERS) {
            config.buffers.push(BufferConfig::of(buffer).ok_or_else(malformed)?);
        }
        for source in messages(whole, field::DATA_SOURCES) {
            config.sources.push(SourceConfig::of(source, &config.buffers)?);
        }
        for producer in messages(whole, field::PRODUCERS) {
            use producer_config::{PAGE_SIZE_KB, PRODUCER_NAME, SHM_SIZE_KB};
            let [size, page] = numbers(producer, [SHM_SIZE_KB, PAGE_SIZE_KB]).ok_or_else(malformed)?;
            let name = message(producer, PRODUCER_NAME).map(text).unwrap_or_default();
            config.producers.push(ProducerConfig { name, size: size << 10, page: page << 10 });
        }
        for semaphore in messages(whole, field::SESSION_SEMAPHORES) {
            use session_semaphore::{MAX_OTHER_SESSION_COUNT, NAME};
            let name = text(message(semaphore, NAME).ok_or_else(malformed)?);
            config.semaphores.push((name, number(semaphore, MAX_OTHER_SESSION_COUNT).unwrap_or(0)));
        }
        config.check()?;
        config.whole = whole.to_vec();
        if let Some(triggers) = config.triggers.as_ref().filter(|triggers| !triggers.starts) {
            // Without a trigger it ends after that time; the trace's config says so too.
            config.duration_ms = triggers.timeout_ms;
            config.say_duration(config.duration_ms);
        }
        Ok(config)
    }

    /// Lets the config that the trace repeats say so: a field's last value is the one that counts.
    pub(crate) fn say_duration(&mut self, ms: u64) {
        let Ok::<_, core::convert::Infallible>(()) = self.whole.varint(field::DURATION_MS, ms);
    }

    /// Whether the session flushes before each write, or beside them every so many milliseconds.
    pub(crate) fn flushing(&self) -> (bool, u64) {
        const OFF: u64 = 2;
        const ON: u64 = 3;
        match self.write_flush_mode {
            _ if !self.writes_file => (false, self.flush_period_ms),
            OFF => (false, self.flush_period_ms),
            ON => (true, 0),
            _ if self.write_period_ms > 5000 => (true, 0),
            _ => (false, 5000),
        }
    }
}

impl BufferConfig {
    fn of(buffer: &[u8]) -> Option<Self> {
        use buffer_config::{CLEAR_BEFORE_CLONE, FILL_POLICY, NAME, SIZE_KB, TRANSFER_ON_CLONE};
        let [size_kb, policy, is_transferred, is_cleared] =
            numbers(buffer, [SIZE_KB, FILL_POLICY, TRANSFER_ON_CLONE, CLEAR_BEFORE_CLONE])?;
        let policy = if policy == DISCARD { FillPolicy::Discard } else { FillPolicy::RingBuffer };
        let name = text(message(buffer, NAME)?);
        Some(Self { size_kb, policy, name, is_transferred: is_transferred != 0, is_cleared: is_cleared != 0 })
    }
}

impl SourceConfig {
    fn of(source: &[u8], buffers: &[BufferConfig]) -> Result<Self, String> {
        use trace_config_data_source as fields;
        let malformed = || "A data source of the trace config is malformed".to_string();
        let config = message(source, fields::CONFIG).ok_or_else(malformed)?;
        let name = text(message(config, data_source_config::NAME).ok_or_else(malformed)?);
        let place = number(config, data_source_config::TARGET_BUFFER);
        let by_name = message(config, data_source_config::TARGET_BUFFER_NAME).ok_or_else(malformed)?;
        let buffer = match by_name {
            [] => usize::try_from(place.unwrap_or(0)).unwrap_or(usize::MAX),
            by_name => {
                let buffer = buffers.iter().position(|buffer| buffer.name.as_bytes() == by_name);
                let unknown = || format!("Data source {name} wants an unknown buffer, {}", text(by_name));
                let buffer = buffer.ok_or_else(unknown)?;
                if place.is_some_and(|place| place > 0 && place != buffer as u64) {
                    return Err(format!("Data source {name} wants two buffers, by name and by number"));
                }
                buffer
            }
        };
        if buffer >= buffers.len() {
            return Err(format!("Data source {name} wants buffer {buffer}, which there is not"));
        }
        Ok(Self {
            name,
            config: config.to_vec(),
            buffer,
            producers: texts(source, fields::PRODUCER_NAME_FILTER),
            producer_patterns: texts(source, fields::PRODUCER_NAME_REGEX_FILTER),
            machines: texts(source, fields::MACHINE_NAME_FILTER),
        })
    }
}

impl BuiltinConfig {
    fn of(builtin: &[u8]) -> Option<Self> {
        use builtin_data_source as fields;
        let of = [
            fields::DISABLE_CLOCK_SNAPSHOTTING,
            fields::DISABLE_TRACE_CONFIG,
            fields::DISABLE_SYSTEM_INFO,
            fields::DISABLE_SERVICE_EVENTS,
            fields::DISABLE_CHUNK_USAGE_HISTOGRAMS,
            fields::PRIMARY_TRACE_CLOCK,
            fields::SNAPSHOT_INTERVAL_MS,
            fields::PREFER_SUSPEND_CLOCK_FOR_SNAPSHOT,
            fields::ENABLE_CONCURRENT_SESSION_EVENTS,
        ];
        let [clocks, config, info, events, histograms, clock, interval, sleep, others] =
            numbers(builtin, of)?;
        let default = Self::default();
        Some(Self {
            clocks: clocks == 0,
            config: config == 0,
            system_info: info == 0,
            events: events == 0,
            histograms: histograms == 0,
            others: others != 0,
            counts_sleep: sleep != 0,
            primary_clock: if clock == 0 { default.primary_clock } else { clock },
            interval_ms: if interval == 0 { default.interval_ms } else { interval.max(1000) },
        })
    }
}

#[cfg(test)]
mod tests;
