//! Messages that are still open when their packet needs another chunk: held back, patched, or given up.

use crate::model::*;
use crate::writer::*;
use tracebuf::producer::*;

#[cfg(feature = "patches")]
#[test]
fn a_packet_of_two_chunks_is_patched_in_place_and_one_of_three_by_patches() {
    let (model, mut writer) = only_writer(8, 256, Pace::Prompt, Exhaustion::Drop);
    write(&mut writer, 0, 400);
    writer.flush();
    assert_eq!(model.state().patches, 0);
    let flags = |id: u32| model.state().chunks[&(1, id)].header.flags;
    assert_eq!(flags(0), HeaderFlags::CONTINUES_ON_NEXT);
    assert_eq!(flags(1), HeaderFlags::CONTINUES_FROM_PREVIOUS);
    write(&mut writer, 1, 600);
    writer.flush();
    assert_eq!(model.state().patches, 2);
    for (n, len) in [400, 600].into_iter().enumerate() {
        check(model.packets(1)[n].as_ref().unwrap(), n, len);
    }
}

#[cfg(feature = "patches")]
#[test]
fn patches_go_out_with_the_end_of_their_packet() {
    let (model, mut writer) = only_writer(64, 64, Pace::Prompt, Exhaustion::Drop);
    writer.packet().message(5).bytes(1, &[7; 300]);
    assert!(model.state().patches > 0);
}

#[cfg(feature = "patches")]
#[test]
fn deep_messages_over_many_chunks_use_no_more_than_the_bounded_list_of_patches() {
    let count = if cfg!(miri) { 40 } else { 500 };
    let (model, mut writer) = only_writer(32, 56, Pace::Prompt, Exhaustion::Drop);
    {
        let mut packet = writer.packet();
        let mut outer = packet.message(FOR_TESTING);
        for i in 0..count {
            let mut a = outer.message(5);
            a.string(1, &text(i, 21));
            let mut b = a.message(5);
            b.string(1, &text(i, 11));
        }
    }
    writer.flush();
    let packets = model.packets(1);
    assert_eq!((packets.len(), writer.stats().dropped), (1, 0));
    let outer = fields(packets[0].as_ref().unwrap())[1].1.inside();
    assert_eq!(outer.len(), count);
    for (i, (_, a)) in outer.iter().enumerate() {
        let a = a.inside();
        assert_eq!(a[0].1, Value::Bytes(text(i, 21).into_bytes()));
        assert_eq!(a[1].1.inside()[0].1, Value::Bytes(text(i, 11).into_bytes()));
    }
}

#[cfg(feature = "patches")]
#[test]
fn a_scrape_at_any_moment_of_a_long_packet_never_contradicts_what_is_sent_later() {
    for step in (0..40).step_by(if cfg!(miri) { 13 } else { 1 }) {
        let (model, mut writer) = only_writer(16, 64, Pace::Lazy, Exhaustion::Drop);
        write(&mut writer, 0, 3);
        {
            let mut packet = writer.packet();
            packet.varint(8, 1);
            let mut outer = packet.message(FOR_TESTING);
            outer.varint(4, 1);
            let mut inner = outer.message(5);
            for i in 0..40 {
                if i == step {
                    model.scrape();
                    let before = model.packets(1);
                    assert_eq!(before.len(), 1, "the first packet, and nothing of the second");
                }
                inner.bytes(1, &[i; 9]);
            }
        }
        model.scrape();
        write(&mut writer, 2, 3);
        model.scrape();
        writer.flush();
        model.drain();
        let packets = model.packets(1);
        assert_eq!(packets.len(), 3);
        check(packets[2].as_ref().unwrap(), 2, 3);
        let inner = fields(packets[1].as_ref().unwrap())[1].1.inside()[1].1.inside();
        assert_eq!(inner.len(), 40);
    }
}

#[test]
fn a_packet_given_up_in_the_middle_is_marked_and_nothing_waits_for_its_patches() {
    let (model, mut writer) = only_writer(4, 64, Pace::Absent(0), Exhaustion::Drop);
    write(&mut writer, 0, 1000);
    assert_eq!(writer.stats().dropped, 1);
    model.drain();
    write(&mut writer, 1, 10);
    writer.flush();
    model.drain();
    let packets = model.packets(1);
    assert_eq!(packets.len(), 2);
    assert_eq!(packets[0], None);
    let next = fields(packets[1].as_ref().unwrap());
    // Without patches, not for want of a chunk: it would have needed a third.
    let cause = if cfg!(feature = "patches") { 257 } else { 1 };
    assert_eq!(next[..2], [(87, Value::Int(1)), (42, Value::Int(cause))]);
    check(packets[1].as_ref().unwrap(), 1, 10);
}

#[cfg(all(feature = "patches", not(miri)))]
#[test]
fn a_message_over_more_chunks_than_a_patch_finds_its_way_back_over_gives_its_packet_up() {
    // The room that a chunk of 256 bytes has after its header and a fragment's size.
    const ROOM: usize = 256 - 8 - 4;
    let most = TraceWriter::MAX_PATCHED as usize;
    let (model, mut writer) = only_writer(8, 256, Pace::Prompt, Exhaustion::Drop);
    let mut chunks = 0;
    let mut write = |writer: &mut TraceWriter<'_>, len: usize, is_open: bool| {
        let bytes = vec![7; len];
        if is_open {
            writer.packet().message(FOR_TESTING).bytes(1, &bytes);
        } else {
            writer.packet().bytes(1, &bytes);
        }
        writer.flush();
        let before = std::mem::replace(&mut chunks, writer.stats().chunks);
        (chunks - before, writer.stats().dropped)
    };
    let (last, dropped) = write(&mut writer, (most - 1) * ROOM, true);
    assert!(dropped == 0 && last as usize <= most + 1, "{last} chunks");
    let (cut, dropped) = write(&mut writer, (most + 2) * ROOM, true);
    assert_eq!((cut, dropped, writer.stats().over_limit), (most as u64 + 2, 1, 1));
    // Without an open message there is nothing to patch.
    assert_eq!(write(&mut writer, (most + 2) * ROOM, false).1, 1);
    let packets = model.packets(1);
    let sizes: Vec<_> = packets.iter().map(|packet| packet.as_ref().map_or(0, Vec::len) / ROOM).collect();
    assert_eq!(sizes, [most - 1, 0, most + 2]);
    assert_eq!(fields(packets[2].as_ref().unwrap())[0], (42, Value::Int(1)));
}

/// With the feature it is given up only when the list of patches is full: see `full_list`.
#[cfg(not(feature = "patches"))]
#[test]
fn without_patches_a_packet_is_given_up_when_it_needs_a_third_chunk_with_a_message_of_the_first_open() {
    for policy in [Exhaustion::Drop, Exhaustion::Stall, Exhaustion::StallThenDrop] {
        let (model, mut writer) = only_writer(8, 256, Pace::Prompt, policy);
        write(&mut writer, 0, 400);
        write(&mut writer, 1, 600);
        write(&mut writer, 2, 10);
        // Without an open message the packet has as many chunks as it needs.
        writer.packet().bytes(1, &[7; 1000]);
        writer.flush();
        let stats = writer.stats();
        assert_eq!((stats.packets, stats.dropped, stats.over_limit), (4, 1, 1));
        let packets = model.packets(1);
        assert_eq!((packets.len(), &packets[1]), (4, &None));
        check(packets[0].as_ref().unwrap(), 0, 400);
        let next = packets[2].as_ref().unwrap();
        assert_eq!(fields(next)[0], (42, Value::Int(1)));
        check(next, 2, 10);
        assert_eq!(fields(packets[3].as_ref().unwrap()), [(1, Value::Bytes(vec![7; 1000]))]);
        let state = model.state();
        assert_eq!((state.patches, state.stalls.len()), (0, 0));
    }
}
