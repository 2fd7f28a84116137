//! Pages that no kernel should write, and what Perfetto's recorder says of them: [`MalformedPages`].

use std::io::{self, Read};

use flate2::read::GzDecoder;
use serde_json::Value;
use tracebuf_machine::ftrace::{FtraceReader, PageOutcome};

use super::fixture::{Fixture, invalid};

/// A list of such pages.
#[derive(Debug)]
pub struct MalformedPages {
    /// The file of the fixture that has the formats.
    pub formats_of: String,
    /// The pages.
    pub pages: Vec<MalformedPage>,
}

/// A page, and what comes of it.
#[derive(Debug)]
pub struct MalformedPage {
    /// What is wrong with it.
    pub name: String,
    /// The status, if there is anything wrong that matters.
    pub status: Option<u64>,
    /// Events that are whole.
    pub events: u64,
    page: Vec<u8>,
}

impl MalformedPages {
    /// Reads a gzipped list.
    ///
    /// # Errors
    /// Those of `file`, and [`InvalidData`](io::ErrorKind::InvalidData) if it is no such list.
    pub fn read(file: impl Read) -> io::Result<Self> {
        let list: Value = serde_json::from_reader(GzDecoder::new(file))?;
        let formats_of = list["formats_of"].as_str().ok_or_else(|| invalid("no fixture's name"))?.to_owned();
        let cases = list["cases"].as_array().ok_or_else(|| invalid("no cases"))?;
        let pages = cases.iter().map(|case| {
            Some(MalformedPage {
                name: case["name"].as_str()?.to_owned(),
                status: case["status"].as_u64(),
                events: case["events"].as_u64()?,
                page: base64(case["page"].as_str()?)?,
            })
        });
        let pages =
            pages.collect::<Option<_>>().ok_or_else(|| invalid("a case without name, page or events"))?;
        Ok(Self { formats_of, pages })
    }
}

impl MalformedPage {
    /// Decodes the page, with all events of the fixture, scheduling in lists.
    ///
    /// # Errors
    /// If the fixture lacks what is needed.
    pub fn decode(&self, fixture: &mut Fixture) -> io::Result<PageOutcome> {
        let events = fixture.events().to_vec();
        let mut reader = FtraceReader::new(fixture, events.iter().map(String::as_str), true)?;
        Ok(reader.decode(0, &self.page, &mut |_| ()))
    }
}

/// Decodes base64; the padding is not looked at.
fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for letter in text.trim_end_matches('=').bytes() {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_whatever_its_padding() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYg", "foob")] {
            assert_eq!(base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(base64("+/8"), Some(vec![0xFB, 0xFF]));
        assert_eq!(base64("Zm 9v"), None);
    }
}
