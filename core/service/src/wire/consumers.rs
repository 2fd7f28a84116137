//! The service that consumers call, and its methods.

use alloc::string::String;

use tracebuf::proto::fields::ipc::{bind_service_reply, method_info};
use tracebuf::proto::reader::{message, messages, numbers};

use super::ProtoBuilder;
use super::frames::invoke;

/// The service that consumers call.
pub const CONSUMER_PORT: &str = "ConsumerPort";

/// Its methods, in the order of their numbers, from 1.
pub const CONSUMER_METHODS: [&str; 16] = [
    "EnableTracing",
    "DisableTracing",
    "ReadBuffers",
    "FreeBuffers",
    "Flush",
    "StartTracing",
    "ChangeTraceConfig",
    "Detach",
    "Attach",
    "GetTraceStats",
    "ObserveEvents",
    "QueryServiceState",
    "QueryCapabilities",
    "SaveTraceForBugreport",
    "CloneSession",
    STOP_SESSION,
];

/// This service's own: it stops a session of whichever consumer. Others do not have it.
pub const STOP_SESSION: &str = "StopTracebufSession";

/// Fields of the call and of its answer.
mod stop {
    pub(super) const NAME: u32 = 1;
    pub(super) const SUCCESS: u32 = 1;
    pub(super) const ERROR: u32 = 2;
}

/// The call, with number 1, that stops a session by its name, the key by which it is attached to, or its number.
/// `None` if the service, which has answered so to be bound, does not have it.
#[must_use]
pub fn stop_session(bound: &[u8], session: &str) -> Option<ProtoBuilder> {
    use bind_service_reply::{METHODS, SERVICE_ID, SUCCESS};
    let [is_bound, service] = numbers(bound, [SUCCESS, SERVICE_ID])?;
    let is_it = |method: &&[u8]| message(method, method_info::NAME) == Some(STOP_SESSION.as_bytes());
    let method = messages(bound, METHODS).find(is_it).filter(|_| is_bound != 0)?;
    let [number] = numbers(method, [method_info::ID])?;
    Some(invoke(service, number, &ProtoBuilder::new().bytes(stop::NAME, session.as_bytes()), Some(1)))
}

/// What the service answers to that.
///
/// # Errors
/// Why no session was stopped.
pub fn stopped(answer: &[u8]) -> Result<(), String> {
    match (numbers(answer, [stop::SUCCESS]), message(answer, stop::ERROR)) {
        (Some([1]), _) => Ok(()),
        (_, error) => Err(String::from_utf8_lossy(error.unwrap_or_default()).into_owned()),
    }
}

pub(crate) fn session_to_stop(arguments: &[u8]) -> String {
    String::from_utf8_lossy(message(arguments, stop::NAME).unwrap_or_default()).into_owned()
}

pub(crate) fn stop_answer(result: Result<(), &str>) -> ProtoBuilder {
    let answer = ProtoBuilder::new().number(stop::SUCCESS, result.is_ok());
    match result {
        Ok(()) => answer,
        Err(error) => answer.bytes(stop::ERROR, error.as_bytes()),
    }
}

/// The name of a method by its number.
#[must_use]
pub fn method_of(number: u64) -> Option<&'static str> {
    let at = usize::try_from(number).ok()?.checked_sub(1)?;
    CONSUMER_METHODS.get(at).copied()
}

/// The number of a method by its name, 0 if there is none.
///
/// ```
/// use tracebuf_service::wire::consumers::method;
///
/// assert_eq!([method("EnableTracing"), method("CloneSession"), method("Sync")], [1, 15, 0]);
/// ```
#[must_use]
pub fn method(name: &str) -> u64 {
    CONSUMER_METHODS.iter().position(|known| *known == name).map_or(0, |at| at as u64 + 1)
}
