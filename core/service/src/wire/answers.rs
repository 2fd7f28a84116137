//! What a service answers consumers, encoded, and what they want a clone of.

use alloc::string::String;
use alloc::vec::Vec;

use tracebuf::proto::fields::consumer::{
    clone_session_request, clone_session_response, enable_tracing_response, query_capabilities_response,
    query_service_state_response, tracing_service_capabilities, tracing_service_state, tracing_session,
};
use tracebuf::proto::reader::{message, number};

use super::{ProtoBuilder, frames};

/// What the service is called in traces and answers.
pub const VERSION: &str = concat!("tracebuf ", env!("CARGO_PKG_VERSION"));

/// Bytes of a part of an answer that has room in a frame.
const PART: usize = 64 << 10;

/// The longest descriptor of a data source that has room in a frame: around it are the frame's number, which takes 11
/// bytes at most, whether it is the last one, and the heads of six messages.
pub(crate) const LONGEST_DESCRIPTOR: usize = frames::MAX_IPC_FRAME - 40;

/// The events that a service may tell of: states of data sources, that all have started, triggers that clone.
pub const OBSERVABLE: [u32; 3] = [1, 2, 4];

/// Says that a session has ended, or why it could not begin.
#[must_use]
pub fn ended(error: Option<&str>) -> ProtoBuilder {
    let answer = ProtoBuilder::new().number(enable_tracing_response::DISABLED, true);
    match error {
        Some(error) => answer.bytes(enable_tracing_response::ERROR, error.as_bytes()),
        None => answer,
    }
}

/// Says what the service can do: to tell of these events, and to clone sessions.
#[must_use]
pub fn capabilities(observable: &[u32], creates_files: bool) -> ProtoBuilder {
    use tracing_service_capabilities as fields;
    let capabilities = ProtoBuilder::new()
        .number(fields::HAS_QUERY_CAPABILITIES, true)
        .each(observable, |of, kind| of.number(fields::OBSERVABLE_EVENTS, *kind))
        .number(fields::HAS_TRACE_CONFIG_OUTPUT_PATH, creates_files)
        .number(fields::HAS_CLONE_SESSION, true);
    ProtoBuilder::new().message(query_capabilities_response::CAPABILITIES, &capabilities)
}

/// The session that a consumer wants a clone of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedSession {
    /// That of a name.
    Named(String),
    /// The one for bug reports that counts most.
    ForBugreport,
    /// That of a number.
    Numbered(u64),
}

impl WantedSession {
    /// The one in a `CloneSessionRequest`.
    #[must_use]
    pub fn of(arguments: &[u8]) -> Self {
        let name = message(arguments, clone_session_request::UNIQUE_SESSION_NAME).unwrap_or_default();
        match number(arguments, clone_session_request::SESSION_ID).unwrap_or(0) {
            _ if !name.is_empty() => Self::Named(String::from_utf8_lossy(name).into_owned()),
            u64::MAX => Self::ForBugreport,
            id => Self::Numbered(id),
        }
    }
}

/// Says that a session was cloned, and what the clone's trace is called in the world, or why it was not.
#[must_use]
pub fn cloned(made: Result<[u64; 2], &str>) -> ProtoBuilder {
    use clone_session_response as fields;
    let response = ProtoBuilder::new().number(fields::SUCCESS, made.is_ok());
    match made {
        Ok([msb, lsb]) => response.number(fields::UUID_MSB, msb).number(fields::UUID_LSB, lsb),
        Err(error) => response.bytes(fields::ERROR, error.as_bytes()),
    }
}

/// What consumers hear of a session that is there.
///
/// ```
/// use tracebuf_service::wire::answers::{SessionState, service_state};
///
/// let session = SessionState { id: 1, name: "camera", state: "STARTED", is_started: true, ..Default::default() };
/// assert_eq!(service_state(7, [1, 1], [session.encoded()]).len(), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct SessionState<'s> {
    /// Its number.
    pub id: u64,
    /// Its user.
    pub uid: u32,
    /// Its state's name.
    pub state: &'s str,
    /// Its unique name; may be empty.
    pub name: &'s str,
    /// KiB of each buffer.
    pub buffers_kb: Vec<u64>,
    /// When it ends, 0 for never.
    pub duration_ms: u64,
    /// How many data sources run.
    pub data_sources: u64,
    /// When it started, as nanoseconds of the time of day.
    pub started: u64,
    /// How much it counts for bug reports.
    pub bugreport_score: i32,
    /// The name of its file in them.
    pub bugreport_filename: &'s str,
    /// Whether it records now.
    pub is_started: bool,
}

impl SessionState<'_> {
    /// A part of what [`service_state`] says.
    #[must_use]
    pub fn encoded(&self) -> ProtoBuilder {
        use tracing_session as fields;
        let told = ProtoBuilder::new()
            .number(fields::ID, self.id)
            .number(fields::CONSUMER_UID, signed(self.uid as i32))
            .bytes(fields::STATE, self.state.as_bytes())
            .bytes(fields::UNIQUE_SESSION_NAME, self.name.as_bytes())
            .each(&self.buffers_kb, |told, kb| told.number(fields::BUFFER_SIZE_KB, *kb))
            .number(fields::DURATION_MS, self.duration_ms)
            .number(fields::NUM_DATA_SOURCES, self.data_sources)
            .number(fields::START_REALTIME_NS, self.started)
            .number(fields::BUGREPORT_SCORE, i64::from(self.bugreport_score).cast_unsigned())
            .bytes(fields::BUGREPORT_FILENAME, self.bugreport_filename.as_bytes())
            .number(fields::IS_STARTED, self.is_started);
        ProtoBuilder::new().message(tracing_service_state::TRACING_SESSIONS, &told)
    }
}

/// Frames that say how many sessions there are, how many of these are started, and what is told of each item: as many
/// as it takes. Each is valid, and all together are one message.
#[must_use]
pub fn service_state(
    request: u64,
    [sessions, started]: [u64; 2],
    items: impl IntoIterator<Item = ProtoBuilder>,
) -> Vec<ProtoBuilder> {
    let mut items = items.into_iter().peekable();
    let mut all = Vec::new();
    let mut part = state_begin([sessions, started]);
    while {
        push_state(&mut part, &mut items);
        items.peek().is_some()
    } {
        all.push(state_part(request, &core::mem::take(&mut part), true));
    }
    all.push(state_part(request, &part, false));
    all
}

/// How many sessions there are, how many of these are started, and what the service is.
pub(crate) fn state_begin([sessions, started]: [u64; 2]) -> ProtoBuilder {
    use tracing_service_state as fields;
    ProtoBuilder::new()
        .number(fields::NUM_SESSIONS, sessions)
        .number(fields::NUM_SESSIONS_STARTED, started)
        .bytes(fields::TRACING_SERVICE_VERSION, VERSION.as_bytes())
        .number(fields::SUPPORTS_TRACING_SESSIONS, true)
}

/// Adds as many items as a part has room for, and one at least if it is empty.
pub(crate) fn push_state(
    part: &mut ProtoBuilder,
    items: &mut core::iter::Peekable<impl Iterator<Item = ProtoBuilder>>,
) {
    let len = |part: &ProtoBuilder| part.as_bytes().len();
    while let Some(item) = items.next_if(|item| len(part) == 0 || len(part) + len(item) <= PART) {
        *part = core::mem::take(part).fields(item.as_bytes());
    }
}

/// A frame with a part of what there is.
pub(crate) fn state_part(request: u64, part: &ProtoBuilder, has_more: bool) -> ProtoBuilder {
    let response = ProtoBuilder::new().message(query_service_state_response::SERVICE_STATE, part);
    frames::reply(request, &response, has_more)
}

/// An `int32` as a varint has it.
pub(crate) fn signed(number: i32) -> u64 {
    i64::from(number).cast_unsigned()
}
