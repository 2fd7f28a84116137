//! An event of the kernel as a message of Perfetto's: its own, or one that the trace describes.

use tracebuf::proto::fields::{
    descriptor_proto, field_descriptor_proto, field_type, ftrace_event, generic_event_descriptor,
};
use tracebuf::proto::{Message, Sink};

use super::addresses::{ConstantTexts, Indices};
use super::events_table::EVENTS;
use super::format::{EventFormat, FormatField, int, uint};
use super::kind::{Kind, ProtoType};
use super::threads::SeenThreads;

/// Groups of drivers whose messages have other names than their events.
const OF_OTHER_NAMES: [&str; 9] =
    ["mdss", "sde", "mali", "dpu", "g2d", "samsung", "lwis", "kgsl", "hypervisor"];
/// Events after which a thread has another name: that of a new one whose number was another's, or by its own wish.
const RENAMING: [&str; 2] = ["task_newtask", "task_rename"];
/// Fields of a message that a trace describes: trace processor takes no more.
const MAX_GENERIC_FIELDS: usize = 31;

/// The way an event goes into a trace.
#[derive(Debug)]
pub(super) struct EventMessage {
    /// Its number in `FtraceEvent`.
    number: u32,
    fields: Vec<(u32, Kind, FormatField)>,
    pid: FormatField,
    /// Fields of its own that name threads.
    threads: Vec<FormatField>,
    /// Whether the thread that it names is new, or has another name from now on.
    renames: bool,
    /// A record must not be shorter.
    pub(super) min_len: usize,
    /// `GenericEventDescriptor` of an event that Perfetto has no message for.
    pub(super) descriptor: Option<Vec<u8>>,
}

/// What is behind the kernel's addresses.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    pub(super) texts: ConstantTexts,
    pub(super) indices: Indices,
}

impl EventMessage {
    /// For an event of this group and format; if Perfetto has no message for it, with this number.
    pub(super) fn new(group: &str, format: &EventFormat, generic: u32) -> Option<Self> {
        Self::known(group, format).or_else(|| Self::generic(group, format, generic))
    }

    fn known(group: &str, format: &EventFormat) -> Option<Self> {
        let by_name = EVENTS.iter().filter(|_| !OF_OTHER_NAMES.contains(&group));
        let (number, _, proto_fields) = by_name.into_iter().find(|(_, name, _)| *name == format.name)?;
        let named = proto_fields.split_ascii_whitespace().filter_map(|field| {
            let (name, rest) = field.split_once('=')?;
            let (number, letter) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
            Some((number.parse().ok()?, ProtoType::of(letter)?, format.field(name)?))
        });
        let named: Vec<(u32, ProtoType, &FormatField)> = named.collect();
        let end = named.iter().map(|(_, _, field)| field.end()).max().unwrap_or(0);
        let fitting = named.into_iter().filter_map(|(number, proto, field)| {
            let kind = field.kind.filter(|kind| kind.fits(proto))?;
            Some((number, kind, field.clone()))
        });
        let fields: Vec<_> = fitting.collect();
        // An event of the same name that is another: on x86, those of KVM, whose messages are Arm's.
        if fields.is_empty() && !format.fields.is_empty() && format.name != "print" {
            return None;
        }
        Self::of(*number, fields, end, format)
    }

    fn generic(group: &str, format: &EventFormat, number: u32) -> Option<Self> {
        let kinds = format.fields.iter().filter_map(|field| Some((field.kind?, field)));
        let kinds = kinds.filter(|(kind, _)| *kind != Kind::Arguments).take(MAX_GENERIC_FIELDS);
        let fields = (1..).zip(kinds).map(|(number, (kind, field))| (number, kind, field.clone()));
        let fields: Vec<_> = fields.collect();
        let mut descriptor = Vec::new();
        let Ok(()) =
            (Descriptor { number, group, name: &format.name, fields: &fields }).encode(&mut descriptor);
        // Those that a trace has no place for, too.
        let end = format.fields.iter().map(FormatField::end).max().unwrap_or(0);
        Some(Self { descriptor: Some(descriptor), ..Self::of(number, fields, end, format)? })
    }

    fn of(
        number: u32,
        fields: Vec<(u32, Kind, FormatField)>,
        end: usize,
        format: &EventFormat,
    ) -> Option<Self> {
        let common = format.common.iter().map(FormatField::end).max();
        let pid = format.common("common_pid")?.clone();
        let min_len = end.max(common.unwrap_or(0));
        let threads = format.fields.iter().filter(|field| field.kind == Some(Kind::Pid)).cloned().collect();
        let renames = RENAMING.contains(&format.name.as_str());
        Some(Self { number, fields, pid, threads, renames, min_len, descriptor: None })
    }

    /// Notes the threads that a record names.
    pub(super) fn note_threads(&self, record: &[u8], seen: &mut SeenThreads) {
        self.pid.bytes(record).into_iter().for_each(|pid| seen.see(int(pid)));
        for thread in self.threads.iter().filter_map(|field| field.bytes(record)).map(int) {
            if self.renames { seen.see_again(thread) } else { seen.see(thread) }
        }
    }

    /// `FtraceEvent` of a record. `None` if the record is too short or points outside of itself. Its own message is made in
    /// `message`.
    pub(super) fn event<'m>(
        &self,
        timestamp: u64,
        record: &[u8],
        addresses: &mut Addresses,
        message: &'m mut Vec<u8>,
    ) -> Option<Event<'m>> {
        message.clear();
        record.get(..self.min_len)?;
        self.message(record, addresses, message)?;
        let pid = self.pid.bytes(record).map_or(0, uint);
        Some(Event { timestamp, pid, number: self.number, message })
    }

    fn message(&self, record: &[u8], addresses: &mut Addresses, out: &mut Vec<u8>) -> Option<()> {
        for (number, kind, field) in &self.fields {
            let (number, value) = (*number, field.bytes(record)?);
            let Ok(()) = match kind {
                Kind::Text => out.bytes(number, up_to_nul(value)),
                Kind::TextToEnd => out.bytes(number, up_to_nul(record.get(field.offset..)?)),
                Kind::Located { is_relative, is_bytes } => {
                    let place = uint(value) as usize;
                    let start = if *is_relative { field.end() } else { 0 } + (place & 0xFFFF);
                    let bytes = match place >> 16 {
                        0 => &[][..],
                        len => record.get(start..)?.get(..len)?,
                    };
                    out.bytes(number, if *is_bytes { bytes } else { up_to_nul(bytes) })
                }
                Kind::TextAddress => out.string(number, addresses.texts.at(uint(value))),
                Kind::Symbol => out.varint(number, addresses.indices.of(uint(value)).into()),
                Kind::Device => out.varint(number, user_device(uint(value))),
                Kind::Int(_) | Kind::Pid => out.int(number, int(value)),
                Kind::Uint(_) | Kind::Bool | Kind::Inode => out.varint(number, uint(value)),
                Kind::Arguments => {
                    let Ok(()) =
                        value.chunks_exact(field.size / 6).try_for_each(|one| out.varint(number, uint(one)));
                    Ok(())
                }
            };
        }
        Some(())
    }
}

/// `FtraceEvent`.
#[derive(Debug)]
pub(super) struct Event<'m> {
    timestamp: u64,
    pid: u64,
    number: u32,
    message: &'m [u8],
}

impl Message for Event<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.varint(ftrace_event::TIMESTAMP, self.timestamp)?;
        out.varint(ftrace_event::PID, self.pid)?;
        out.bytes(self.number, self.message)
    }
}

fn up_to_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// A device as programs encode it, of one as the kernel does: 12 bits of major number and 20 of minor.
const fn user_device(device: u64) -> u64 {
    let (major, minor) = (device >> 20, device & 0xF_FFFF);
    (major & 0xFFFF_F000) << 32 | (major & 0xFFF) << 8 | (minor & 0xFFFF_FF00) << 12 | minor & 0xFF
}

/// `GenericEventDescriptor`.
struct Descriptor<'a> {
    number: u32,
    group: &'a str,
    name: &'a str,
    fields: &'a [(u32, Kind, FormatField)],
}

impl Message for Descriptor<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.int(generic_event_descriptor::FIELD_ID, self.number.into())?;
        let message = MessageDescriptor { name: self.name, fields: self.fields };
        out.message(generic_event_descriptor::EVENT_DESCRIPTOR, &message)?;
        out.string(generic_event_descriptor::GROUP_NAME, self.group)
    }
}

struct MessageDescriptor<'a> {
    name: &'a str,
    fields: &'a [(u32, Kind, FormatField)],
}

impl Message for MessageDescriptor<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        out.string(descriptor_proto::NAME, self.name)?;
        self.fields.iter().try_for_each(|field| out.message(descriptor_proto::FIELD, &FieldDescriptor(field)))
    }
}

struct FieldDescriptor<'a>(&'a (u32, Kind, FormatField));

impl Message for FieldDescriptor<'_> {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        let (number, kind, field) = self.0;
        let field_type = match kind {
            Kind::Located { is_bytes: true, .. } => field_type::BYTES,
            Kind::Text | Kind::TextToEnd | Kind::TextAddress | Kind::Located { .. } => field_type::STRING,
            Kind::Int(_) | Kind::Pid => field_type::INT64,
            _ => field_type::UINT64,
        };
        out.string(field_descriptor_proto::NAME, &field.name)?;
        out.int(field_descriptor_proto::NUMBER, (*number).into())?;
        out.varint(field_descriptor_proto::TYPE, field_type)
    }
}

#[cfg(test)]
mod tests;
