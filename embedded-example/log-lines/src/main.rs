//! Decodes a `defmt` log: a line for each of its own, its time and its text.
//!
//! usage: log-lines IMAGE LOG      a tab is between the two

use defmt_decoder::{DecodeError, Table};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [image, log] = paths.as_slice() else { return Err("usage: log-lines IMAGE LOG".into()) };
    let table = Table::parse(&std::fs::read(image)?)?.ok_or("the image has no log")?;
    let mut decoder = table.new_stream_decoder();
    decoder.received(&std::fs::read(log)?);
    loop {
        match decoder.decode() {
            Ok(frame) => {
                let time = frame.display_timestamp().ok_or("a line without time")?.to_string();
                println!("{time}\t{}", frame.display_message());
            }
            Err(DecodeError::UnexpectedEof) => return Ok(()),
            Err(DecodeError::Malformed) => return Err("the log is damaged".into()),
        }
    }
}
