//! The map in letters, and the cells that large pictures are made of.

use std::fmt::Write;

use super::{Inspection, Span, SpanKind};

/// A number of bytes of one kind.
pub(super) type Share = (SpanKind, u64);

/// The shares of each cell of `cell` bytes, the largest first; bytes never written have none.
pub(super) fn cells(spans: &[Span], size: u64, cell: u64) -> Vec<Vec<Share>> {
    let cell = cell.max(1);
    let count = usize::try_from(size.div_ceil(cell)).unwrap_or(0);
    let mut cells: Vec<Vec<Share>> = vec![Vec::new(); count];
    for span in spans {
        let (mut at, end) = (span.offset, span.offset + span.len);
        while at < end {
            let index = at / cell;
            let part = end.min((index + 1) * cell) - at;
            let Some(shares) = usize::try_from(index).ok().and_then(|index| cells.get_mut(index)) else {
                break;
            };
            shares.push((span.kind, part));
            at += part;
        }
    }
    for shares in &mut cells {
        // Only now, because a cell may have as many kinds as there are sequences.
        shares.sort_by_key(|(kind, _)| *kind);
        shares.dedup_by(|(kind, part), (kept, bytes)| {
            let same = kind == kept;
            *bytes += if same { *part } else { 0 };
            same
        });
        shares.sort_by_key(|(kind, bytes)| (std::cmp::Reverse(*bytes), *kind));
    }
    cells
}

/// The letter of a sequence; letters repeat after 26.
pub(super) fn letter(sequence: usize) -> char {
    char::from(b'A' + (sequence % 26) as u8)
}

/// The sign of a kind, and the sequence that gives it its colour.
fn sign(kind: SpanKind) -> (char, Option<usize>) {
    match kind {
        SpanKind::Unread(sequence) => (letter(sequence), Some(sequence)),
        SpanKind::Read(sequence) => (letter(sequence).to_ascii_lowercase(), Some(sequence)),
        SpanKind::Padding => ('#', None),
        SpanKind::Free => ('.', None),
        SpanKind::Unreadable => ('?', None),
    }
}

/// Terminal colours, out of 216, that are neither very dark nor very light.
const COLOURS: [usize; 12] = [39, 208, 77, 199, 220, 99, 43, 203, 148, 170, 75, 137];

pub(super) fn draw(inspection: &Inspection, columns: usize, rows: usize, colour: bool) -> String {
    let (columns, rows) = (columns.max(8), rows.max(1));
    let size = inspection.size;
    // A power of two, so that the addresses on the left are round; a cell is at least an item's header.
    let cell = size.div_ceil((columns * rows) as u64).next_power_of_two().max(4);
    let cells = cells(&inspection.spans, size, cell);
    let mut out = String::new();
    let _ = writeln!(out, "each sign stands for {cell} bytes");
    for (row, cells) in cells.chunks(columns).enumerate() {
        let start = (row * columns) as u64 * cell;
        let _ = write!(out, "{start:>10} ");
        for (cells, column) in cells.iter().zip(0..) {
            let here = start + column * cell;
            let cursor =
                inspection.write.is_some_and(|write| (here..here + cell).contains(&write.min(size - 1)));
            let (sign, sequence) = match cells.first() {
                _ if cursor => ('>', None),
                None => (' ', None),
                Some((kind, _)) => sign(*kind),
            };
            match sequence.filter(|_| colour) {
                Some(sequence) => {
                    let _ = write!(out, "\x1b[38;5;{}m{sign}\x1b[0m", COLOURS[sequence % COLOURS.len()]);
                }
                None => out.push(sign),
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn each_byte_is_in_one_cell() {
        let span = |offset, len, kind| Span { offset, len, kind, chunk: None };
        let spans = [
            span(0, 100, SpanKind::Unread(0)),
            span(100, 4, SpanKind::Padding),
            span(104, 40, SpanKind::Free),
        ];
        let cells = cells(&spans, 256, 32);
        assert_eq!(cells.len(), 8);
        let total: u64 = cells.iter().flatten().map(|(_, bytes)| bytes).sum();
        assert_eq!(total, 144);
        assert_eq!(cells[3], [(SpanKind::Free, 24), (SpanKind::Unread(0), 4), (SpanKind::Padding, 4)]);
        assert!(cells[5..].iter().all(Vec::is_empty));
    }

    #[test]
    fn a_cell_of_very_many_kinds_takes_no_time() {
        let kinds = 40_000;
        // Each occurs twice, the second time twice as large.
        let spans: Vec<_> = (0..2 * kinds)
            .map(|n| Span {
                offset: 4 * n as u64,
                len: 1 + n as u64 / kinds as u64,
                kind: SpanKind::Unread(n % kinds),
                chunk: None,
            })
            .collect();
        let start = Instant::now();
        let cells = cells(&spans, 1 << 20, 1 << 20);
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
        assert!(cells[0].iter().copied().eq((0..kinds).map(|kind| (SpanKind::Unread(kind), 3))));
    }
}
