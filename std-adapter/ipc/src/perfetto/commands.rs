//! What programs are told: replies of Perfetto's `ProducerPort`, with the commands among them.
//!
//! Facts from `protos/perfetto/ipc/producer_port.proto`.

use super::proto::Proto;

// Fields of the reply to programs that say who they are.
const VERSIONS: u32 = 4;
/// Shared memory of pages and chunks; another kind is a ring for each.
pub(super) const PAGES: u32 = 1;

// Fields of commands, and of the messages within them.
const START: u32 = 1;
const SETUP_TRACING: u32 = 3;
const FLUSH: u32 = 5;
const SETUP: u32 = 6;
const CLEAR_STATE: u32 = 7;
const PAGE_KIB: u32 = 1;
const INSTANCE: u32 = 1;
const CONFIG: u32 = 2;
const INSTANCES: u32 = 1;
const FLUSH_REQUEST: u32 = 2;

/// Accepts a program that has said which kinds of shared memory it can have: memory that it brings is not used, nor may
/// it patch sizes in memory. `None` if it cannot have pages.
pub(super) fn initialized(memory: u32) -> Option<Proto> {
    match memory {
        0 => Some(Proto::new()),
        some => (some & PAGES != 0).then(|| Proto::new().number(VERSIONS, PAGES)),
    }
}

/// Sent with the file of its shared memory, which has pages of this many KiB.
pub(super) fn setup_tracing(page_kib: u32) -> Proto {
    Proto::new().message(SETUP_TRACING, &Proto::new().number(PAGE_KIB, page_kib))
}

/// Prepares a data source.
pub(super) fn setup(instance: u64, config: &Proto) -> Proto {
    of_instance(SETUP, instance, config)
}

/// Starts a data source.
pub(super) fn start(instance: u64, config: &Proto) -> Proto {
    of_instance(START, instance, config)
}

fn of_instance(command: u32, instance: u64, config: &Proto) -> Proto {
    Proto::new().message(command, &Proto::new().number(INSTANCE, instance).message(CONFIG, config))
}

/// Asks these data sources to send what they have.
pub(super) fn flush(request: u64, instances: impl IntoIterator<Item = u64>) -> Proto {
    let flush = Proto::new().each(instances, |flush, id| flush.number(INSTANCES, id));
    Proto::new().message(FLUSH, &flush.number(FLUSH_REQUEST, request))
}

/// Asks these data sources to repeat their names and clocks.
pub(super) fn clear_state(instances: impl IntoIterator<Item = u64>) -> Proto {
    let clear = Proto::new().each(instances, |clear, id| clear.number(INSTANCES, id));
    Proto::new().message(CLEAR_STATE, &clear)
}
