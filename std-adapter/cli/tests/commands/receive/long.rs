//! Frames that are too long to be one.

use super::{WHOLE, content, frame, receive};

/// A packet of sequence 2 with a text of more than 16 KiB and less than 2 MiB.
fn packet_of(text: usize) -> Vec<u8> {
    let length = |length: usize| [length as u8 | 0x80, (length >> 7) as u8 | 0x80, (length >> 14) as u8];
    let content = [&[0x50, 2, 0xD2, 0x05][..], &length(text), &vec![b'a'; text]].concat();
    [&[0x0A][..], &length(content.len()), &content].concat()
}

#[test]
fn what_is_too_long_for_a_frame_is_none_in_pieces_of_any_size() {
    // Without its zero.
    let encoded = |text| frame(WHOLE, 2, &packet_of(text)).len() - 1;
    let longest = (65_200..).take_while(|text| encoded(*text) <= 1 << 16).last().expect("a text");
    assert_eq!((encoded(longest), encoded(longest + 1)), (1 << 16, (1 << 16) + 1));
    let [first, next] = [1, 3].map(|number| frame(WHOLE, number, &packet_of(20_000)));
    for (text, is_frame) in [(longest, true), (longest + 1, false), (100_000, false)] {
        let line = [&first[..], &frame(WHOLE, 2, &packet_of(text)), &next].concat();
        let (packets, whole) = receive(&line, line.len());
        let told = (whole.packets, whole.frames_lost, whole.frames_corrupt);
        assert_eq!(told, if is_frame { (3, 0, 0) } else { (2, 1, 1) }, "{text}");
        let last = packets.last().expect("packets");
        assert_eq!(content(last).ends_with(&[0xD0, 0x02, 1]), !is_frame, "{text}");
        for step in [60_000, 40_000, 1] {
            assert_eq!(receive(&line, step), (packets.clone(), whole.clone()), "{text}, {step} at a time");
        }
    }
}
