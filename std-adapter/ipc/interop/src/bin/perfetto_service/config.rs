//! The configuration of a tracing session.

use perfetto_sdk::heap_buffer::HeapBuffer;
use perfetto_sdk::pb_msg::{PbMsg, PbMsgWriter};
use perfetto_sdk::protos::config::data_source_config::DataSourceConfig;
use perfetto_sdk::protos::config::trace_config::{
    TraceConfig, TraceConfigBufferConfig, TraceConfigDataSource, TraceConfigIncrementalStateConfig,
    TraceConfigProducerConfig,
};
use perfetto_sdk::protos::config::track_event::track_event_config::TrackEventConfig;
use tracebuf_interop::FOLLOWER;

pub(crate) fn config(options: &[&str]) -> Vec<u8> {
    let option = |name: &str| {
        let mut all = options.iter().filter_map(|option| option.split_once('='));
        all.find(|(option, _)| *option == name).map(|(_, value)| value)
    };
    let number = |name: &str| option(name).map(|value| value.parse::<u32>().expect("a number"));
    let writer = PbMsgWriter::new();
    let bytes = HeapBuffer::new(writer.stream_writer());
    let mut message = PbMsg::new(&writer).expect("memory");
    let mut config = TraceConfig { msg: &mut message };
    let buffers = number("buffers").unwrap_or(1);
    for _ in 0..buffers {
        config.set_buffers(|buffer: &mut TraceConfigBufferConfig| {
            buffer.set_size_kb(64 << 10);
        });
    }
    config.set_data_sources(|source: &mut TraceConfigDataSource| {
        source.set_config(|config: &mut DataSourceConfig| {
            config.set_name("track_event").set_target_buffer(buffers - 1);
            if let Some(categories) = option("only") {
                config.set_track_event_config(|config: &mut TrackEventConfig| {
                    config.set_disabled_categories("*");
                    for category in categories.split(',') {
                        config.set_enabled_categories(category);
                    }
                });
            }
        });
    });
    if let Some(name) = option("source") {
        config.set_data_sources(|source: &mut TraceConfigDataSource| {
            source.set_config(|config: &mut DataSourceConfig| {
                config.set_name(name).set_target_buffer(buffers - 1);
            });
        });
    }
    if let Some(period) = number("flush") {
        config.set_flush_period_ms(period);
    }
    if let Some(period) = number("clear") {
        config.set_incremental_state_config(|config: &mut TraceConfigIncrementalStateConfig| {
            config.set_clear_period_ms(period);
        });
    }
    if let Some(memory) = number("memory") {
        config.set_producers(|producer: &mut TraceConfigProducerConfig| {
            producer.set_producer_name(FOLLOWER).set_shm_size_kb(memory).set_page_size_kb(4);
        });
    }
    message.finalize();
    let mut config = vec![0; writer.stream_writer().get_written_size()];
    bytes.copy_into(&mut config);
    config
}
