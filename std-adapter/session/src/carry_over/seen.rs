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
#[derive(Clone, Copy, Default)]
pub(super) struct Begun {
    /// When, in units.
    pub(super) units: u64,
    pub(super) at: u32,
    pub(super) len: u32,
}

/// Room for slices that have begun and not ended.
pub(super) type BegunRoom = [Begun; BegunSlices::MAX];

/// The slices that have begun and not ended. When there is no room for more, the track gets them.
pub(super) struct BegunSlices<'r> {
    room: &'r mut BegunRoom,
    len: usize,
}

impl<'r> BegunSlices<'r> {
    const MAX: usize = 32;

    pub(super) fn new(room: &'r mut BegunRoom) -> Self {
        Self { room, len: 0 }
    }

    /// Does this with a copy that need not be in memory.
    #[inline(always)]
    pub(super) fn in_registers(&mut self, work: impl FnOnce(&mut BegunSlices<'_>)) {
        let mut copy = BegunSlices { room: self.room, len: self.len };
        work(&mut copy);
        self.len = copy.len;
    }

    /// Begins or ends one, or does neither. False if there is no room, or none to end.
    #[inline(always)]
    pub(super) fn change(&mut self, kind: Kind, begun: impl FnOnce() -> Begun) -> bool {
        match kind {
            Kind::Begin => {
                let Some(slot) = self.room.get_mut(self.len) else { return false };
                *slot = begun();
                self.len += 1;
            }
            Kind::End => match self.len.checked_sub(1) {
                Some(less) => self.len = less,
                None => return false,
            },
            Kind::Counter | Kind::Other => {}
        }
        true
    }

    /// Those that have not ended are the track's.
    #[inline(always)]
    pub(super) fn settle(&mut self, tracks: &mut Tracks, place: u32, id: Id, clock: &Time) {
        let begun = self.room.get(..std::mem::take(&mut self.len)).unwrap_or_default();
        settle_begun(tracks, begun, place, id, clock);
    }
}

fn settle_begun(tracks: &mut Tracks, begun: &[Begun], place: u32, id: Id, clock: &Time) {
    for Begun { units, at, len } in begun {
        let (moment, begin) = (clock.at(*units), Begin::Fresh { at: *at, len: *len });
        tracks.begin(place, Slice { moment, sequence: id, is_written: false, begin });
    }
}
