//! What begins and ends of slices do to tracks.

use super::clock::{Moment, Time};
use super::event::{Event, Kind};
use super::slices::{Begin, End, Ended, Slice, Tracks};
use super::{Id, Way};

/// What a begin or an end of a slice leads to.
pub(super) enum Seen {
    Nothing,
    /// An end whose slice the trace does not have.
    EndOf(u32, Slice),
    /// A begin whose end has left.
    BeginOf(End),
}

#[inline]
pub(super) fn slice_event(
    tracks: &mut Tracks,
    event: &Event<'_>,
    place: u32,
    id: Id,
    moment: Moment,
    base: &[u8],
    way: Way,
) -> Seen {
    if event.kind == Kind::Begin {
        let at = (event.bytes.as_ptr() as usize).wrapping_sub(base.as_ptr() as usize) as u32;
        let begin = Begin::Fresh { at, len: event.bytes.len() as u32 };
        let slice = Slice { moment, sequence: id, is_written: way == Way::Stays, begin };
        return tracks.begin(place, slice).map_or(Seen::Nothing, Seen::BeginOf);
    }
    end(tracks, place, moment, event.track, id, way)
}

/// Ends a slice on a track, which the event names, or which is the sequence's own.
pub(super) fn end(
    tracks: &mut Tracks,
    place: u32,
    moment: Moment,
    named: Option<u64>,
    id: Id,
    way: Way,
) -> Seen {
    match (tracks.end(place, moment), named) {
        (Ended::Slice(slice), _) if way == Way::Stays && !slice.is_written => {
            return Seen::EndOf(place, slice);
        }
        (Ended::Early, Some(uuid)) if way == Way::Leaves => {
            tracks.wait_for_begin(End { uuid, moment, sequence: id });
        }
        (Ended::Slice(_) | Ended::Early | Ended::Nothing, _) => {}
    }
    tracks.release(place);
    Seen::Nothing
}

/// A slice that has begun on a sequence's own track, in the packets that are being looked at.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    pub(super) time: u64,
    pub(super) at: u32,
    pub(super) len: u32,
}

/// Those that have not ended are the track's.
#[inline]
pub(super) fn settle_begun(tracks: &mut Tracks, begun: &mut Vec<Begun>, place: u32, id: Id, clock: &Time) {
    for Begun { time, at, len } in begun.drain(..) {
        let (moment, begin) = (clock.at(time), Begin::Fresh { at, len });
        tracks.begin(place, Slice { moment, sequence: id, is_written: false, begin });
    }
}
