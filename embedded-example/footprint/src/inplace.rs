//! Recording in place, and the host's view of it.

use crate::input::Input;
use crate::observe::{debug, show};
use core::hint::black_box;
use tracebuf::inplace::{
    Bits, ChunkView, Detail, Memory, Message, Record, Recorder, Region, RegionView, Sender, Timer, Value,
    Writer, linked_name,
};

static FIRST: Region<16, 32, 8> = Region::zeroed();
static SECOND: Region<64, 128, 16, 32> = Region::zeroed();

pub(crate) fn all(input: &mut Input<'_>, memory: &mut [u8]) {
    region(input, &FIRST, Bits::<24, _>(|| black_box(5)));
    region(input, &SECOND, || black_box(7));
    dump(memory);
}

fn region<M: Memory, T: Timer>(input: &mut Input<'_>, region: &'static M, timer: T) {
    let recorder = if input.bool() {
        Recorder::new(region, timer, input.u32())
    } else {
        let (recorder, found) = Recorder::attach_or_new(region, timer, input.u32());
        debug(found);
        recorder
    };
    recorder.keep_time();
    black_box((recorder.now(), recorder.dropped()));
    let writer = recorder.writer(input.text());
    events(input, &recorder, &writer);
    let mut copy = [0; 256];
    let room = copy.get_mut(..input.u16() as usize).unwrap_or_default();
    if let Some(chunk) = recorder.copy_chunk(room) {
        black_box(chunk.place());
        black_box(chunk.taken());
    }
    black_box(recorder.copy_open(input.u32(), room));
    let (mut sender, mut line) = (Sender::new(recorder), [0; 64]);
    sender.flush();
    let line = line.get_mut(..input.u16() as usize).unwrap_or_default();
    black_box((sender.fill(line), line));
}

fn events<M: Memory, T: Timer>(
    input: &mut Input<'_>,
    recorder: &Recorder<'static, M, T>,
    writer: &Writer<'static, M, T>,
) {
    let track = recorder.track(input.text(), input.u32());
    drop(writer.enter("slice"));
    writer.begin("slice");
    writer.end();
    writer.instant("instant");
    writer.count("count", input.u32() as i32);
    drop(writer.named(linked_name!("linked")).enter());
    writer.named(linked_name!("linked")).count(input.u32() as i32);
    writer.on(track).instant(linked_name!("linked too"));
    writer.count_i64("count", input.u64() as i64);
    writer.measure("measure", f32::from_bits(input.u32()));
    writer.named("slice").begin();
    writer.named("slice").end();
    writer.named("instant").instant();
    writer.named("count").count(input.u32() as i32);
    writer.named("count").count_i64(input.u64() as i64);
    writer.named("measure").measure(f32::from_bits(input.u32()));
    writer.switch_to(input.bool().then_some(track));
    writer.log(input.u16() as u8, "tag", input.text());
    writer.instant_with("details", |details| {
        details.arg("number", input.u32() as i32).arg_f32("fraction", 0.5).flow(input.u32());
        while input.bool() {
            details.arg_text("text", input.text());
        }
    });
    writer.begin_with("details", |details| {
        details.arg("number", 1);
    });
    let on = writer.on(track);
    on.begin("slice");
    on.end();
    on.instant("instant");
    on.begin_with("details", |details| {
        details.arg("number", 1);
    });
}

fn dump(memory: &[u8]) {
    if let Some(view) = RegionView::find(memory) {
        black_box((view.offset(), view.frequency(), view.starts(), view.dropped(), view.unnamed()));
        black_box((view.chunks_missing(), view.chunks_erased(), view.build(view.starts())));
        view.chunks().for_each(|one| chunk(Some(&view), &one));
    }
    if let Some(one) = ChunkView::of(memory) {
        chunk(None, &one);
    }
    let kind = memory.first().copied().unwrap_or_default();
    match Message::of(kind, memory) {
        Some(Message::Hello(hello)) => {
            black_box((hello.now, hello.frequency(), hello.starts(), hello.dropped(), hello.unnamed()));
            black_box((hello.chunk_words(), hello.chunks(), hello.names()));
        }
        Some(Message::Name { name, .. }) => {
            name.text.into_iter().flat_map(|text| text.bytes()).for_each(debug);
        }
        message => drop(black_box(message)),
    }
}

fn chunk(view: Option<&RegionView<'_>>, chunk: &ChunkView<'_>) {
    black_box((chunk.writer(), chunk.is_open(), chunk.start(), chunk.track(), chunk.number(), chunk.time()));
    for record in chunk.records() {
        match record {
            Ok((_, Record::Instant { name })) => {
                if let Some(name) = view.and_then(|view| view.name(name)) {
                    name.text.into_iter().flat_map(|text| text.bytes()).for_each(debug);
                }
            }
            Ok((_, Record::Detail(Detail::Arg(_, Value::Text(text))))) => text.bytes().for_each(debug),
            // Not shown: the text of a fraction is made by code of the language that can panic. It is the host's to show.
            Ok(record) => drop(black_box(record)),
            Err(error) => show(error),
        }
    }
}
