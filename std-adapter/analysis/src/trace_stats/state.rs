//! Packets of a trace that cannot be read, because the state that they need is missing.

#[cfg(test)]
mod tests {
    use tracebuf::proto::PacketView;
    use tracebuf::proto::fields::sequence_flags::{INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE};

    use crate::trace_stats::TraceReport;

    #[test]
    fn what_needs_a_state_can_be_read_from_one_on_until_a_loss() {
        let mut has_state = false;
        let mut read = |flags, is_lost: bool| {
            let mut packet = PacketView::default();
            (packet.flags, packet.loss) = (flags, is_lost.into());
            packet.can_be_read(&mut has_state)
        };
        let (starts, needs) = (INCREMENTAL_STATE_CLEARED, NEEDS_INCREMENTAL_STATE);
        assert!(!read(needs, false) && read(0, false) && !read(needs, false), "before the first");
        assert!(read(starts | needs, true) && read(needs, false), "a state behind a loss is one");
        assert!(!read(needs, true) && !read(needs, false) && read(0, false));
        assert!(read(starts, false) && read(needs, false));
        assert!(read(0, true) && !read(needs, false), "also if the packet behind the loss needs none");
    }

    #[test]
    fn a_state_is_one_too_where_the_packet_says_so_as_older_writers_do() {
        // All are of sequence 1. The first says whether a state begins, the third that none does; the others need one.
        for (clears, unreadable) in [(1, 0), (0, 2)] {
            let trace = [
                &[10, 5, 0x50, 1, 0xC8, 2, clears][..],
                &[10, 4, 0x50, 1, 0x68, 2],
                &[10, 5, 0x50, 1, 0xC8, 2, 0],
                &[10, 4, 0x50, 1, 0x68, 2],
            ];
            assert_eq!(TraceReport::of(&trace.concat()).sequences[&1].unreadable, unreadable);
        }
    }

    #[test]
    fn all_of_a_ring_that_has_wrapped_can_be_read_and_what_cannot_without_its_first_state_is_told() {
        use tracebuf::producer::Exhaustion;
        use tracebuf::proto::TracePackets;
        use tracebuf_session::{BufferConfig, Session};

        for self_contained in [false, true] {
            let ring = BufferConfig::ring(64 << 10);
            let ring = if self_contained { ring.self_contained_chunks() } else { ring };
            let session = Session::builder().buffer(ring).exhaustion(Exhaustion::Stall).start();
            let session = session.expect("a session");
            (0..20_000).for_each(|_| session.recorder().instant("event"));
            // How many packets fit depends on the length of their times, so the oldest may happen to begin a state. A
            // few hundred packets later it is another, out of more than a thousand that share a state.
            let tells_some = (0..4).any(|_| {
                (0..300).for_each(|_| session.recorder().instant("event"));
                let (snapshot, mut trace) = (session.snapshot().expect("a snapshot"), Vec::new());
                let packets = snapshot.write(&mut trace).expect("memory").packets;
                let unread = |trace: &[u8]| {
                    let report = TraceReport::of(trace);
                    let unread: u64 = report.sequences.values().map(|sequence| sequence.unreadable).sum();
                    let said = report.to_string();
                    assert_eq!(
                        said.contains(&format!("cannot be read: {unread} packets\n")),
                        unread > 0,
                        "{said}"
                    );
                    assert_eq!(said.contains("cannot be read"), unread > 0, "{said}");
                    unread
                };
                assert_eq!(unread(&trace), 0);
                let mut all = TracePackets::new(&trace);
                let is_state = |bytes: &[u8]| PacketView::of(bytes).begins_state();
                while all.next().is_some_and(|packet| !is_state(packet.expect("a packet"))) {}
                let unread = unread(&trace[all.offset()..]);
                // Up to a quarter of the ring.
                assert!(unread <= packets / 3, "{unread} of {packets}");
                unread > 0
            });
            assert!(tells_some);
        }
    }
}
