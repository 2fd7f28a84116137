//! The inbox between writers and drain, when a lot is in it at once.

use tracebuf::producer::{ChunkState, Exhaustion, Message, Producer, ProducerStorage};
use tracebuf_firmware::recorder::{Inbox, Recorder};

/// A string in so many messages, each the only thing in the one around it.
fn nested(message: &mut Message<'_, '_>, levels: usize, text: &str) {
    if levels == 0 {
        message.string(1, text);
    } else {
        nested(&mut message.message(1), levels - 1, text);
    }
}

/// Chunks of shared memory that nobody holds.
fn free(producer: &Producer<'_>) -> usize {
    let pages = producer.memory().all_pages();
    pages.filter(|page| page.bitmap().state(0) == ChunkState::Free).count()
}

#[test]
fn chunks_are_free_after_the_drain_however_many_patches_there_were() {
    // One level for each patch of a chunk; of ten levels there are more than the inbox has room for.
    for levels in [1, 2, 4, 10] {
        let (storage, inbox, mut region) = (ProducerStorage::new(), Inbox::new(), vec![0; 64 * 1024 / 8]);
        let (producer, mut recorder) = Recorder::new(&mut region, &storage, &inbox).unwrap();
        let all = free(&producer);
        assert_eq!(all, Inbox::CHUNKS);
        let mut writer = producer.writer(0, Exhaustion::Drop).unwrap();
        let mut whole = 0;
        for round in 0..3 {
            // As long as the drain does not get its turn.
            let dropped = writer.stats().dropped;
            while writer.stats().dropped == dropped {
                nested(&mut writer.packet(), levels, &"x".repeat(300));
                whole += 1;
            }
            whole -= 1;
            writer.flush();
            recorder.drain();
            assert_eq!(free(&producer), all, "{levels} levels, round {round}");
        }
        if levels <= 2 {
            let mut reader = recorder.buffer().read();
            let mut read = 0;
            while let Some(packet) = reader.next_packet() {
                read += usize::from(packet.len() > 300);
            }
            assert_eq!(read, whole, "{levels} levels");
        }
    }
}
