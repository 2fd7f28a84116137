//! Data sources that programs offer, and those that a session wants.
//!
//! Facts from `protos/perfetto/config/data_source_config.proto`.

use tracebuf::proto::fields::ipc::data_source_config;
use tracebuf_session::{CentralBuffer, RingProgram};

use super::ProtoBuilder;
use super::calls::SourceDescriptor;

/// The data source of track events, which the SDK has in every program that makes any.
pub(crate) const TRACK_EVENT: &str = "track_event";

/// Most bytes of the messages around what is said of a data source.
pub(crate) const AROUND: usize = 64;

/// Most data sources of one program; one that offers more is told nothing of the rest.
const RUNNING: usize = 256;

/// A data source that is to run in every program that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WantedSource {
    pub(crate) name: String,
    /// The number of the session's buffer that it goes to.
    pub(crate) buffer: u16,
    /// Fields of its configuration beside those above, encoded.
    pub(crate) config: Vec<u8>,
}

impl WantedSource {
    /// About how many bytes a program is told about it at once.
    pub(crate) fn told(&self) -> usize {
        self.config().as_bytes().len() + AROUND
    }

    fn config(&self) -> ProtoBuilder {
        use data_source_config::{NAME, TARGET_BUFFER, TRACING_SESSION_ID};
        let config = ProtoBuilder::new().bytes(NAME, self.name.as_bytes());
        // Buffers are counted from 1 on, and so are sessions, of which there is one.
        let config = config.number(TARGET_BUFFER, u32::from(self.buffer) + 1);
        let config = config.number(TRACING_SESSION_ID, 1_u32);
        config.fields(&self.config)
    }
}

/// A data source that a program runs, or is to run as soon as it can hear of it.
pub(crate) struct SourceInstance {
    pub(crate) id: u64,
    descriptor: SourceDescriptor,
    pub(crate) config: ProtoBuilder,
    buffer: u16,
    has_started: bool,
}

impl SourceInstance {
    /// Has what the program writes folded when its buffer overwrites it, if the descriptor says how and the
    /// configuration says in how much memory. The session's summary lists those that are.
    pub(crate) fn join_vm(&self, buffers: &mut [CentralBuffer], producer_id: u16) {
        let descriptor = &self.descriptor;
        let program = RingProgram::of(&descriptor.name, &descriptor.whole, self.config.as_bytes());
        if let (Some(program), Some(buffer)) = (program, buffers.get_mut(usize::from(self.buffer))) {
            buffer.observer_mut().join_vm(program, producer_id);
        }
    }
}

#[derive(Default)]
pub(crate) struct SourceInstances {
    all: Vec<SourceInstance>,
    last_id: u64,
}

impl SourceInstances {
    /// A program offers this one; it is to run if it is wanted.
    pub(crate) fn offer(&mut self, descriptor: SourceDescriptor, wanted: &[WantedSource]) {
        for wanted in wanted.iter().filter(|wanted| wanted.name == descriptor.name) {
            if self.all.len() < RUNNING {
                self.last_id += 1;
                self.all.push(SourceInstance {
                    id: self.last_id,
                    descriptor: descriptor.clone(),
                    config: wanted.config(),
                    buffer: wanted.buffer,
                    has_started: false,
                });
            }
        }
    }

    pub(crate) fn withdraw(&mut self, name: &str) {
        self.all.retain(|instance| instance.descriptor.name != name);
    }

    /// Each that has not started, and which counts as started from now on.
    pub(crate) fn start(&mut self) -> impl Iterator<Item = &SourceInstance> {
        self.all.iter_mut().filter(|instance| !instance.has_started).map(|instance| {
            instance.has_started = true;
            &*instance
        })
    }

    pub(crate) fn to_flush(&self) -> impl Iterator<Item = u64> {
        self.started().filter(|instance| instance.descriptor.is_flushed).map(|instance| instance.id)
    }

    /// Data sources that can repeat what they have said of names and clocks.
    pub(crate) fn to_clear(&self) -> impl Iterator<Item = u64> {
        self.started().filter(|instance| instance.descriptor.clears_state).map(|instance| instance.id)
    }

    fn started(&self) -> impl Iterator<Item = &SourceInstance> {
        self.all.iter().filter(|instance| instance.has_started)
    }
}
