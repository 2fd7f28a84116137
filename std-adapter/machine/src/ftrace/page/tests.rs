//! Records of all types, and pages that are cut at any of them.

use super::*;

const LAYOUT: PageLayout = PageLayout { commit: 8, commit_len: 8, data: 16, page_len: 4096 };

/// A page of these words of data, with flags of the commit word.
fn page(timestamp: u64, flags: u64, words: &[u32]) -> Vec<u8> {
    let mut page = timestamp.to_le_bytes().to_vec();
    page.extend((flags | (words.len() as u64 * 4)).to_le_bytes());
    words.iter().for_each(|word| page.extend(word.to_le_bytes()));
    page.resize(4096, 0);
    page
}

const fn header(kind: u32, delta: u32) -> u32 {
    kind | delta << 5
}

/// The times and ids of a page's events, and its status.
fn read(timestamp: u64, words: &[u32]) -> (Vec<(u64, u16)>, Option<ParseStatus>) {
    let page = page(timestamp, 0, words);
    let mut status = None;
    let records = LAYOUT
        .open(&page)
        .unwrap()
        .records()
        .map_while(|record| record.map_err(|error| status = Some(error)).ok());
    (records.map(|record| (record.timestamp, record.id)).collect(), status)
}

#[test]
fn times_count_from_the_page_over_padding_and_extensions() {
    let words = [
        &[header(1, 5), 7][..],
        // A discarded event keeps its time.
        &[header(PADDING, 2), 8, 0xFFFF_FFFF],
        &[header(1, 3), 7],
        &[header(TIME_EXTEND, 1), 2],
        &[header(1, 0), 8],
        &[header(TIME_STAMP, 9), 1],
        &[header(0, 1), 8, 9],
        &[header(28, 0), 10],
        &[0; 27],
    ];
    let top = 3 << 59;
    let (extended, absolute) = (top + 1011 + (2 << 27), top + 10 + (1 << 27));
    let events = vec![(top + 1005, 7), (top + 1010, 7), (extended, 8), (absolute, 9), (absolute, 10)];
    assert_eq!(read(top + 1000, &words.concat()), (events, None));
}

#[test]
fn each_fault_has_its_status_and_leaves_the_events_before_it() {
    use ParseStatus::*;
    let cases = [
        (&[header(PADDING, 0), 8][..], Some(EmptyPadding)),
        (&[header(PADDING, 1)], Some(PaddingCut)),
        (&[header(PADDING, 1), 3], Some(PaddingLength)),
        (&[header(TIME_EXTEND, 1)], Some(TimeExtend)),
        (&[header(TIME_STAMP, 1)], Some(TimeStamp)),
        (&[header(0, 1)], Some(LengthCut)),
        (&[header(0, 1), 0], Some(LengthZero)),
        (&[header(0, 1), 3], Some(Length)),
        (&[header(0, 1), 4], Some(EventId)),
        (&[header(0, 1), 9, 7], Some(RecordEnd)),
        (&[header(2, 1), 7], Some(RecordEnd)),
        // Nothing of it is read.
        (&[header(PADDING, 1), u32::MAX], None),
        (&[header(TIME_EXTEND, 1), u32::MAX], None),
    ];
    for (words, status) in cases {
        let words = [&[header(1, 0), 7], words].concat();
        assert_eq!(read(1, &words), (vec![(1, 7)], status), "{status:?}");
    }
    // Lengths of whole bytes.
    let mut cut = page(1, 0, &[header(1, 0), 7, 0]);
    cut[8] -= 2;
    let records: Vec<_> = LAYOUT.open(&cut).unwrap().records().collect();
    assert_eq!(records[1..], [Err(RecordHeader)]);
}

#[test]
fn a_page_says_that_it_holds_something_and_no_more_than_was_read() {
    let sizes = [(0, false), (1, true), (4080, true), (4081, false), (u64::MAX >> 37, false)];
    for (size, is_sound) in sizes {
        assert_eq!(LAYOUT.open(&page(1, size, &[])).is_ok(), is_sound, "{size}");
    }
    assert_eq!(LAYOUT.open(&[0; 15]).err(), Some(ParseStatus::PageHeader));
    assert_eq!(LAYOUT.open(&page(1, 0, &[0])[..19]).err(), Some(ParseStatus::PageHeader));
}

#[test]
fn a_hole_has_a_number_if_the_page_has_room_for_it() {
    let words = [header(1, 0), 7, 300, 0];
    let lost = |flags: u64, len: u64| {
        let mut page = page(1, flags, &words);
        page[8..10].copy_from_slice(&(len as u16).to_le_bytes());
        LAYOUT.open(&page).unwrap().lost
    };
    assert_eq!(lost(0, 8), None);
    assert_eq!(lost(COUNT_STORED, 8), None);
    assert_eq!(lost(EVENTS_LOST, 8), Some(Lost { count: None }));
    assert_eq!(lost(EVENTS_LOST | COUNT_STORED, 8), Some(Lost { count: Some(300) }));
    assert_eq!(lost(EVENTS_LOST | COUNT_STORED, 4076), Some(Lost { count: None }));
}

#[test]
fn the_layout_is_that_of_the_kernel_or_none() {
    let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
    assert_eq!(PageLayout::parse(text), Some(LAYOUT));
    let of_32_bits = text
        .replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4")
        .replace("offset:16", "offset:12");
    let layout = PageLayout::parse(&of_32_bits).unwrap();
    assert_eq!((layout.commit_len, layout.data, layout.page_len()), (4, 12, 4092));
    for (from, to) in
        [("size:4080", "size:0"), ("size:4080", "size:67108864"), ("offset:16", "offset:12"), ("commit", "x")]
    {
        assert_eq!(PageLayout::parse(&text.replace(from, to)), None, "{to}");
    }
}
