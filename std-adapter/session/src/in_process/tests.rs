//! Flushes.

use std::time::Duration;

use tracebuf::buffer::{Config, FillPolicy, TraceBuffer};
use tracebuf::producer::Exhaustion;
use tracebuf::service::FlushTracker;

use super::*;
use crate::carry_over::CarryOver;
use crate::producer_cell::words;
use crate::recording_gate::RecordingGate;
use crate::waits::Waker;
use tracebuf_std::memory::PagedMemory;

/// Waits until this thread of the process waits for something, or until it should where that is not seen in `/proc`.
fn until_it_waits(thread: u32) {
    let waits = || match std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")) {
        Ok(stat) => stat.rsplit_once(')').is_some_and(|(_, rest)| rest.starts_with(" S")),
        Err(_) => {
            std::thread::sleep(Duration::from_millis(50));
            true
        }
    };
    let mut seen = 0;
    while seen < 5 {
        seen = if waits() { seen + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_flush_has_not_succeeded_while_another_thread_is_sending_what_packets_wait_for() {
    let (gate, waker) = (Arc::new(RecordingGate::new()), Waker::default());
    let producer = ProducerCell::in_memory(words(1 << 20), gate, waker, "test".to_owned()).expect("memory");
    let producer = Arc::new(producer);
    let identity = ProducerIdentity { producer_id: 1, uid: 0, pid: 1 };
    let mut transport = InProcess::new(producer.clone(), identity, 1);
    let memory = PagedMemory::new(1 << 20).expect("memory").into();
    let buffer =
        TraceBuffer::new(memory, Config::new(FillPolicy::RingBuffer).sequences(4)).expect("a buffer");
    let mut buffers = [buffer.observed_by(CarryOver::default())];
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let in_thread = producer.clone();
        let thread = scope.spawn(move || {
            let mut writer = in_thread.producer().writer(0, Exhaustion::Drop).expect("a writer");
            tell.send(tracebuf_std::system::thread_id()).expect("the test waits");
            gone.recv().expect("the test goes on");
            // Over more than two chunks, so that the first waits for the message's size.
            writer.packet().message(900).string(1, &"x".repeat(6000));
            // So that the test sees what is there before the writer ends.
            let _ = gone.recv();
        });
        let id = told.recv().expect("a thread");
        let held = producer.queue().requests();
        go.send(()).expect("the thread waits");
        until_it_waits(id);
        let mut flushes = FlushTracker::new();
        flushes.ask(1);
        transport.ask_flush(1);
        assert!(transport.is_asked, "the patch is not in the queue");
        drop(held);
        while !flushes.is_idle() {
            transport.drain(&mut buffers, &mut flushes);
        }
        transport.scrape(&mut buffers);
        let size = buffers[0].read().next_packet().map(|packet| packet.len());
        assert!(size.is_some_and(|size| size > 6000), "{size:?}");
        drop(go);
        thread.join().expect("no panic");
    });
}
