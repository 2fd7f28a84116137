//! The service that consumers call, and its methods.

/// The service that consumers call.
pub const CONSUMER_PORT: &str = "ConsumerPort";

/// Its methods, in the order of their numbers, from 1.
pub const CONSUMER_METHODS: [&str; 15] = [
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
];

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
