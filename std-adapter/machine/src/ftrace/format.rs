//! Format files of the kernel's events, parsed: `events/GROUP/NAME/format`.

use super::kind::{Kind, is_identifier};

/// A field of an event, as its format file describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatField {
    /// Its name.
    pub name: String,
    /// Its offset in the event, in bytes.
    pub offset: usize,
    /// Its length in bytes; 0 if it goes on to the event's end.
    pub size: usize,
    /// Its kind; `None` if a trace has no place for it.
    pub kind: Option<Kind>,
}

impl FormatField {
    /// The first byte after it.
    pub const fn end(&self) -> usize {
        self.offset + self.size
    }

    /// Its bytes in an event; `None` if the event is shorter.
    pub fn bytes<'e>(&self, event: &'e [u8]) -> Option<&'e [u8]> {
        event.get(self.offset..self.end())
    }
}

/// The format of an event.
///
/// ```
/// use tracebuf_machine::ftrace::EventFormat;
///
/// let text = "name: softirq_entry\nID: 124\nformat:\n\
///     \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
///     \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
///     \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
///     \tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n\n\
///     print fmt: \"vec=%u\", REC->vec\n";
/// let format = EventFormat::parse(text).unwrap();
/// assert_eq!((format.name.as_str(), format.id), ("softirq_entry", 124));
/// assert_eq!((format.common.len(), format.fields[0].offset), (3, 8));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    /// The event's name, without its group.
    pub name: String,
    /// The id that its records begin with.
    pub id: u16,
    /// The fields that all events have.
    pub common: Vec<FormatField>,
    /// Its own fields.
    pub fields: Vec<FormatField>,
}

impl EventFormat {
    /// Parses a format file. `None` if it lacks a name, an id, or the field `common_pid` of four bytes; lines that it
    /// does not know are skipped.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut name, mut id, mut common, mut fields) = (None, None, Vec::new(), Vec::new());
        for line in text.lines() {
            if line.starts_with("print fmt:") {
                break;
            } else if let Some(value) = line.strip_prefix("name:") {
                name = Some(value.trim().to_owned());
            } else if let Some(value) = line.strip_prefix("ID:") {
                id = value.trim().parse().ok();
            } else if let Some(field) = field(line) {
                if field.name.starts_with("common_") { &mut common } else { &mut fields }.push(field);
            }
        }
        let format = Self { name: name.filter(|name| !name.is_empty())?, id: id?, common, fields };
        format.common("common_pid").filter(|pid| pid.size == 4)?;
        Some(format)
    }

    /// A field that all events have, by its name.
    pub fn common(&self, name: &str) -> Option<&FormatField> {
        self.common.iter().find(|field| field.name == name)
    }

    /// A field of its own, by its name.
    pub fn field(&self, name: &str) -> Option<&FormatField> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// A line of a format file that describes a field.
pub(super) fn field(line: &str) -> Option<FormatField> {
    let (declaration, rest) = line.trim_start().strip_prefix("field:")?.split_once(';')?;
    let (mut offset, mut size, mut signed) = (None, None, false);
    for part in rest.split(';') {
        match part.trim().split_once(':') {
            Some(("offset", value)) => offset = value.parse().ok(),
            Some(("size", value)) => size = value.parse().ok(),
            Some(("signed", value)) => signed = value == "1",
            _ => {}
        }
    }
    // Pages are smaller than either, and the sum fits.
    let (offset, size) = (offset.filter(|offset| *offset < MAX)?, size.filter(|size| *size < MAX)?);
    let declaration = declaration.trim();
    let name = name_of(declaration)?.to_owned();
    Some(FormatField { name, offset, size, kind: Kind::of(declaration, size, signed) })
}

/// More than any page has.
const MAX: usize = 1 << 27;

/// The last identifier of a declaration, before an optional `[…]`.
fn name_of(declaration: &str) -> Option<&str> {
    let array = declaration.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
    let rest = array.map_or(declaration, |(rest, _)| rest);
    let start = rest.rfind(|c: char| !is_identifier(c)).map_or(0, |at| at + 1);
    // What comes before is of one byte or more.
    rest.get(start..).filter(|name| !name.is_empty())
}

/// A little-endian number of up to eight bytes.
pub(super) fn uint(bytes: &[u8]) -> u64 {
    match *bytes {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => bytes.iter().take(8).rev().fold(0, |number, byte| number << 8 | u64::from(*byte)),
    }
}

/// The same, signed.
pub(super) fn int(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    (uint(bytes) << unused) as i64 >> unused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_the_last_identifier_of_its_declaration_as_name() {
        let named = [
            ("unsigned long args[6]", Some("args")),
            ("char buf[]", Some("buf")),
            ("__data_loc char[] name", Some("name")),
            ("const char * s", Some("s")),
            ("void *work", Some("work")),
            ("char comm[TASK_COMM_LEN]", Some("comm")),
            ("x", Some("x")),
            ("é", None),
            ("", None),
            ("int a[2][3]", None),
        ];
        for (declaration, name) in named {
            assert_eq!(name_of(declaration), name, "{declaration}");
        }
    }

    #[test]
    fn a_line_without_offset_or_size_or_with_absurd_ones_is_no_field() {
        let whole = "\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;";
        assert!(field(whole).is_some_and(|field| (field.offset, field.size) == (8, 4)));
        for (from, to) in
            [("offset:8", ""), ("size:4", ""), ("8", "134217728"), ("4;", "-4;"), ("field:", "f:")]
        {
            assert_eq!(field(&whole.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn a_format_needs_name_id_and_pid() {
        let whole = "name: a\nID: 7\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
        assert!(EventFormat::parse(whole).is_some());
        for (from, to) in
            [("name: a", ""), ("ID: 7", "ID: 65536"), ("size:4", "size:2"), ("name: a", "name:")]
        {
            assert_eq!(EventFormat::parse(&whole.replace(from, to)), None, "{to}");
        }
    }

    #[test]
    fn numbers_of_any_length_keep_their_sign() {
        assert_eq!((uint(&[1, 2]), uint(&[]), uint(&[1, 2, 3, 4, 5])), (0x201, 0, 0x5_0403_0201));
        assert_eq!((int(&[0xFE, 0xFF]), int(&[0x7F]), int(&[0xFF; 8]), int(&[])), (-2, 127, -1, 0));
        assert_eq!(int(&[0xFA, 0xFF, 0xFF, 0xFF]), -6);
    }
}
