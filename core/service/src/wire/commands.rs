//! Commands of a service, encoded and decoded: replies of Perfetto's `ProducerPort` to a program.
//!
//! Facts from `protos/perfetto/ipc/producer_port.proto`.

use alloc::vec::Vec;

use tracebuf::proto::fields::ipc::{
    clear_incremental_state, data_source_config, flush as flush_command, get_async_command_response,
    initialize_connection_response, protocol_abi_version, setup_tracing as setup_tracing_command,
    start_data_source, stop_data_source,
};
use tracebuf::proto::reader::{FieldValue, Fields, message, numbers};

use super::{ProtoBuilder, repeated};

/// Accepts a program that has said which kinds of shared memory it can have, and perhaps brought some; whether it may
/// patch sizes in chunks that it has not handed over yet. `None` if it cannot have pages.
#[must_use]
pub fn initialized(memory: u64, uses_its_own: bool, may_patch: bool) -> Option<ProtoBuilder> {
    use initialize_connection_response::{
        DIRECT_SMB_PATCHING_SUPPORTED, PROTOCOL_ABI_VERSIONS, USING_SHMEM_PROVIDED_BY_PRODUCER,
    };
    use protocol_abi_version::V1;
    let welcome = match uses_its_own {
        true => ProtoBuilder::new().number(USING_SHMEM_PROVIDED_BY_PRODUCER, true),
        false => ProtoBuilder::new(),
    };
    let welcome = if may_patch { welcome.number(DIRECT_SMB_PATCHING_SUPPORTED, true) } else { welcome };
    match memory {
        0 => Some(welcome),
        some => (some & V1 != 0).then(|| welcome.number(PROTOCOL_ABI_VERSIONS, V1)),
    }
}

/// Stops a data source.
#[must_use]
pub fn stop(instance: u64) -> ProtoBuilder {
    let stop = ProtoBuilder::new().number(stop_data_source::INSTANCE_ID, instance);
    ProtoBuilder::new().message(get_async_command_response::STOP_DATA_SOURCE, &stop)
}

/// Sent with the file of its shared memory, which has pages of this many KiB.
#[must_use]
pub fn setup_tracing(page_kib: u32) -> ProtoBuilder {
    let page = ProtoBuilder::new().number(setup_tracing_command::SHARED_BUFFER_PAGE_SIZE_KB, page_kib);
    ProtoBuilder::new().message(get_async_command_response::SETUP_TRACING, &page)
}

/// The same for a program whose own memory is used: it gets none, and knows the size of its pages.
#[must_use]
pub fn setup_own_memory() -> ProtoBuilder {
    ProtoBuilder::new().message(get_async_command_response::SETUP_TRACING, &ProtoBuilder::new())
}

/// Prepares a data source, and starts it: both messages have the same fields.
#[must_use]
pub fn setup_and_start(instance: u64, config: &ProtoBuilder) -> [ProtoBuilder; 2] {
    use get_async_command_response::{SETUP_DATA_SOURCE, START_DATA_SOURCE};
    let within = ProtoBuilder::new().number(start_data_source::NEW_INSTANCE_ID, instance);
    let within = within.message(start_data_source::CONFIG, config);
    [SETUP_DATA_SOURCE, START_DATA_SOURCE].map(|command| ProtoBuilder::new().message(command, &within))
}

/// Asks for all that these data sources have; the program says the number once it has come.
#[must_use]
pub fn flush(request: u64, instances: impl IntoIterator<Item = u64>, flags: u64) -> ProtoBuilder {
    let flush = ProtoBuilder::new()
        .each(instances, |flush, id| flush.number(flush_command::DATA_SOURCE_IDS, id))
        .number(flush_command::REQUEST_ID, request);
    let flush = if flags == 0 { flush } else { flush.number(flush_command::FLAGS, flags) };
    ProtoBuilder::new().message(get_async_command_response::FLUSH, &flush)
}

/// Lets these data sources repeat names and clocks.
#[must_use]
pub fn clear_state(instances: impl IntoIterator<Item = u64>) -> ProtoBuilder {
    let clear = ProtoBuilder::new()
        .each(instances, |clear, id| clear.number(clear_incremental_state::DATA_SOURCE_IDS, id));
    ProtoBuilder::new().message(get_async_command_response::CLEAR_INCREMENTAL_STATE, &clear)
}

/// What a service wants of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceCommand {
    /// To use the shared memory that has come with this.
    UseMemory {
        /// KiB of a page.
        page_kib: u64,
    },
    /// To record with a data source.
    Start {
        /// Its number.
        instance: u64,
        /// The buffer that it goes to.
        buffer: u64,
        /// Its `DataSourceConfig`.
        config: Vec<u8>,
    },
    /// To stop that.
    Stop {
        /// Its number.
        instance: u64,
    },
    /// Everything that there is of some data sources, and then this number.
    Flush {
        /// The number.
        request: u64,
        /// The data sources, by number.
        instances: Vec<u64>,
    },
    /// To repeat names and clocks.
    ClearState {
        /// Of these data sources, by number.
        instances: Vec<u64>,
    },
    /// Anything else.
    Other,
}

impl ServiceCommand {
    /// `None` for a malformed message.
    #[must_use]
    pub fn of(command: &[u8]) -> Option<Self> {
        use get_async_command_response as commands;
        let mut said = Self::Other;
        let mut fields = Fields::of(command);
        for field in &mut fields {
            let (number, FieldValue::Bytes(within)) = (field.number, field.value) else { continue };
            said = match number {
                commands::START_DATA_SOURCE => {
                    let [instance] = numbers(within, [start_data_source::NEW_INSTANCE_ID])?;
                    let config = message(within, start_data_source::CONFIG)?;
                    let [buffer] = numbers(config, [data_source_config::TARGET_BUFFER])?;
                    Self::Start { instance, buffer, config: config.to_vec() }
                }
                commands::STOP_DATA_SOURCE => {
                    Self::Stop { instance: numbers(within, [stop_data_source::INSTANCE_ID])?[0] }
                }
                commands::SETUP_TRACING => {
                    let [page_kib] = numbers(within, [setup_tracing_command::SHARED_BUFFER_PAGE_SIZE_KB])?;
                    Self::UseMemory { page_kib }
                }
                commands::FLUSH => {
                    let [request] = numbers(within, [flush_command::REQUEST_ID])?;
                    Self::Flush { request, instances: repeated(within, flush_command::DATA_SOURCE_IDS) }
                }
                commands::CLEAR_INCREMENTAL_STATE => {
                    Self::ClearState { instances: repeated(within, clear_incremental_state::DATA_SOURCE_IDS) }
                }
                _ => Self::Other,
            };
        }
        fields.is_at_end().then_some(said)
    }
}
