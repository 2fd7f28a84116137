//! Packets that were handed out and of no use: leases that end, packets that are rejected.

use crate::bench::{Bench, Sent, packet};
use tracebuf::buffer::{Commit, Config, DataLoss, FillPolicy, LeaseExpired};

#[test]
fn a_lease_ends_when_its_sequence_is_forgotten() {
    let mut b = Bench::new(Config::new(FillPolicy::RingBuffer).sequences(4), 4096);
    b.commit(Sent::new(0, &[packet(b"leased")]));
    let lease = b.buffer.read().lease_packet().expect("a packet");
    assert!(b.buffer.leased(&lease).is_ok());
    for writer in 2..=5 {
        b.commit(Sent::new(0, &[packet(b"another's")]).writer(writer));
    }
    assert_eq!(b.buffer.leased(&lease).err(), Some(LeaseExpired));
}

#[test]
fn a_lease_stays_ended_when_another_program_s_sequence_gets_the_numbers_of_the_one_forgotten() {
    let mut b = Bench::new(Config::new(FillPolicy::RingBuffer).sequences(4), 4096);
    let commit = |b: &mut Bench, writer, pid, bytes: &[u8]| {
        let sent = Sent::new(0, &[packet(bytes)]).writer(writer).process(pid);
        assert_eq!(b.commit(sent), Commit::Written);
    };
    commit(&mut b, 1, 42, b"leased");
    let lease = b.buffer.read().lease_packet().expect("a packet");
    assert_eq!(b.buffer.leased(&lease).map(|packet| packet.pid()), Ok(42));
    (2..=5).for_each(|writer| commit(&mut b, writer, 7, b"x"));
    while b.buffer.read().next_packet().is_some() {}
    commit(&mut b, 1, 43, b"other");
    assert_eq!(b.buffer.leased(&lease).err(), Some(LeaseExpired));
    // Nor does the other get its loss.
    b.buffer.give_up(lease, DataLoss::OVERWRITE, []);
    let mut reader = b.buffer.read();
    let packet = reader.next_packet().expect("a packet");
    assert_eq!((packet.pid(), packet.loss()), (43, DataLoss::empty()));
}

#[test]
fn a_packet_that_was_rejected_is_a_loss_of_the_next_one_also_within_its_chunk() {
    let mut b = Bench::ring(256);
    b.commit(Sent::new(0, &[packet(b"first"), packet(b"bad"), packet(b"third"), packet(b"last")]));
    let mut reader = b.buffer.read();
    let losses = [1, 2, 3, 4].map(|n| {
        let loss = reader.next_packet().expect("four packets").loss();
        if n == 2 {
            reader.reject_packet(DataLoss::CHUNK_CORRUPTED);
        }
        loss
    });
    let none = DataLoss::empty();
    assert_eq!(losses, [none, none, DataLoss::ANY | DataLoss::CHUNK_CORRUPTED, none]);
}

#[test]
fn causes_that_a_rejected_packet_or_a_lease_given_up_carried_are_told_though_they_come_twice() {
    for by_lease in [false, true] {
        let mut b = Bench::ring(256);
        b.commit(Sent::new(0, &[packet(&[1; 100])]));
        for id in 0..2 {
            b.commit(Sent::new(id, &[packet(&[9; 100])]).writer(2));
        }
        b.commit(Sent::new(1, &[packet(b"unused"), packet(b"next")]));
        let mut reader = b.buffer.read();
        assert_eq!(reader.next_packet().map(|packet| packet.writer_id()), Some(2));
        let overwritten = DataLoss::ANY | DataLoss::OVERWRITE;
        if by_lease {
            let lease = reader.lease_packet().expect("the first of writer 1");
            assert_eq!(lease.loss(), overwritten);
            b.buffer.give_up(lease, DataLoss::OVERWRITE, []);
        } else {
            assert_eq!(reader.next_packet().map(|packet| packet.loss()), Some(overwritten));
            reader.reject_packet(DataLoss::OVERWRITE);
        }
        assert_eq!(b.read(), [(b"next".to_vec(), overwritten)]);
    }
}

#[test]
fn an_unused_packet_is_a_loss_also_for_causes_that_no_buffer_has_or_for_none() {
    for cause in [DataLoss::ANY, DataLoss::SHARED_MEMORY_FULL, DataLoss::empty()] {
        for by_lease in [false, true] {
            let mut b = Bench::ring(256);
            b.commit(Sent::new(0, &[packet(b"unused"), packet(b"next")]));
            let mut reader = b.buffer.read();
            if by_lease {
                let lease = reader.lease_packet().expect("the first");
                b.buffer.give_up(lease, cause, []);
            } else {
                assert!(reader.next_packet().is_some());
                reader.reject_packet(cause);
            }
            assert_eq!(b.read(), [(b"next".to_vec(), DataLoss::ANY | DataLoss::READ_GAP)]);
        }
    }
}
