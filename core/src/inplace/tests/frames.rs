//! What frames say, and whom they come from.

use std::vec::Vec;

use super::super::{Message, Recorder, Region};
use super::dump;

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn what_is_too_short_or_of_another_kind_says_nothing() {
    static TRACE: Region<8, 16, 4, 32> = Region::zeroed();
    Recorder::new(&TRACE, || 0, 1_000).writer("w").instant("n");
    let whole = dump(&TRACE);
    let hello = [&whole[..64], &bytes(&[7, 1])].concat();
    let chunk = &whole[64 + 8 * 8 + 16 * 4..][..6 * 4];
    let name = bytes(&[3 << 16 | 5, 99, 2 << 8, 0x6261]);
    let time = bytes(&[3, 7, 1]);
    for (kind, piece, least) in
        [(0x10, &hello, 72), (0x14, &time, 12), (0x18, &name, 12), (0x1C, &chunk.to_vec(), 16)]
    {
        assert!(Message::of(kind, piece).is_some(), "{kind}");
        for len in 0..least {
            assert!(Message::of(kind, &piece[..len]).is_none(), "{kind} {len}");
        }
        for other in [0, 1, 2, 3, kind + 1, kind | 0x80] {
            assert!(Message::of(other, piece).is_none(), "{other}");
        }
    }
    let Some(Message::Hello(hello)) = Message::of(0x10, &hello) else { panic!("no hello") };
    assert_eq!((hello.frequency(), hello.starts(), hello.now), (1_000, 1, 1 << 32 | 7));
    assert_eq!((hello.chunk_words(), hello.chunks(), hello.names()), (32, 4, 8));
    assert_eq!((hello.dropped(), hello.unnamed()), (0, 0));
    let Some(Message::Time { start: 3, now: 0x1_0000_0007 }) = Message::of(0x14, &time) else {
        panic!("no time")
    };
    let text = |piece: &[u8]| match Message::of(0x18, piece) {
        Some(Message::Name { start: 3, number: 5, name }) => {
            name.text.map(|text| text.bytes().collect::<Vec<_>>())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(text(&name), Some(b"ab".to_vec()));
    // A text that is cut, and none.
    assert_eq!(text(&name[..12]), Some(Vec::new()));
    assert_eq!(text(&bytes(&[3 << 16 | 5, 99, 0x7FFF << 17 | 2 << 8])), None);
    // A header of a version to come.
    let mut later = [&whole[..64], &bytes(&[7, 1])].concat();
    later[4] = 2;
    assert!(Message::of(0x10, &later).is_none());
}
