//! What a tracing session is to be.

use perfetto_sdk::heap_buffer::HeapBuffer;
use perfetto_sdk::pb_msg::{PbMsg, PbMsgWriter};
use perfetto_sdk::protos::config::data_source_config::DataSourceConfig;
use perfetto_sdk::protos::config::trace_config::{
    TraceConfig, TraceConfigBufferConfig, TraceConfigDataSource, TraceConfigIncrementalStateConfig,
    TraceConfigProducerConfig,
};
use tracebuf_interop::FOLLOWER;

pub(crate) fn config(options: &[&str]) -> Vec<u8> {
    let option = |name: &str| {
        let mut all = options.iter().filter_map(|option| option.split_once('='));
        all.find(|(option, _)| *option == name).map(|(_, value)| value.parse::<u32>().expect("a number"))
    };
    let writer = PbMsgWriter::new();
    let bytes = HeapBuffer::new(writer.stream_writer());
    let mut message = PbMsg::new(&writer).expect("memory");
    let mut config = TraceConfig { msg: &mut message };
    let buffers = option("buffers").unwrap_or(1);
    for _ in 0..buffers {
        config.set_buffers(|buffer: &mut TraceConfigBufferConfig| {
            buffer.set_size_kb(64 << 10);
        });
    }
    config.set_data_sources(|source: &mut TraceConfigDataSource| {
        source.set_config(|config: &mut DataSourceConfig| {
            config.set_name("track_event").set_target_buffer(buffers - 1);
        });
    });
    if let Some(period) = option("flush") {
        config.set_flush_period_ms(period);
    }
    if let Some(period) = option("clear") {
        config.set_incremental_state_config(|config: &mut TraceConfigIncrementalStateConfig| {
            config.set_clear_period_ms(period);
        });
    }
    if let Some(memory) = option("memory") {
        config.set_producers(|producer: &mut TraceConfigProducerConfig| {
            producer.set_producer_name(FOLLOWER).set_shm_size_kb(memory).set_page_size_kb(4);
        });
    }
    message.finalize();
    let mut config = vec![0; writer.stream_writer().get_written_size()];
    bytes.copy_into(&mut config);
    config
}
