//! Packets of a session, for its consumer or its file.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use tracebuf::buffer::{DataLoss, Reader, SequenceInfo};
use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::consumer::tracing_service_event as moment;
use tracebuf::proto::fields::{
    trace, trace_packet, trace_provenance, trace_provenance_buffer, trace_provenance_sequence,
};
use tracebuf::service::trusted_fields;

use super::Service;
use crate::buffers::BufferSlab;
use crate::filter::Filtered;
use crate::host::{Codec, ConnectionId, Host};
use crate::packets;
use crate::sequences::Sequences;
use crate::sessions::{Moment, Session};
use crate::sinks::{PacketSink, Piece, Slices};
use crate::wire::ProtoBuilder;

/// Bytes of packets that a consumer gets in one turn.
const TURN: usize = 128 << 10;
/// Bytes on their way to a consumer beyond which nothing more is read for it.
pub(super) const MOST_UNSENT: usize = 512 << 10;

/// Most bytes that are compressed.
const MOST_COMPRESSED: usize = 4 << 20;

/// How reading went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// There may be more.
    Some,
    /// There is nothing more for now.
    All,
    /// The sink takes nothing more.
    Full,
}

impl<H: Host> Service<H> {
    pub(super) fn begin_reading(&mut self, connection: ConnectionId, request: Option<u64>) {
        let Some(one) = self.connections.get_mut(&connection) else { return };
        if one.consumer.reads.is_some() {
            // The one that is under way goes on.
            return self.reject(connection, request);
        }
        let session = one.consumer.session.and_then(|id| self.sessions.get(&id));
        if !session.is_some_and(Session::is_readable) {
            return self.end_reading(connection, request);
        }
        if let (Some(one), Some(_)) = (self.connections.get_mut(&connection), request) {
            one.consumer.reads = request;
            self.readers.insert(connection);
        }
    }

    /// Says that there is nothing more to read.
    pub(super) fn end_reading(&mut self, connection: ConnectionId, request: Option<u64>) {
        self.reply(connection, request, &ProtoBuilder::new());
    }

    /// A consumer has no session any more: if it reads, it hears the end.
    pub(super) fn stop_reading(&mut self, connection: ConnectionId) {
        self.readers.remove(&connection);
        let reads = self.connections.get_mut(&connection).and_then(|one| one.consumer.reads.take());
        self.end_reading(connection, reads);
    }

    /// Sends a consumer some packets. Returns whether more can be read at once.
    pub(super) fn read_turn(&mut self, connection: ConnectionId) -> bool {
        let Some(one) = self.connections.get(&connection) else { return false };
        let (Some(request), Some(id)) = (one.consumer.reads, one.consumer.session) else {
            self.readers.remove(&connection);
            return false;
        };
        if one.unsent > MOST_UNSENT {
            return false;
        }
        let mut slices = Slices::new(request);
        let read = if self.compresses(id) {
            let mut piece = Piece::new(u64::MAX);
            let read = self.read(id, &mut piece, TURN);
            let packets = self.compressed(id, piece.into_bytes());
            TracePackets::new(&packets).flatten().for_each(|packet| _ = slices.own(packet));
            read
        } else {
            self.read(id, &mut slices, TURN)
        };
        let is_over = read != Read::Some;
        let frames = slices.finish(is_over);
        if let Some(one) = self.connections.get_mut(&connection) {
            one.consumer.last_read = frames.iter().map(|frame| frame.as_bytes().len() + 4).sum();
        }
        for frame in frames {
            self.send(connection, &frame);
        }
        if is_over {
            self.readers.remove(&connection);
            if let Some(one) = self.connections.get_mut(&connection) {
                one.consumer.reads = None;
            }
        }
        !is_over
    }

    pub(super) fn compresses(&self, id: u64) -> bool {
        self.sessions.get(&id).is_some_and(|session| session.config.codec.is_some())
    }

    /// Packets as a trace file has them, all in one if the session compresses them and they are shorter so.
    pub(super) fn compressed(&mut self, id: u64, packets: Vec<u8>) -> Vec<u8> {
        let Some(codec) = self.sessions.get(&id).and_then(|session| session.config.codec) else {
            return packets;
        };
        // That of a packet without end would keep all others waiting.
        if packets.len() > MOST_COMPRESSED {
            return packets;
        }
        let field = match codec {
            Codec::Deflate => trace_packet::COMPRESSED_PACKETS,
            Codec::Zstd { .. } => trace_packet::ZSTD_COMPRESSED_PACKETS,
        };
        let packed = self.host.compress(codec, &packets).map(|all| {
            let packet = ProtoBuilder::new().bytes(field, &all);
            ProtoBuilder::new().message(trace::PACKET, &packet).into_bytes()
        });
        packed.filter(|packed| packed.len() < packets.len()).unwrap_or(packets)
    }

    /// Reads some of a session, of its buffers up to `most` bytes: what the service has to say first, then the buffers in
    /// turn, then statistics. Of all but those the session's filter leaves what it lets through.
    pub(super) fn read(&mut self, id: u64, sink: &mut impl PacketSink, most: usize) -> Read {
        let begun = self.host.clocks().monotonic;
        let mut filter = self.sessions.get_mut(&id).and_then(|session| session.filter.take());
        let read = match &mut filter {
            Some(filter) => self.read_packets(id, &mut Filtered::new(filter, sink), most),
            None => self.read_packets(id, sink, most),
        };
        if let Some(filter) = &mut filter {
            filter.took(self.host.clocks().monotonic.saturating_sub(begun));
        }
        if let Some(session) = self.sessions.get_mut(&id) {
            session.filter = filter;
        }
        if read == Read::All && !self.say_stats(id, sink) { Read::Full } else { read }
    }

    fn read_packets(&mut self, id: u64, sink: &mut impl PacketSink, most: usize) -> Read {
        if !self.say_beginning(id, sink) {
            return Read::Full;
        }
        self.tidy_sequences(id);
        let Some(session) = self.sessions.get_mut(&id) else { return Read::All };
        let numbers = if most == 0 { Vec::new() } else { session.buffers.clone() };
        for (place, number) in numbers.into_iter().enumerate() {
            sink.of_buffer(Some(place));
            // What nothing overwrites any more comes writer by writer. While it may be, the oldest is taken first.
            let writers = if session.state.is_over() { self.buffers.writers(number) } else { Vec::new() };
            for writer in writers {
                if sink.len() >= most {
                    break;
                }
                let Some(reader) = self.buffers.read_sequence(number, writer) else { break };
                if !read_from(reader, session, sink, most) {
                    return Read::Full;
                }
            }
            let Some(reader) = self.buffers.read(number) else { continue };
            if !read_from(reader, session, sink, most) {
                return Read::Full;
            }
            if sink.len() >= most {
                return Read::Some;
            }
        }
        sink.of_buffer(None);
        if self.say_end(id, sink) { Read::All } else { Read::Full }
    }

    /// Forgets the numbers of writers whose producers are gone, and of which there is nothing left.
    fn tidy_sequences(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id).filter(|session| session.sequences.are_many()) else {
            return;
        };
        let in_buffers = session.buffers.iter().flat_map(|number| self.buffers.sequences(*number));
        let in_buffers: BTreeSet<u16> = in_buffers.map(|of| of.producer_id).collect();
        let producers = &self.producers;
        session.sequences.keep(|of| producers.contains_key(&of) || in_buffers.contains(&of));
    }

    /// What comes before data; false if the sink is full.
    fn say_beginning(&mut self, id: u64, sink: &mut impl PacketSink) -> bool {
        let boottime = self.host.clocks().boottime;
        let machine = self.host.machine();
        let Some(session) = self.sessions.get_mut(&id).filter(|session| session.started.is_some()) else {
            return true;
        };
        let vms = programs(&mut self.buffers, session);
        let (uid, config, told) = (machine.uid, &session.config, &mut session.told);
        let now = session.started.map_or(0, |started| started.boottime);
        let mut all: Vec<ProtoBuilder> = Vec::new();
        let clocks = told.initial_clocks.take().into_iter().chain(core::mem::take(&mut told.clocks));
        let primary = config.builtin.primary_clock;
        all.extend(
            clocks.filter(|_| config.builtin.clocks).map(|clocks| packets::clocks(uid, &clocks, primary)),
        );
        if core::mem::take(&mut told.marker_is_due) {
            all.push(packets::marker(uid));
        }
        let is_beginning = !core::mem::replace(&mut told.beginning, true);
        if is_beginning && config.builtin.config {
            all.push(packets::config(uid, &config.whole, now));
        }
        let fired = core::mem::take(&mut told.triggers).into_iter().filter(|_| config.builtin.config);
        let cause = told.clone_trigger.take().filter(|_| config.builtin.config);
        all.extend(cause.map(|cause| packets::trigger(uid, trace_packet::CLONE_SNAPSHOT_TRIGGER, &cause)));
        all.extend(fired.map(|fired| packets::trigger(uid, trace_packet::TRIGGER, &fired)));
        if is_beginning || core::mem::take(&mut told.is_renamed) {
            all.push(packets::uuid(uid, config.uuid, now));
        }
        // Programs of data sources come with the same.
        if is_beginning && vms.is_none() {
            let provenance = provenance(&self.buffers, &session.buffers, &mut session.sequences);
            all.push(packets::provenance(uid, &provenance, boottime));
        }
        if is_beginning && config.builtin.system_info {
            all.push(packets::system(machine, now));
        }
        let mut moments = core::mem::take(&mut told.moments);
        moments.sort_by_key(|moment| moment.time);
        all.extend(moments.iter().filter(|_| config.builtin.events).map(|of| packets::moment(uid, of)));
        let mut others = core::mem::take(&mut told.others);
        others.sort_by_key(|other| other.time);
        all.extend(others.iter().map(|other| packets::other(uid, other)));
        if let Some((provenance, vms)) = vms {
            all.extend(packets::programs(uid, &provenance, &vms, boottime));
        }
        all.iter().all(|packet| sink.own(packet.as_bytes()))
    }

    /// What comes when all buffers are empty; false if the sink is full.
    fn say_end(&mut self, id: u64, sink: &mut impl PacketSink) -> bool {
        let (now, uid) = (self.host.clocks().boottime, self.host.machine().uid);
        let Some(session) = self.sessions.get(&id).filter(|session| session.started.is_some()) else {
            return true;
        };
        let has_something = session.told.stats_are_due || session.state.is_over() || sink.len() != 0;
        let completed = Moment::new(moment::READ_TRACING_BUFFERS_COMPLETED, now);
        let is_said = session.config.builtin.events && has_something;
        !is_said || sink.own(packets::moment(uid, &completed).as_bytes())
    }

    /// Statistics, if they are due; false if the sink is full.
    fn say_stats(&mut self, id: u64, sink: &mut impl PacketSink) -> bool {
        let (now, uid) = (self.host.clocks().boottime, self.host.machine().uid);
        let session = self.sessions.get_mut(&id).filter(|session| session.started.is_some());
        if !session.is_some_and(|session| core::mem::take(&mut session.told.stats_are_due)) {
            return true;
        }
        // Those of each writer are left out where there is no room for them.
        [true, false].into_iter().any(|has_writers| {
            let stats = packets::stats(uid, &self.stats_of(id, has_writers), now);
            let filter = self.sessions.get_mut(&id).and_then(|session| session.filter.as_mut());
            let is_taken = sink.own(stats.as_bytes());
            if let Some(filter) = filter.filter(|_| is_taken) {
                filter.passed(stats.as_bytes().len());
            }
            is_taken
        })
    }
}

/// Takes packets, up to `most` bytes; false if the sink is full.
fn read_from(mut reader: Reader<'_>, session: &mut Session, sink: &mut impl PacketSink, most: usize) -> bool {
    while sink.len() < most {
        let Some(packet) = reader.next_packet() else { break };
        let sequence = session.sequences.of(packet.producer_id(), packet.writer_id());
        match trusted_fields(&packet, sequence, DataLoss::empty()) {
            Ok((len, trusted)) => {
                if !sink.packet(len, packet.slices(), trusted.suffix().as_bytes()) {
                    return false;
                }
            }
            Err(_) => {
                session.invalid_packets += 1;
                reader.reject_packet(DataLoss::CHUNK_CORRUPTED);
            }
        }
    }
    true
}

/// Which sequences each buffer has so far, and whose they are.
fn provenance<M: AsRef<[u8]> + AsMut<[u8]>>(
    buffers: &BufferSlab<M>,
    numbers: &[u16],
    known: &mut Sequences,
) -> ProtoBuilder {
    use trace_provenance_sequence::{ID, PRODUCER_ID};
    numbers.iter().fold(ProtoBuilder::new(), |all, number| {
        let told = buffers.sequences(*number).fold(ProtoBuilder::new(), |told, info| {
            let id = known.of(info.producer_id, info.writer_id);
            let one = ProtoBuilder::new().number(ID, id.get()).number(PRODUCER_ID, info.producer_id);
            told.message(trace_provenance_buffer::SEQUENCES, &one)
        });
        all.message(trace_provenance::BUFFERS, &told)
    })
}

/// Whose packets are patches in a session, and the programs with their states, as soon as there are packets of one that
/// has a program that was not told of.
fn programs<M: AsRef<[u8]> + AsMut<[u8]>>(
    buffers: &mut BufferSlab<M>,
    session: &mut Session,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut provenance, mut told) = (Vec::new(), Vec::new());
    for number in &session.buffers {
        if !buffers.vms(*number).is_some_and(|vms| vms.has_new()) {
            continue;
        }
        let of = |info: SequenceInfo| {
            let id = session.sequences.of(info.producer_id, info.writer_id);
            (id, info.producer_id)
        };
        let sequences: Vec<_> = buffers.sequences(*number).map(of).collect();
        if let Some(vms) = buffers.vms(*number) {
            vms.write_new(&sequences, &mut provenance, &mut told);
        }
    }
    (!told.is_empty()).then_some((provenance, told))
}
