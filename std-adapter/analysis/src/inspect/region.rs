//! A region of a dump, inspected.

use std::collections::BTreeMap;

use tracebuf::buffer::{
    BufferStats, ReadOnlyTraceBuffer, RingChunk, RingContent, RingItem, RingView, Salvage, SequenceInfo,
};

use super::{ChunkLine, Inspection, SequenceLine, Span, SpanKind, programs};
use crate::recover::{Aligned, Dump, OnTheWay, Place, RecoverError};
use tracebuf_std::display::Count;

/// Numbers of sequences, by producer and writer.
type Numbers = BTreeMap<(u16, u16), usize>;

/// What lay in a gap before attaching, taken from the ring as it was found: the gap may have replaced dropped chunks
/// and earlier gaps.
fn before(found: &[u8], gap: &RingItem) -> Vec<Span> {
    let (mut at, end) = (u64::from(gap.offset), u64::from(gap.offset) + u64::from(gap.size));
    let mut spans = Vec::new();
    while at < end {
        let (len, kind) =
            gap_at(found, at).filter(|(len, _)| at + len <= end).unwrap_or((end - at, SpanKind::Unreadable));
        spans.push(Span { offset: at, len, kind, chunk: None });
        at += len;
    }
    spans
}

fn gap_at(ring: &[u8], at: u64) -> Option<(u64, SpanKind)> {
    let word = ring.get(usize::try_from(at).ok()?..)?.first_chunk()?;
    let (content, len) = RingContent::of_gap(*word)?;
    let kind = if content == RingContent::Padding { SpanKind::Padding } else { SpanKind::Free };
    Some((len.into(), kind))
}

impl Inspection {
    /// Examines a region in a dump.
    pub fn of_dump(dump: &Dump<'_>, place: Place) -> Result<Self, RecoverError> {
        // Recovery finds it, but gives up chunks that wait for more.
        let found = dump.find(place)?;
        let (stats, infos): (_, Vec<_>) = (found.buffer.stats(), found.buffer.sequences().collect());
        let (address, salvage, others) = (found.address, found.salvage, found.others);
        let shared = found.shared.filter(|shared| shared.chunks > 0).map(|shared| {
            format!("{shared}; `tracebuf recover` takes of them what the buffer does not have")
        });
        drop(found.buffer);
        let region = dump.region_at(address)?;
        let (buffer, _) =
            ReadOnlyTraceBuffer::attach(Aligned::copy_of(region)).map_err(RecoverError::Attach)?;
        let attached = buffer.into_memory();
        let view = RingView::find(attached.as_ref()).map_err(RecoverError::Attach)?;
        // The ring, as far as it is there.
        let found =
            RingView::place(region).ok().and_then(|ring| region.get(ring.start..)).unwrap_or_default();
        let OnTheWay { bytes, unreadable } = dump.on_the_way();
        let told = |bytes, what: &str| (bytes > 0).then(|| format!("{} {what}", Count(bytes, "byte")));
        let waiting = told(bytes, "on the way into the long trace: `tracebuf recover` takes them too");
        let in_slots = told(unreadable, "unreadable on the way into the long trace");
        let beside = [dump.damage().map(|damage| damage.to_string()), in_slots];
        let mut this = Self {
            title: format!("trace buffer at {address:#x}"),
            size: stats.buffer_size,
            losses: losses_of(&stats, &infos, &salvage)
                .into_iter()
                .chain(beside.into_iter().flatten())
                .collect(),
            notes: waiting.into_iter().chain(shared).collect(),
            programs: dump.kept().map(programs::of_kept).unwrap_or_default(),
            others,
            pieces: "chunk",
            ..Self::default()
        };
        let mut numbers: Numbers = infos.iter().map(|info| ((info.producer_id, info.writer_id), 0)).collect();
        // Numbered in the order of producers and writers.
        numbers.values_mut().zip(0..).for_each(|(number, next)| *number = next);
        this.sequences.resize_with(numbers.len(), SequenceLine::default);
        for info in &infos {
            let number = numbers.get(&(info.producer_id, info.writer_id)).copied().unwrap_or(0);
            if let Some(line) = this.sequences.get_mut(number) {
                (line.name, line.losses) = (name_of(info), losses_of_sequence(info));
            }
        }
        this.look_at(&view, found, &numbers);
        Ok(this)
    }

    fn look_at(&mut self, view: &RingView<'_>, found: &[u8], numbers: &Numbers) {
        (self.used, self.write) = (u64::from(view.used()), Some(u64::from(view.write_cursor())));
        if view.is_sealed() {
            self.losses.push("it was full and keeps the beginning: what came later is not in it".to_owned());
        }
        let mut oldest = 0;
        for item in view.items() {
            let (offset, len) = (u64::from(item.offset), u64::from(item.size));
            let RingContent::Chunk(chunk) = item.content else {
                self.spans.extend(before(found, &item));
                continue;
            };
            let Some(&number) = numbers.get(&(chunk.producer_id, chunk.writer_id)) else {
                self.spans.push(Span { offset, len, kind: SpanKind::Unreadable, chunk: None });
                continue;
            };
            let read = match chunk.read {
                0 => 0,
                read => (u64::from(RingChunk::HEADER) + u64::from(read)).min(len),
            };
            if let Some(line) = self.sequences.get_mut(number) {
                line.pieces += 1;
                line.bytes += len;
                line.unread += len - read;
            }
            let mut id = Some(chunk.chunk_id);
            if read > 0 {
                self.spans.push(Span { offset, len: read, kind: SpanKind::Read(number), chunk: id.take() });
            }
            if len > read {
                let kind = SpanKind::Unread(number);
                self.spans.push(Span { offset: offset + read, len: len - read, kind, chunk: id });
            }
            if chunk.read < chunk.valid && item.age > oldest {
                (oldest, self.oldest_unread) = (item.age, Some(offset));
            }
            let RingChunk { chunk_id, producer_id, writer_id, read, .. } = chunk;
            let (packets, bytes) = (Count(chunk.packets.into(), "packet"), Count(chunk.valid.into(), "byte"));
            let mut text = format!(
                "at {offset}: chunk {chunk_id} of producer {producer_id} writer {writer_id}, {packets}, {bytes}, \
                 {read} read"
            );
            for (name, _) in chunk.flags.iter_names() {
                text += &format!(", {}", name.to_ascii_lowercase().replace('_', " "));
            }
            for (is, what) in [
                (!chunk.complete, ", scraped"),
                (chunk.truncated, ", truncated"),
                (chunk.aborted, ", aborted"),
            ] {
                text.push_str(if is { what } else { "" });
            }
            self.chunks.push(ChunkLine { age: item.age, text });
        }
        self.chunks.sort_by_key(|chunk| std::cmp::Reverse(chunk.age));
    }
}

fn name_of(info: &SequenceInfo) -> String {
    let SequenceInfo { producer_id, writer_id, pid, .. } = info;
    let process = if *pid == -1 { String::new() } else { format!(", process {pid}") };
    format!("producer {producer_id} writer {writer_id}{process}")
}

/// Describes those counts that are not zero.
fn of_those_that_are(counts: &[(Count, &str)]) -> impl Iterator<Item = String> {
    counts.iter().filter(|(count, _)| count.0 > 0).map(|(count, what)| format!("{count} {what}"))
}

fn losses_of_sequence(info: &SequenceInfo) -> String {
    let counts = [
        (Count(info.packets_evicted, "packet"), "overwritten"),
        (Count(info.packets_broken, "packet"), "in pieces"),
        (Count(info.chunks_malformed, "chunk"), "malformed"),
    ];
    of_those_that_are(&counts).collect::<Vec<_>>().join(", ")
}

fn losses_of(stats: &BufferStats, infos: &[SequenceInfo], salvage: &Salvage) -> Vec<String> {
    let sum = |count: fn(&SequenceInfo) -> u64| infos.iter().map(count).sum::<u64>();
    let counters = [
        (Count(stats.chunks_overwritten, "chunk"), "overwritten unread"),
        (Count(stats.chunks_discarded, "chunk"), "came too late or did not fit"),
        (Count(stats.chunks_refused, "chunk"), "refused"),
        (Count(stats.abi_violations, "chunk"), "broke the rules"),
        (Count(stats.patches_failed, "patch"), "came too late"),
        (Count(stats.trace_writer_packet_loss, "packet"), "given up by the writer"),
        // No counter of the buffer counts what readers find.
        (Count(sum(|info| info.packets_broken), "packet"), "could not be put together"),
        (Count(sum(|info| info.chunks_malformed), "chunk"), "malformed"),
    ];
    let mut losses: Vec<String> = of_those_that_are(&counters).collect();
    if !salvage.is_clean() {
        losses.push(format!("when it was found: {salvage}"));
    }
    losses
}
