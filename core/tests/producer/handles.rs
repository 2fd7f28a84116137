//! Packets and messages whose handles are forgotten, unwound, or put in the place of others.

use crate::model::*;
use crate::writer::*;
use tracebuf::producer::*;

#[test]
fn handles_forgotten_at_any_depth_leave_a_well_formed_stream() {
    let (model, mut writer) = only_writer(8, 64, Pace::Prompt, Exhaustion::Drop);
    for n in 0..50 {
        let mut packet = writer.packet();
        let mut outer = packet.message(FOR_TESTING);
        let mut inner = outer.message(5);
        inner.string(1, &text(n, n));
        std::mem::forget(inner);
        outer.varint(4, 1);
        std::mem::forget(outer.message(5));
        if n % 2 == 0 {
            std::mem::forget(outer);
            packet.varint(8, n as u64);
        } else {
            drop(outer);
            packet.varint(8, n as u64);
        }
        if n % 3 == 0 {
            std::mem::forget(packet);
        }
    }
    writer.flush();
    let packets = model.packets(1);
    assert_eq!(packets.len(), 50);
    for (n, packet) in packets.iter().enumerate() {
        let all: Vec<_> = fields(packet.as_ref().unwrap()).into_iter().filter(|(f, _)| *f != 87).collect();
        assert_eq!(all[1], (8, Value::Int(n as u64)));
        let outer = all[0].1.inside();
        assert_eq!(outer[0].1.inside(), [(1, Value::Bytes(text(n, n).into_bytes()))]);
        assert_eq!(outer[1], (4, Value::Int(1)));
        assert_eq!(outer[2], (5, Value::Bytes(vec![])));
    }
}

#[cfg(feature = "patches")]
#[test]
fn a_panic_inside_a_packet_ends_it_and_the_next_one_is_untouched() {
    let (model, mut writer) = only_writer(8, 64, Pace::Prompt, Exhaustion::Drop);
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut packet = writer.packet();
        let mut outer = packet.message(FOR_TESTING);
        outer.string(1, &text(0, 100));
        panic!("in the middle");
    }));
    assert!(result.is_err());
    write(&mut writer, 1, 10);
    writer.flush();
    let packets = model.packets(1);
    assert_eq!(packets.len(), 2);
    assert_eq!(fields(packets[0].as_ref().unwrap())[1].1.inside().len(), 1);
    check(packets[1].as_ref().unwrap(), 1, 10);
}

#[test]
fn a_message_put_in_the_place_of_another_writer_s_packet_ends_no_packet_but_its_own() {
    let (model, producer) = chunk_a_page(8, 64, Pace::Prompt);
    let [mut a, mut b] = [(); 2].map(|()| producer.writer(40, Exhaustion::Drop).unwrap());
    for n in 0..10 {
        let mut outer = b.packet();
        {
            let mut packet = a.packet();
            packet.varint(8, n);
            let mut inner = outer.message(FOR_TESTING);
            std::mem::swap(&mut *packet, &mut inner);
            packet.varint(4, n);
            inner.varint(9, n);
        }
        outer.varint(8, n);
        drop(outer);
        // At once, even without another packet after it.
        model.scrape();
        assert_eq!([1, 2].map(|writer| model.packets(writer).len() as u64), [n + 1; 2]);
    }
    a.flush();
    b.flush();
    for (writer, stats) in [(1, a.stats()), (2, b.stats())] {
        assert_eq!((stats.packets, stats.dropped), (10, 0));
        let packets = model.packets(writer);
        assert_eq!(packets.len(), 10);
        for (n, packet) in (0..).zip(&packets) {
            let mut all = fields(packet.as_ref().unwrap());
            all.retain(|(field, _)| *field != 87);
            if writer == 1 {
                assert_eq!(all, [(8, Value::Int(n)), (9, Value::Int(n))]);
            } else {
                assert_eq!((all[0].0, all[0].1.inside()), (FOR_TESTING, vec![(4, Value::Int(n))]));
                assert_eq!(all[1..], [(8, Value::Int(n))]);
            }
        }
    }
}
