//! What Perfetto's own service makes of what the program records, in a session within the program.

use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc;

use perfetto_sdk::heap_buffer::HeapBuffer;
use perfetto_sdk::pb_msg::{PbMsg, PbMsgWriter};
use perfetto_sdk::protos::config::data_source_config::DataSourceConfig;
use perfetto_sdk::protos::config::trace_config::{
    TraceConfig, TraceConfigBufferConfig, TraceConfigDataSource,
};
use perfetto_sdk::protos::config::track_event::track_event_config::TrackEventConfig;
use perfetto_sdk::tracing_session::TracingSession;
use tracebuf_interop::SOURCE;

pub(crate) fn start() -> TracingSession {
    let mut session = TracingSession::in_process().expect("a session");
    session.setup(&config());
    session.start_blocking();
    session
}

pub(crate) fn stop(mut session: TracingSession, path: &Path) {
    session.stop_blocking();
    let (bytes, all) = mpsc::channel();
    session.read_trace_blocking(move |part, _| bytes.send(part.to_vec()).expect("it is waited for"));
    let mut file = std::fs::File::create(path).expect("a file");
    all.try_iter().for_each(|part| file.write_all(&part).expect("there is room"));
}

/// All categories except those with a tag that excludes them, and the program's own source.
fn config() -> Vec<u8> {
    let writer = PbMsgWriter::new();
    let bytes = HeapBuffer::new(writer.stream_writer());
    let mut message = PbMsg::new(&writer).expect("memory");
    let mut config = TraceConfig { msg: &mut message };
    config.set_buffers(|buffer: &mut TraceConfigBufferConfig| {
        buffer.set_size_kb(64 << 10);
    });
    config.set_data_sources(|source: &mut TraceConfigDataSource| {
        source.set_config(|config: &mut DataSourceConfig| {
            config.set_name("track_event");
            config.set_track_event_config(|events: &mut TrackEventConfig| {
                events.set_enabled_categories("*").set_disabled_tags("debug");
            });
        });
    });
    config.set_data_sources(|source: &mut TraceConfigDataSource| {
        source.set_config(|config: &mut DataSourceConfig| {
            config.set_name(SOURCE);
        });
    });
    message.finalize();
    let mut config = vec![0; writer.stream_writer().get_written_size()];
    bytes.copy_into(&mut config);
    config
}
