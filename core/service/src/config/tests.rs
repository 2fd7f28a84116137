//! Tests of what is read of a config, and of what is refused.

use super::*;
use crate::wire::ProtoBuilder;
use std::vec;
use tracebuf::proto::fields::config::trigger_config;

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
    let boost = ProtoBuilder::new().bytes(field::PRIORITY_BOOST, b"\x08\x01");
    let guarded = |buffer, rest: &ProtoBuilder| {
        with(&[buffer]).number(field::ENABLE_EXTRA_GUARDRAILS, true).fields(rest.as_bytes())
    };
    let none = ProtoBuilder::new();
    let triggers = ProtoBuilder::new()
        .number(trigger_config::TRIGGER_MODE, 1_u32)
        .number(trigger_config::TRIGGER_TIMEOUT_MS, 25_u32 * 3600 * 1000);
    let cases = [
        (with(&[buffer(0, "")]), "Invalid buffer sizes"),
        (ProtoBuilder::new().bytes(999, &[0; 130_100]), "too long (130105 bytes)"),
        (with(&[buffer(1 << 22, "")]), "Invalid buffer sizes"),
        (with(&[buffer(4, "x"), buffer(4, "x")]), "Duplicate buffer name x"),
        (with(&vec![buffer(4, ""); 129]), "Too many buffers configured (129)"),
        (long, "Requested too long trace"),
        (boost, "priority_boost is not supported"),
        (ProtoBuilder::new().bytes(field::BUGREPORT_FILENAME, b"a/b"), "Invalid bugreport_filename a/b"),
        (ProtoBuilder::new().fields(b"\x0A\x05a"), "malformed"),
        (guarded(buffer(5, ""), &none), "multiples of 4 KiB"),
        (guarded(buffer(129 << 10, ""), &none), "131072 KiB of buffers, and not 132096"),
        (guarded(buffer(4, ""), &none.clone().message(field::TRIGGER_CONFIG, &triggers)), "a day"),
        (guarded(buffer(4, ""), &none.clone().number(field::DURATION_MS, 25_u32 * 3600 * 1000)), "a day"),
        (guarded(buffer(4, ""), &none.clone().number(field::DEFERRED_START, true)), "deferred"),
    ];
    for (config, reason) in cases {
        let error = refused(&config);
        assert!(error.contains(reason), "{error}");
    }
    assert!(TraceConfig::of(with(&vec![buffer(4, ""); 128]).as_bytes()).is_ok());
    let overrides =
        ProtoBuilder::new().number(guardrail_overrides::MAX_TRACING_BUFFER_SIZE_KB, 129_u32 << 10);
    let overrides = ProtoBuilder::new().message(field::GUARDRAIL_OVERRIDES, &overrides);
    assert!(TraceConfig::of(guarded(buffer(129 << 10, ""), &overrides).as_bytes()).is_ok());
}

#[test]
fn the_codec_with_the_highest_number_comes_first_with_its_level_and_the_old_form_is_one_more() {
    let codecs = |kinds: &[(u32, ProtoBuilder)], old_form: u32| {
        let kinds = ProtoBuilder::new().each(kinds, |all, (kind, within)| all.message(*kind, within));
        let config =
            ProtoBuilder::new().message(field::COMPRESSION, &kinds).number(field::COMPRESSION_TYPE, old_form);
        TraceConfig::of(config.as_bytes()).expect("valid").codecs
    };
    let level = |level: i64| ProtoBuilder::new().number(zstd::LEVEL, level.cast_unsigned());
    let none = ProtoBuilder::new;
    let zstd = |level| Codec::Zstd { level };
    assert_eq!(codecs(&[], 0), None);
    assert_eq!(codecs(&[(99, none())], 0), Some(vec![]));
    assert_eq!([codecs(&[(1, none())], 0), codecs(&[], 1)], [(); 2].map(|()| Some(vec![Codec::Deflate])));
    assert_eq!(codecs(&[(2, none()), (1, none())], 0), Some(vec![zstd(3), Codec::Deflate]));
    assert_eq!(codecs(&[(2, level(1))], 1), Some(vec![zstd(1), Codec::Deflate]));
    let levels = [(0, 3), (22, 9), (-1, -1), (-1000, -7), (i64::from(i32::MAX), 9)];
    for (said, used) in levels {
        assert_eq!(codecs(&[(2, level(said))], 0), Some(vec![zstd(used)]), "{said}");
    }
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
