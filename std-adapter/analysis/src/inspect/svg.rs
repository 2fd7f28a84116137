//! The picture of a buffer or a trace, as SVG.

use std::fmt::Write;

use super::map::cells;
use super::{Inspection, SequenceLine, SpanKind};
use tracebuf_std::display::{Bytes, Count};

/// Width of the map alone.
const WIDTH: f64 = 1024.0;
const LEFT: f64 = 110.0;
const TOP: f64 = 64.0;
const ROW: f64 = 14.0;
const ROWS: u64 = 64;
/// More spans than this are drawn in cells: 256 a row, 4 wide.
const DETAILED: usize = 6_000;
const CELLS: u64 = 256;
/// The least height of a share that is drawn: shares below it, of which a cell may have tens of thousands, become one.
const LEAST: f64 = 1.0;
/// Sequences in the legend: as many as there are colours that can be told apart.
const LEGEND: usize = 45;

const PADDING: &str = "#4a4a4a";
const SMALL: &str = "#9a9a9a";
const FREE: &str = "#e3e3dc";
const NEVER: &str = "#ffffff";
const UNREADABLE: &str = "#000000";
const WRITE: &str = "#d40000";
const OLDEST: &str = "#0044cc";

/// A colour for each sequence: hues a golden angle apart. Bytes that were read are paler.
fn colour(kind: SpanKind) -> String {
    let (sequence, saturation, lightness) = match kind {
        SpanKind::Unread(sequence) => (sequence, 0.62, if sequence % 2 == 0 { 0.48 } else { 0.60 }),
        SpanKind::Read(sequence) => (sequence, 0.30, 0.82),
        SpanKind::Padding => return PADDING.to_owned(),
        SpanKind::Free => return FREE.to_owned(),
        SpanKind::Unreadable => return UNREADABLE.to_owned(),
    };
    let hue = (210.0 + sequence as f64 * 137.508) % 360.0;
    let chroma = saturation * f64::min(lightness, 1.0 - lightness);
    let channel = |n: f64| {
        let k = (n + hue / 30.0) % 12.0;
        ((lightness - chroma * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0)) * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The place of bytes in the picture.
struct Plane {
    per_row: u64,
    rows: u64,
}

impl Plane {
    fn of(size: u64) -> Self {
        let per_row = size.div_ceil(ROWS).next_power_of_two().max(64);
        Self { per_row, rows: size.div_ceil(per_row).max(1) }
    }

    fn x(&self, offset: u64) -> f64 {
        LEFT + (offset % self.per_row) as f64 * WIDTH / self.per_row as f64
    }

    fn y(&self, offset: u64) -> f64 {
        TOP + (offset / self.per_row) as f64 * ROW
    }

    /// The pieces of a range, one for each row: x, y, width.
    fn pieces(&self, offset: u64, len: u64) -> impl Iterator<Item = (f64, f64, f64)> {
        let end = offset + len;
        let mut at = offset;
        std::iter::from_fn(move || {
            let part =
                end.min((at / self.per_row + 1) * self.per_row).checked_sub(at).filter(|part| *part > 0)?;
            let width = part as f64 * WIDTH / self.per_row as f64;
            let piece = (self.x(at), self.y(at), width);
            at += part;
            Some(piece)
        })
    }
}

pub(super) fn draw(inspection: &Inspection) -> String {
    let plane = Plane::of(inspection.size);
    let bottom = TOP + plane.rows as f64 * ROW;
    let shown = inspection.sequences.len().min(LEGEND);
    let height = bottom + 86.0 + (shown.div_ceil(3) as f64) * 18.0;
    let width = LEFT + WIDTH + 24.0;
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fafaf7\"/>\n"
    );
    heading(&mut out, inspection);
    grid(&mut out, inspection, &plane);
    let has_small = match inspection.spans.len() {
        0..=DETAILED => {
            detailed(&mut out, inspection, &plane);
            false
        }
        _ => in_cells(&mut out, inspection, &plane),
    };
    if let Some(write) = inspection.write {
        cursor(&mut out, &plane, write.min(inspection.size.saturating_sub(1)), WRITE, "write cursor");
    }
    if let Some(oldest) = inspection.oldest_unread {
        cursor(&mut out, &plane, oldest, OLDEST, "oldest unread chunk");
    }
    legend(&mut out, inspection, has_small, bottom + 22.0);
    out.push_str("</svg>\n");
    out
}

fn heading(out: &mut String, inspection: &Inspection) {
    let (title, sequences) = (escaped(&inspection.title), inspection.counted());
    let (size, used) = (Bytes(inspection.size), Bytes(inspection.used));
    let losses = match inspection.losses.len() {
        0 => "nothing was lost".to_owned(),
        _ => escaped(&inspection.losses.join("; ").chars().take(130).collect::<String>()),
    };
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"26\" font-size=\"17\" font-weight=\"bold\">{title}</text>\n\
         <text x=\"{LEFT}\" y=\"46\">{size}, {used} used, {sequences}, {losses}</text>"
    );
}

/// Rows, and to the left of every fourth one the offset where it starts.
fn grid(out: &mut String, inspection: &Inspection, plane: &Plane) {
    for (x, y, width) in plane.pieces(0, inspection.size) {
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{ROW}\" fill=\"{NEVER}\" stroke=\"#ddd\" \
             stroke-width=\"0.5\"/>"
        );
    }
    for row in (0..plane.rows).step_by(4) {
        let (start, y) = (row * plane.per_row, TOP + row as f64 * ROW + 11.0);
        let x = LEFT - 14.0;
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\" font-family=\"monospace\">{start:#x}</text>"
        );
    }
}

fn detailed(out: &mut String, inspection: &Inspection, plane: &Plane) {
    let bar = |out: &mut String, x: f64, y: f64, width: f64, fill: &str| {
        let (y, height) = (y + 1.0, ROW - 2.0);
        let _ = write!(
            out,
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height}\" fill=\"{fill}\"/>"
        );
    };
    for span in &inspection.spans {
        let fill = colour(span.kind);
        let what = match span.kind {
            SpanKind::Unread(sequence) | SpanKind::Read(sequence) => {
                inspection.sequences.get(sequence).map_or("", |line| line.name.as_str())
            }
            SpanKind::Padding => "padding",
            SpanKind::Free => "free",
            SpanKind::Unreadable => "unreadable",
        };
        let id = span.chunk.map_or_else(String::new, |id| format!(", chunk {id}"));
        let (what, at, len) = (escaped(what), span.offset, Count(span.len, "byte"));
        let _ = write!(out, "<g><title>{what} at {at}, {len}{id}</title>");
        for (x, y, width) in plane.pieces(at, span.len) {
            bar(out, x, y, width, &fill);
        }
        // Where a chunk begins, so that neighbours of one colour can be told apart.
        if span.chunk.is_some() {
            bar(out, plane.x(at), plane.y(at), 1.0, "#222");
        }
        out.push_str("</g>\n");
    }
}

/// Fills each cell from below by the shares in it. Returns whether some were too small to be drawn individually.
fn in_cells(out: &mut String, inspection: &Inspection, plane: &Plane) -> bool {
    let mut has_small = false;
    let cell = (plane.per_row / CELLS).max(1);
    let width = WIDTH / CELLS as f64;
    let cells = cells(&inspection.spans, inspection.size, cell);
    let height = |bytes: u64| (ROW - 2.0) * bytes as f64 / cell as f64;
    let mut at = 0;
    while let Some(shares) = cells.get(at) {
        // Equal neighbouring cells in a row become one.
        let in_row = CELLS as usize - at % CELLS as usize;
        let alike = cells.iter().skip(at).take(in_row).take_while(|other| *other == shares).count();
        let (x, mut y) = (plane.x(at as u64 * cell), plane.y(at as u64 * cell) + ROW - 1.0);
        let mut rect = |bytes: u64, fill: &str| {
            let (height, width) = (height(bytes), width * alike as f64);
            y -= height;
            let _ = write!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y:.2}\" width=\"{width:.1}\" height=\"{height:.2}\" fill=\"{fill}\"/>"
            );
        };
        // The largest come first. A single one is drawn however small it is.
        let large = shares.iter().take_while(|(_, bytes)| height(*bytes) >= LEAST).count();
        let large = if large + 1 == shares.len() { shares.len() } else { large };
        let (large, small) = shares.split_at(large);
        large.iter().for_each(|(kind, bytes)| rect(*bytes, &colour(*kind)));
        if !small.is_empty() {
            rect(small.iter().map(|(_, bytes)| bytes).sum(), SMALL);
            has_small = true;
        }
        out.push('\n');
        at += alike.max(1);
    }
    has_small
}

fn cursor(out: &mut String, plane: &Plane, at: u64, fill: &str, what: &str) {
    let (x, y) = (plane.x(at), plane.y(at));
    let (left, right, above, height) = (x - 5.0, x + 5.0, y - 6.0, ROW + 1.0);
    let _ = writeln!(
        out,
        "<g fill=\"{fill}\" stroke=\"#fff\" stroke-width=\"0.6\"><title>{what} at {at}</title>\
         <path d=\"M{left:.1} {above:.1}H{right:.1}L{x:.1} {y:.1}Z\"/>\
         <rect x=\"{:.1}\" y=\"{y:.1}\" width=\"2.4\" height=\"{height:.1}\"/></g>",
        x - 1.2
    );
    // The row can be found from the margin too.
    let (x, y, above, below) = (LEFT - 8.0, y + ROW / 2.0, y + ROW / 2.0 - 4.0, y + ROW / 2.0 + 4.0);
    let _ = writeln!(out, "<path d=\"M{x} {above:.1}V{below:.1}L{} {y:.1}Z\" fill=\"{fill}\"/>", x + 6.0);
}

fn legend(out: &mut String, inspection: &Inspection, has_small: bool, top: f64) {
    let swatch = |out: &mut String, x: f64, y: f64, fill: &str, text: &str| {
        let _ = writeln!(
            out,
            "<rect x=\"{x}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{fill}\" stroke=\"#999\" \
             stroke-width=\"0.5\"/><text x=\"{}\" y=\"{y:.1}\">{}</text>",
            y - 10.0,
            x + 18.0,
            escaped(text)
        );
    };
    let (unread, read) = (colour(SpanKind::Unread(0)), colour(SpanKind::Read(0)));
    let of_region = [
        (&*unread, "unread"),
        (&*read, "read"),
        (PADDING, "padding"),
        (FREE, "free"),
        (NEVER, "never written"),
        (UNREADABLE, "unreadable"),
        (WRITE, "write cursor"),
        (OLDEST, "oldest unread"),
    ];
    let of_trace = [(UNREADABLE, "no whole packet")];
    let signs = if inspection.write.is_none() { &of_trace[..] } else { &of_region };
    let small = has_small.then_some(&(SMALL, "a little of many"));
    for ((fill, text), place) in signs.iter().chain(small).zip(0..) {
        swatch(out, LEFT + f64::from(place) * 113.0, top, fill, text);
    }
    let mut order: Vec<(usize, &SequenceLine)> = inspection.sequences.iter().enumerate().collect();
    order.sort_by_key(|(number, line)| (std::cmp::Reverse(line.bytes), *number));
    let mut y = top + 26.0;
    for lines in order.chunks(3).take(LEGEND / 3) {
        for ((number, line), column) in lines.iter().zip(0..) {
            let SequenceLine { name, pieces, bytes, .. } = line;
            let text = format!("{name}: {}, {}", Count(*pieces, inspection.pieces), Bytes(*bytes));
            swatch(out, LEFT + f64::from(column) * 342.0, y, &colour(SpanKind::Unread(*number)), &text);
        }
        y += 18.0;
    }
    if let Some(more) = order.len().checked_sub(LEGEND).filter(|more| *more > 0) {
        let _ = writeln!(out, "<text x=\"{LEFT}\" y=\"{y:.1}\">and {more} smaller ones</text>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_very_many_sequences_is_as_large_as_one_of_few() {
        let packet = |id: u32| {
            [&[0x0A, 7, 0x50][..], &[0, 7, 14].map(|shift| (id >> shift) as u8 | 0x80), &[0, 0x40, 5]]
                .concat()
        };
        let svg = |sequences: u32| {
            let trace: Vec<u8> = (0..200_000).flat_map(|n| packet(2 + n * 7 % sequences)).collect();
            Inspection::of_file(&trace).expect("a trace").svg()
        };
        let (few, many) = (svg(4), svg(50_000));
        assert!(many.len() < 2 * few.len(), "{} {}", few.len(), many.len());
        assert!(many.contains("a little of many") && !few.contains("a little of many"));
    }
}
