//! Tests of what is read of a config, and of what is refused.

use super::*;
use crate::wire::ProtoBuilder;
use std::vec;

fn buffer(size_kb: u32, name: &str) -> ProtoBuilder {
    ProtoBuilder::new().number(buffer_config::SIZE_KB, size_kb).bytes(buffer_config::NAME, name.as_bytes())
}

fn with(buffers: &[ProtoBuilder]) -> ProtoBuilder {
    ProtoBuilder::new().each(buffers, |config, buffer| config.message(field::BUFFERS, buffer))
}

fn source(name: &str, fields: ProtoBuilder) -> ProtoBuilder {
    let config = ProtoBuilder::new().bytes(data_source_config::NAME, name.as_bytes());
    let config = config.fields(fields.as_bytes());
    ProtoBuilder::new().message(trace_config_data_source::CONFIG, &config)
}

fn refused(config: &ProtoBuilder) -> String {
    TraceConfig::of(config.as_bytes()).expect_err("there can be no such session")
}

#[test]
fn buffers_are_found_by_place_and_by_name() {
    let to = |number: u32| ProtoBuilder::new().number(data_source_config::TARGET_BUFFER, number);
    let named = |name: &[u8]| ProtoBuilder::new().bytes(data_source_config::TARGET_BUFFER_NAME, name);
    let buffers = [buffer(4, ""), buffer(8, "b")];
    let config = [
        to(1),
        ProtoBuilder::new(),
        named(b"b"),
        named(b"b").number(data_source_config::TARGET_BUFFER, 1_u32),
    ]
    .iter()
    .fold(with(&buffers), |config, to| config.message(field::DATA_SOURCES, &source("s", to.clone())));
    let read = TraceConfig::of(config.as_bytes()).expect("valid");
    assert_eq!(read.sources.iter().map(|source| source.buffer).collect::<Vec<_>>(), [1, 0, 1, 1]);
    assert_eq!(read.whole, config.as_bytes(), "what is not read stays too");
    for wrong in
        [to(2), to(u32::MAX), named(b"c"), named(b"b").number(data_source_config::TARGET_BUFFER, 2_u32)]
    {
        let error = refused(&with(&buffers).message(field::DATA_SOURCES, &source("s", wrong)));
        assert!(error.starts_with("Data source s wants"), "{error}");
    }
    assert!(
        refused(&ProtoBuilder::new().message(field::DATA_SOURCES, &source("s", to(0)))).contains("buffer 0")
    );
    assert!(TraceConfig::of(&[]).is_ok(), "none of anything");
}

#[test]
fn what_no_session_can_be_is_refused_with_its_reason() {
    let long = ProtoBuilder::new().number(field::DURATION_MS, 8_u64 * 24 * 3600 * 1000);
    let filter = ProtoBuilder::new().bytes(field::TRACE_FILTER, b"\x08\x01");
    let cases = [
        (with(&[buffer(0, "")]), "Invalid buffer sizes"),
        (ProtoBuilder::new().bytes(999, &[0; 130_100]), "too long (130105 bytes)"),
        (with(&[buffer(1 << 22, "")]), "Invalid buffer sizes"),
        (with(&[buffer(4, "x"), buffer(4, "x")]), "Duplicate buffer name x"),
        (with(&vec![buffer(4, ""); 129]), "Too many buffers configured (129)"),
        (long, "Requested too long trace"),
        (filter, "trace_filter is not supported"),
        (ProtoBuilder::new().bytes(field::BUGREPORT_FILENAME, b"a/b"), "Invalid bugreport_filename a/b"),
        (ProtoBuilder::new().fields(b"\x0A\x05a"), "malformed"),
        (ProtoBuilder::new().number(field::LOCKDOWN_MODE, 2_u32), "lockdown_mode is not supported"),
    ];
    for (config, reason) in cases {
        let error = refused(&config);
        assert!(error.contains(reason), "{error}");
    }
    assert!(TraceConfig::of(with(&vec![buffer(4, ""); 128]).as_bytes()).is_ok());
}

#[test]
fn when_a_file_is_flushed_and_written_depends_on_its_mode_and_period() {
    let flushing = |writes: u32, mode: u32, period: u32| {
        let config = ProtoBuilder::new()
            .number(field::WRITE_INTO_FILE, writes)
            .number(field::WRITE_FLUSH_MODE, mode)
            .number(field::FILE_WRITE_PERIOD_MS, period)
            .number(field::FLUSH_PERIOD_MS, 7_u32);
        TraceConfig::of(config.as_bytes()).expect("valid").flushing()
    };
    assert_eq!([flushing(0, 0, 0), flushing(0, 3, 100)], [(false, 7); 2]);
    assert_eq!([flushing(1, 0, 0), flushing(1, 1, 5000)], [(false, 5000); 2]);
    assert_eq!([flushing(1, 0, 5001), flushing(1, 3, 100)], [(true, 0); 2]);
    assert_eq!(flushing(1, 2, 100), (false, 7));
}
