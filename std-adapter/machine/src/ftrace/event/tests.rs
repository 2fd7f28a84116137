//! Values of every kind, and records that are too short for them.

use tracebuf::proto::reader::{FieldValue, Fields};

use super::*;

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                      \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n";

fn format(name: &str, fields: &[(&str, usize, usize, u8)]) -> EventFormat {
    let fields = fields.iter().map(|(declaration, offset, size, signed)| {
        format!("\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
    });
    let fields: String = fields.collect();
    EventFormat::parse(&format!("name: {name}\nID: 9\nformat:\n{COMMON}{fields}\nprint fmt: \"\"\n")).unwrap()
}

/// The fields of the event's own message; `None` if the record is refused.
fn encode(message: &EventMessage, record: &[u8]) -> Option<Vec<(u32, FieldValue<'static>)>> {
    let (mut event, mut scratch) = (Vec::new(), Vec::new());
    let mut addresses = Addresses::default();
    let Ok(()) = message.event(1000, record, &mut addresses, &mut scratch)?.encode(&mut event);
    let event: &'static [u8] = event.leak();
    let fields: Vec<_> = Fields::of(event).map(|field| (field.number, field.value)).collect();
    let [time, pid, (number, FieldValue::Bytes(body))] = fields[..] else { panic!("{fields:?}") };
    assert_eq!((time, pid), ((1, FieldValue::Number(1000)), (2, FieldValue::Number(77))));
    assert_eq!(number, message.number);
    Some(Fields::of(body).map(|field| (field.number, field.value)).collect())
}

fn record(own: &[u8]) -> Vec<u8> {
    [&[9, 0, 0, 0, 77, 0, 0, 0], own].concat()
}

fn known(format: &EventFormat) -> EventMessage {
    let message = EventMessage::new("group", format, u32::MAX).unwrap();
    assert!(message.descriptor.is_none(), "a message of its own");
    message
}

#[test]
fn numbers_keep_their_sign_and_those_that_do_not_fit_are_left_out() {
    // In Perfetto's message, code, sig and result are int32, group is int32 and here unsigned.
    let fields = [
        ("int sig", 8, 4, 1),
        ("int code", 12, 4, 1),
        ("long result", 16, 8, 1),
        ("unsigned group", 24, 4, 0),
    ];
    let message = known(&format("signal_generate", &fields));
    let record = record(&[7, 0, 0, 0, 0xFA, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let minus_six = -6_i64 as u64;
    assert_eq!(
        encode(&message, &record),
        Some(vec![(1, FieldValue::Number(minus_six)), (6, FieldValue::Number(7))])
    );
    assert_eq!(encode(&message, &record[..27]), None);
}

#[test]
fn a_device_is_encoded_as_programs_encode_it() {
    assert_eq!(user_device(254 << 20 | 3), 0xFE03);
    assert_eq!(user_device(0xFFF << 20 | 0xF_FFFF), 0xFFF << 8 | 0xFFF << 20 | 0xFF);
}

#[test]
fn what_lies_elsewhere_in_the_event_must_be_within_it() {
    let fields = [("__data_loc char[] a", 8, 4, 0), ("__rel_loc u8[] b", 12, 4, 0)];
    let message = EventMessage::new("group", &format("of_ours", &fields), 65536).unwrap();
    let with = |a: u32, b: u32| {
        let words = [a.to_le_bytes(), b.to_le_bytes(), *b"hi\0\xFF"].concat();
        encode(&message, &record(&words))
    };
    let (text, bytes) = (|text| (1, FieldValue::Bytes(text)), |bytes| (2, FieldValue::Bytes(bytes)));
    assert_eq!(with(4 << 16 | 16, 4 << 16), Some(vec![text(b"hi"), bytes(b"hi\0\xFF")]));
    assert_eq!(with(2 << 16 | 16, 1 << 16 | 3), Some(vec![text(b"hi"), bytes(b"\xFF")]));
    assert_eq!(with(0xFFFF, 0xFFFF), Some(vec![text(b""), bytes(b"")]), "nothing is anywhere");
    for (a, b) in [(5 << 16 | 16, 0), (1 << 16 | 20, 0), (0, 5 << 16), (0, 1 << 16 | 4), (0xFFFF_FFFF, 0)] {
        assert_eq!(with(a, b), None);
    }
}

#[test]
fn text_goes_to_its_nul_the_fields_end_or_the_events() {
    let fields = [("char a[4]", 8, 4, 1), ("char buf[]", 12, 0, 0)];
    let message = EventMessage::new("group", &format("of_ours", &fields), 65536).unwrap();
    let texts = |a, b| Some(vec![(1, FieldValue::Bytes(a)), (2, FieldValue::Bytes(b))]);
    assert_eq!(encode(&message, &record(b"abcdefg\n")), texts(b"abcd", b"efg\n"));
    assert_eq!(encode(&message, &record(b"a\0cdef\0\n")), texts(b"a", b"ef"));
    assert_eq!(encode(&message, &record(b"\0\0\0\0")), texts(b"", b""));
}

#[test]
fn arguments_are_repeated_and_addresses_never_told() {
    let enter = known(&format("sys_enter", &[("long id", 8, 8, 1), ("unsigned long args[6]", 16, 48, 0)]));
    let mut own = [0; 56];
    (0..7).for_each(|word| own[word * 8] = word as u8 + 1);
    let fields = encode(&enter, &record(&own)).unwrap();
    let args = (2..8).map(|value| (2, FieldValue::Number(value)));
    assert!(fields.into_iter().eq([(1, FieldValue::Number(1))].into_iter().chain(args)));

    let print = known(&format("print", &[("unsigned long ip", 8, 8, 0), ("char buf[]", 16, 0, 0)]));
    assert_eq!(encode(&print, &record(b"12345678a\n")), Some(vec![(2, FieldValue::Bytes(b"a\n"))]));

    let end =
        known(&format("workqueue_execute_end", &[("void * work", 8, 8, 0), ("void * function", 16, 8, 0)]));
    let indices = Some(vec![(1, FieldValue::Number(1)), (2, FieldValue::Number(1))]);
    assert_eq!(encode(&end, &record(b"1234567812345678")), indices);
}

#[test]
fn an_event_that_perfetto_does_not_know_is_described() {
    let fields = [
        ("pid_t pid", 8, 4, 1),
        ("struct x y", 12, 12, 0),
        ("char name[8]", 24, 8, 0),
        ("bool ok", 32, 1, 0),
    ];
    let message = EventMessage::new("mine", &format("of_ours", &fields), 65540).unwrap();
    let descriptor = message.descriptor.as_deref().unwrap();
    let expected = b"\x08\x84\x80\x04\x12\x2a\x0a\x07of_ours\
        \x12\x09\x0a\x03pid\x18\x01\x28\x03\x12\x0a\x0a\x04name\x18\x02\x28\x09\x12\x08\x0a\x02ok\x18\x03\x28\x04\x1a\x04mine";
    assert_eq!(descriptor, expected);
    // Without the struct, which no trace can hold, the event may be as short as its last field.
    assert_eq!((message.number, message.min_len), (65540, 33));
}

#[test]
fn events_of_the_same_name_that_are_others_are_described_too() {
    let of_x86 = format("kvm_exit", &[("unsigned int exit_reason", 8, 4, 0)]);
    assert!(EventMessage::new("kvm", &of_x86, 65536).unwrap().descriptor.is_some());
    let switch = format("sched_switch", &[("pid_t prev_pid", 8, 4, 1)]);
    assert!(EventMessage::new("sched", &switch, 65536).unwrap().descriptor.is_none());
    assert!(EventMessage::new("mali", &switch, 65536).unwrap().descriptor.is_some());
}

#[test]
fn the_table_can_be_read_whole() {
    for (number, name, fields) in EVENTS {
        for field in fields.split_ascii_whitespace() {
            let (_, rest) = field.split_once('=').unwrap();
            let (number, letter) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap());
            assert!(number.parse::<u32>().is_ok() && ProtoType::of(letter).is_some(), "{name}: {field}");
        }
        assert!((3..65536).contains(number), "{name}");
    }
    assert!(EVENTS.is_sorted_by_key(|(number, ..)| *number));
}
