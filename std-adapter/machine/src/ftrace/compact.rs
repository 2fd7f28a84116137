//! Scheduling as lists: `CompactSched`.

use tracebuf::proto::fields::compact_sched as field;
use tracebuf::proto::{Message, Sink};

use super::format::{EventFormat, FormatField, int};
use super::kind::Kind;

/// Names in the table at which a bundle ends with the next page.
const MANY_NAMES: usize = 64;

/// Where the fields of `sched_switch` and `sched_waking` are, if they are as the lists need them.
#[derive(Debug)]
pub(super) struct CompactFormat {
    switch: Places<3>,
    waking: Option<Places<4>>,
}

/// Where the fields of an event are.
#[derive(Debug)]
struct Places<const N: usize> {
    min_len: usize,
    name: FormatField,
    numbers: [FormatField; N],
}

impl<const N: usize> Places<N> {
    fn new(format: &EventFormat, name: &str, numbers: [(&str, &[Kind]); N]) -> Option<Self> {
        let name = format.field(name).filter(|name| name.kind == Some(Kind::Text) && name.size == 16)?;
        let found = numbers.map(|(name, kinds)| {
            let field = format.field(name).or_else(|| format.common(name))?;
            kinds.contains(&field.kind?).then(|| field.clone())
        });
        let numbers: Vec<_> = found.into_iter().collect::<Option<_>>()?;
        let min_len = format.common.iter().chain(&format.fields).map(FormatField::end).max()?;
        Some(Self { min_len, name: name.clone(), numbers: numbers.try_into().ok()? })
    }

    /// The name, zeros after its end, and the numbers; `None` if the record is too short.
    fn read(&self, record: &[u8]) -> Option<(u128, [i64; N])> {
        record.get(..self.min_len)?;
        let name = u128::from_le_bytes(*self.name.bytes(record)?.first_chunk()?);
        let numbers = self.numbers.each_ref().map(|field| field.bytes(record).map_or(0, int));
        Some((cut_at_nul(name), numbers))
    }
}

/// The bytes of a name before its first NUL.
fn cut_at_nul(name: u128) -> u128 {
    const ONES: u128 = u128::from_le_bytes([1; 16]);
    const HIGHS: u128 = ONES << 7;
    // The lowest bit that is set is at the first NUL.
    let zeros = name.wrapping_sub(ONES) & !name & HIGHS;
    if zeros == 0 { name } else { name & ((1 << (zeros.trailing_zeros() - 7)) - 1) }
}

impl CompactFormat {
    /// `None` unless the fields of the two events are as the lists need them. `waking` is absent if its format is unknown.
    pub(super) fn new(switch: &EventFormat, waking: Option<&EventFormat>) -> Option<Self> {
        let (state, pid) = (&[Kind::Int(4), Kind::Int(8)][..], &[Kind::Pid][..]);
        let (int32, flags) = (&[Kind::Int(4)][..], &[Kind::Uint(1)][..]);
        let of_switch = [("prev_state", state), ("next_pid", pid), ("next_prio", int32)];
        let of_waking = [("pid", pid), ("target_cpu", int32), ("prio", int32), ("common_flags", flags)];
        let switch = Places::new(switch, "next_comm", of_switch)?;
        let waking = match waking {
            Some(waking) => Some(Places::new(waking, "comm", of_waking)?),
            None => None,
        };
        Some(Self { switch, waking })
    }
}

/// One kind of event: times and values, packed, and the names' indices.
#[derive(Debug)]
struct Lists<const N: usize> {
    last: u64,
    times: Vec<u8>,
    values: [Vec<u8>; N],
    names: Vec<u8>,
}

impl<const N: usize> Default for Lists<N> {
    fn default() -> Self {
        Self { last: 0, times: Vec::new(), values: std::array::from_fn(|_| Vec::new()), names: Vec::new() }
    }
}

impl<const N: usize> Lists<N> {
    fn push(&mut self, time: u64, name: usize, values: [i64; N]) {
        push(&mut self.times, time.wrapping_sub(self.last));
        self.last = time;
        self.values.iter_mut().zip(values).for_each(|(list, value)| push(list, value as u64));
        push(&mut self.names, name as u64);
    }

    fn len(&self) -> usize {
        self.times.len() + self.names.len() + self.values.iter().map(Vec::len).sum::<usize>()
    }

    /// Writes the lists that there are, as fields of these numbers.
    fn write<S: Sink>(&self, time: u32, values: [u32; N], names: u32, out: &mut S) -> Result<(), S::Error> {
        let lists = self.values.iter().zip(values);
        let mut lists = lists.chain([(&self.times, time), (&self.names, names)]);
        lists.try_for_each(|(list, number)| if list.is_empty() { Ok(()) } else { out.bytes(number, list) })
    }

    fn clear(&mut self) {
        self.values.iter_mut().chain([&mut self.times, &mut self.names]).for_each(Vec::clear);
        self.last = 0;
    }
}

/// Appends a varint. Nearly all are of one or two bytes.
fn push(list: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        list.push(value as u8 | 0x80);
        value >>= 7;
    }
    list.push(value as u8);
}

/// The scheduling events of a bundle.
#[derive(Debug, Default)]
pub(super) struct CompactSched {
    names: Vec<u128>,
    switches: Lists<3>,
    wakings: Lists<4>,
}

impl CompactSched {
    /// Adds a switch, and returns the next thread; `None` if the record is shorter than its format.
    pub(super) fn switch(&mut self, format: &CompactFormat, time: u64, record: &[u8]) -> Option<i64> {
        let (name, [state, pid, prio]) = format.switch.read(record)?;
        let name = self.name(name);
        self.switches.push(time, name, [state, pid, prio]);
        Some(pid)
    }

    /// Adds a waking, and returns the thread that is woken; `None` if the record is shorter than its format.
    pub(super) fn waking(&mut self, format: &CompactFormat, time: u64, record: &[u8]) -> Option<i64> {
        let (name, [pid, cpu, prio, flags]) = format.waking.as_ref()?.read(record)?;
        let name = self.name(name);
        self.wakings.push(time, name, [pid, cpu, prio, flags & 0xFF]);
        Some(pid)
    }

    /// The index of a name. There are few, and the newest are met most often.
    fn name(&mut self, name: u128) -> usize {
        self.names.iter().rposition(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        })
    }

    /// Whether looking for names has become dear.
    pub(super) const fn has_many_names(&self) -> bool {
        self.names.len() > MANY_NAMES
    }

    /// Bytes that it takes, nearly.
    pub(super) fn len(&self) -> usize {
        self.names.len() * 18 + self.switches.len() + self.wakings.len()
    }

    /// Whether there was no event.
    pub(super) const fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Begins anew.
    pub(super) fn clear(&mut self) {
        self.names.clear();
        self.switches.clear();
        self.wakings.clear();
    }
}

impl Message for CompactSched {
    fn encode<S: Sink>(&self, out: &mut S) -> Result<(), S::Error> {
        for name in &self.names {
            let (bytes, len) = (name.to_le_bytes(), 16 - name.leading_zeros() as usize / 8);
            out.bytes(field::INTERN_TABLE, bytes.get(..len).unwrap_or_default())?;
        }
        let of_switches = [field::SWITCH_PREV_STATE, field::SWITCH_NEXT_PID, field::SWITCH_NEXT_PRIO];
        self.switches.write(field::SWITCH_TIMESTAMP, of_switches, field::SWITCH_NEXT_COMM_INDEX, out)?;
        let of_wakings =
            [field::WAKING_PID, field::WAKING_TARGET_CPU, field::WAKING_PRIO, field::WAKING_COMMON_FLAGS];
        self.wakings.write(field::WAKING_TIMESTAMP, of_wakings, field::WAKING_COMM_INDEX, out)
    }
}
