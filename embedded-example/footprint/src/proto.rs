//! The trace format.

use crate::input::Input;
use crate::observe::{Nowhere, debug, ok, show};
use core::hint::black_box;
use core::iter;
use tracebuf::proto::reader::{Fields, message, messages, number, numbers};
use tracebuf::proto::trace_stats::{
    BufferStats, CHUNK_HISTOGRAM_BUCKETS, ChunkHistogram, FinalFlush, TraceStats, TraceStatsPacket,
    WriterStats,
};
use tracebuf::proto::{
    Encoder, Measure, Message, PacketValidator, PacketView, SequenceId, Sink, TraceFileWriter, TracePackets,
    TrustedFields, is_service_only, varint,
};

pub(crate) fn all(input: &mut Input<'_>, memory: &mut [u8]) {
    varints(input, memory);
    encoders(input, memory);
    validation(input);
    files(input);
    statistics(input);
    reading(input, memory);
    #[cfg(feature = "default")]
    frames(input, memory);
}

fn varints(input: &mut Input<'_>, memory: &mut [u8]) {
    black_box(varint::len(input.u64()));
    black_box(varint::decode(input.slice()));
    black_box(varint::split(input.slice()));
    black_box(varint::encode(input.u64(), memory));
    black_box(varint::encode_redundant(input.u32()));
}

fn encoders(input: &mut Input<'_>, memory: &mut [u8]) {
    let mut encoder = Encoder::new(memory);
    ok(fields(input, &mut encoder));
    let nested = encoder.nested(input.u32(), |inner| inner.nested(input.u32(), |inner| fields(input, inner)));
    debug((nested, &encoder, encoder.len(), encoder.is_empty()));
    let _ = black_box(encoder.finish());

    let mut measure = Measure::default();
    let Ok(()) = fields(input, &mut measure);
    debug((measure, measure.len(), measure.is_empty()));
}

fn fields<S: Sink>(input: &mut Input<'_>, out: &mut S) -> Result<(), S::Error> {
    out.varint(input.u32(), input.u64())?;
    out.int(input.u32(), input.u64() as i64)?;
    out.bool(input.u32(), input.bool())?;
    out.fixed64(input.u32(), input.u64())?;
    out.double(input.u32(), f64::from_bits(input.u64()))?;
    out.length(input.u32(), input.u32() as usize)?;
    out.bytes(input.u32(), input.slice())?;
    out.string(input.u32(), input.text())?;
    out.message(input.u32(), &trusted(input))?;
    out.packed(input.u32(), input.slice().iter().map(|byte| u64::from(*byte) << 20))?;
    out.put(input.slice())
}

pub(crate) fn id(input: &mut Input<'_>) -> SequenceId {
    SequenceId::new(input.u32()).unwrap_or(SequenceId::FIRST_WRITER)
}

fn trusted(input: &mut Input<'_>) -> TrustedFields {
    TrustedFields {
        pid: input.bool().then(|| input.u32() as i32),
        previous_packet_dropped: input.u32(),
        machine_id: input.bool().then(|| input.u32()),
        ..TrustedFields::new(input.u32(), id(input))
    }
}

fn validation(input: &mut Input<'_>) {
    black_box(is_service_only(input.u32()));
    let fragments = [input.slice(), input.slice(), input.slice()];
    debug(ok(PacketValidator::check(fragments)));
    let mut validator = PacketValidator::default();
    while input.bool() {
        if let Err(error) = validator.push(input.slice()) {
            show(error.fault);
        }
    }
    debug(&validator);
    let _ = black_box(validator.finish());
}

fn files(input: &mut Input<'_>) {
    let mut file = TraceFileWriter::new(Nowhere);
    while input.bool() {
        let trusted = trusted(input);
        debug((trusted, trusted.suffix(), trusted.suffix().as_bytes()));
        let fragments = [input.slice(), input.slice()];
        ok(file.packet(fragments, &trusted));
        let _ = black_box(file.message(&trusted, &trusted));
    }
    debug((file.flush(), file.packets(), file.bytes()));
    debug(file.into_output());

    let mut packets = TracePackets::new(input.slice());
    for packet in packets.by_ref() {
        black_box(ok(packet));
    }
    debug((packets.offset(), packets));
}

fn statistics(input: &mut Input<'_>) {
    let buffer = BufferStats { bytes_written: input.u64(), chunks_read: input.u64(), ..Default::default() };
    let histogram = ChunkHistogram {
        counts: [input.u64(); CHUNK_HISTOGRAM_BUCKETS],
        sums: [input.u64(); CHUNK_HISTOGRAM_BUCKETS],
    };
    let writer = WriterStats {
        sequence_id: id(input),
        buffer: input.u32(),
        histogram: input.bool().then_some(histogram),
    };
    let buffers = [buffer, buffer];
    let stats = TraceStats {
        buffers: buffers.get(..input.u32() as usize).unwrap_or_default(),
        final_flush: if input.bool() { FinalFlush::Failed } else { FinalFlush::Succeeded },
        invalid_packets: input.u64(),
        ..Default::default()
    };
    debug((writer, &stats));
    let stats = stats.with_writers(iter::repeat_n(writer, usize::from(input.u16())));
    let packet = TraceStatsPacket { timestamp: input.bool().then(|| input.u64()), stats };
    black_box(packet.encoded_len());
    let _ = black_box(TraceFileWriter::new(Nowhere).message(&packet, &trusted(input)));
}

fn reading(input: &mut Input<'_>, memory: &mut [u8]) {
    let bytes = input.slice();
    let mut fields = Fields::of(bytes);
    fields.by_ref().for_each(debug);
    black_box((fields.is_at_end(), message(bytes, input.u32()), number(bytes, input.u32())));
    messages(bytes, input.u32()).for_each(debug);
    black_box(numbers(bytes, [input.u32(), input.u32()]));
    let packet = PacketView::of_file(bytes).unwrap_or_else(|| PacketView::of(bytes));
    black_box((packet.begins_state(), packet.needs_state(), packet.clocks().count()));
    let _ = black_box(packet.write_to(input.bool(), &mut Encoder::new(memory)));
    debug(packet);
}

#[cfg(feature = "default")]
fn frames(input: &mut Input<'_>, memory: &mut [u8]) {
    use tracebuf::proto::frame::{FRAME, FrameDecoder, FrameEncoder};
    let (mut encoder, mut line) = (FrameEncoder::new(), [0; FRAME]);
    debug((encoder.is_beginning(), encoder.encode(input.u32() as u8, input.slice(), &mut line), encoder));
    let (mut decoder, mut line) = (FrameDecoder::new(memory), input.slice());
    while let Some(frame) = decoder.next(&mut line) {
        debug((frame, frame.map_err(|corrupt| corrupt.may_be_frame())));
    }
    debug((decoder.is_within_frame(), decoder));
}
