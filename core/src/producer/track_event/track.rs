use crate::producer::TraceWriter;
use crate::proto::fields::{
    counter_descriptor, process_descriptor, thread_descriptor, trace_packet, track_descriptor,
};

/// A timeline: a process, a thread, a counter, or one of your own.
///
/// Its id is made of what it says, so that two writers that describe the same track mean the same one.
///
/// ```
/// use tracebuf::producer::track_event::{Track, Unit};
///
/// static GPU: Track<'static> = Track::custom("gpu");
/// static QUEUE: Track<'static> = Track::custom("queue").within(&GPU);
/// static DEPTH: Track<'static> = Track::counter("depth", Unit::Count).within(&QUEUE);
/// assert_ne!(GPU.uuid(), QUEUE.uuid());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Track<'a> {
    uuid: u64,
    parent: Option<&'a Track<'a>>,
    name: &'a str,
    kind: Kind,
}

/// What a descriptor holds beside id, parent and name.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// The number of the message for it, or 0.
    message: u32,
    /// Numbers in that message, field and value; field 0 is none.
    numbers: [(u32, u32); 2],
    /// The name's field in that message; 0: the name is the descriptor's own, whose field has the lowest
    /// number of all names'.
    name: u32,
}

/// What a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Anything else.
    Unspecified,
    /// Nanoseconds.
    Nanoseconds,
    /// Pieces.
    Count,
    /// Bytes.
    Bytes,
}

/// FNV-1a over bytes.
const fn hash(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut rest = bytes;
    while let Some((byte, later)) = rest.split_first() {
        hash = (hash ^ *byte as u64).wrapping_mul(0x100_0000_01B3);
        rest = later;
    }
    hash
}

const SEED: u64 = 0xCBF2_9CE4_8422_2325;

impl<'a> Track<'a> {
    /// A process by its id.
    pub const fn process(pid: u32, name: &'a str) -> Self {
        let uuid = hash(hash(SEED, b"p"), &pid.to_le_bytes());
        let numbers = [(process_descriptor::PID, pid), (0, 0)];
        let name_field = process_descriptor::PROCESS_NAME;
        Self::new(uuid, name, Kind { message: track_descriptor::PROCESS, numbers, name: name_field })
    }

    /// A thread by its ids; it belongs to the process of that `pid`, described or not.
    pub const fn thread(pid: u32, tid: u32, name: &'a str) -> Self {
        let uuid = hash(hash(hash(SEED, b"t"), &pid.to_le_bytes()), &tid.to_le_bytes());
        let numbers = [(thread_descriptor::PID, pid), (thread_descriptor::TID, tid)];
        let name_field = thread_descriptor::THREAD_NAME;
        Self::new(uuid, name, Kind { message: track_descriptor::THREAD, numbers, name: name_field })
    }

    /// A track by its name.
    pub const fn custom(name: &'a str) -> Self {
        let kind = Kind { message: 0, numbers: [(0, 0); 2], name: 0 };
        Self::new(hash(hash(SEED, b"u"), name.as_bytes()), name, kind)
    }

    /// A counter by its name.
    pub const fn counter(name: &'a str, unit: Unit) -> Self {
        let numbers = [(counter_descriptor::UNIT, unit as u32), (0, 0)];
        let kind = Kind { message: track_descriptor::COUNTER, numbers, name: 0 };
        Self::new(hash(hash(SEED, b"c"), name.as_bytes()), name, kind)
    }

    /// The same under a parent, which is described with it. The id is another.
    pub const fn within(self, parent: &'a Track<'a>) -> Self {
        // Processes and threads are told apart by their numbers already.
        let uuid = match self.kind.name {
            0 => hash(self.uuid, &parent.uuid.to_le_bytes()),
            _ => self.uuid,
        };
        Track { parent: Some(parent), ..Self::new(uuid, self.name, self.kind) }
    }

    const fn new(uuid: u64, name: &'a str, kind: Kind) -> Self {
        // 49 bits: a varint of at most seven bytes in each event on the track; 0 is no track.
        let uuid = (uuid ^ uuid >> 49) & ((1 << 49) - 1);
        Track { uuid: if uuid == 0 { 1 } else { uuid }, name, kind, parent: None }
    }

    /// The id, up to 2⁴⁹ − 1.
    pub const fn uuid(&self) -> u64 {
        self.uuid
    }

    pub(super) fn parent(&self) -> Option<&'a Track<'a>> {
        self.parent
    }

    /// Writes the description as a packet.
    pub(super) fn describe(&self, writer: &mut TraceWriter<'_>) {
        writer.begin();
        writer.open(trace_packet::TRACK_DESCRIPTOR);
        writer.number(track_descriptor::UUID, self.uuid);
        if let Some(parent) = self.parent {
            writer.number(track_descriptor::PARENT_UUID, parent.uuid);
        }
        let kind = self.kind;
        if kind.message != 0 {
            writer.open(kind.message);
        }
        for (field, value) in kind.numbers {
            if field != 0 {
                writer.number(field, u64::from(value));
            }
        }
        if kind.name == 0 && kind.message != 0 {
            writer.close_innermost();
        }
        writer.bytes(kind.name.max(track_descriptor::NAME), self.name.as_bytes());
        writer.finish();
    }
}
