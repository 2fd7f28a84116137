//! The open slices of each track, whichever sequences write to it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};

use super::clock::Moment;
use super::limits;

/// What is kept of a slice's begin.
#[derive(Clone, Debug)]
pub(super) enum Begin {
    /// Where the event lies in the packets that are being looked at.
    Fresh { at: u32, len: u32 },
    /// The event, with all names spelt out, without its track.
    Kept(Box<[u8]>),
    /// Nothing: there was no room.
    LeftOut,
}

#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) moment: Moment,
    pub(super) sequence: u32,
    /// Whether the trace that is being written has the begin.
    pub(super) is_written: bool,
    pub(super) begin: Begin,
}

/// An end that came before its begin, which another sequence has.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) uuid: u64,
    pub(super) moment: Moment,
    pub(super) sequence: u32,
}

#[derive(Clone, Default)]
pub(super) struct Track {
    pub(super) uuid: u64,
    /// The outermost first.
    pub(super) slices: Vec<Slice>,
    /// How many are open within these and not kept at all.
    beyond: u64,
    /// How many ends wait for their begins.
    ends: u32,
    /// How many sequences have it as their default.
    users: u32,
    /// Packets that describe it and those above it.
    pub(super) description: Option<Box<[u8]>>,
    pub(super) is_described: bool,
}

impl Track {
    fn is_idle(&self) -> bool {
        self.slices.is_empty() && self.beyond == 0 && self.ends == 0 && self.users == 0
    }
}

/// What an end does.
pub(super) enum Ended {
    Slice(Slice),
    /// One that is not kept, or none.
    Nothing,
    /// Its begin may still come.
    Early,
}

#[derive(Clone, Default)]
pub(super) struct Tracks {
    list: Vec<Track>,
    places: HashMap<u64, u32, Mix>,
    free: Vec<u32>,
    /// Tracks on which slices were begun in the packets that are being looked at.
    pub(super) fresh: Vec<u32>,
    ends: VecDeque<End>,
    /// Bytes of all that is kept.
    bytes: usize,
    left_out: u64,
}

/// No track has this place.
pub(super) const NOWHERE: u32 = u32::MAX;

impl Tracks {
    pub(super) fn get(&self, place: u32) -> Option<&Track> {
        self.list.get(place as usize)
    }

    pub(super) fn get_mut(&mut self, place: u32) -> Option<&mut Track> {
        self.list.get_mut(place as usize)
    }

    /// Where a track is, new or not; nowhere if there are too many.
    pub(super) fn place(&mut self, uuid: u64) -> u32 {
        if let Some(place) = self.places.get(&uuid) {
            return *place;
        }
        if self.places.len() >= limits::TRACKS {
            return NOWHERE;
        }
        let track = Track { uuid, ..Track::default() };
        let place = self.free.pop().unwrap_or(self.list.len() as u32);
        match self.list.get_mut(place as usize) {
            Some(free) => *free = track,
            None => self.list.push(track),
        }
        self.places.insert(uuid, place);
        place
    }

    pub(super) fn find(&self, uuid: u64) -> Option<u32> {
        self.places.get(&uuid).copied()
    }

    /// A sequence begins to use it as its default track.
    pub(super) fn hold(&mut self, uuid: u64) -> u32 {
        let place = self.place(uuid);
        if let Some(track) = self.get_mut(place) {
            track.users += 1;
        }
        place
    }

    pub(super) fn let_go(&mut self, place: u32) {
        if let Some(track) = self.get_mut(place) {
            track.users = track.users.saturating_sub(1);
            self.release(place);
        }
    }

    /// Frees the place of a track on which nothing is open and for which nothing waits.
    #[inline]
    pub(super) fn release(&mut self, place: u32) {
        if let Some(track) = self.get_mut(place)
            && track.is_idle()
        {
            let uuid = std::mem::take(track).uuid;
            if self.places.remove(&uuid).is_some() {
                self.free.push(place);
            }
        }
    }

    /// Begins a slice. Returns the end that came before it, if that was its own.
    #[inline]
    pub(super) fn begin(&mut self, place: u32, slice: Slice) -> Option<End> {
        let Some(track) = self.list.get_mut(place as usize) else {
            self.left_out += 1;
            return None;
        };
        if track.ends > 0
            && let Some(end) = self.take_end(place, slice.moment)
        {
            self.release(place);
            return Some(end);
        }
        let track = self.list.get_mut(place as usize)?;
        if track.slices.len() >= limits::DEPTH || track.beyond > 0 {
            track.beyond += 1;
            self.left_out += 1;
            return None;
        }
        if self.fresh.last() != Some(&place) {
            self.fresh.push(place);
        }
        match track.slices.last() {
            // One that another sequence began later has left earlier.
            Some(last) if slice.moment.is_before(last.moment) => {
                let later = |open: &Slice| slice.moment.is_before(open.moment);
                let at = track.slices.iter().position(later).unwrap_or(track.slices.len());
                track.slices.insert(at, slice);
            }
            _ => track.slices.push(slice),
        }
        None
    }

    /// Ends the innermost slice that has begun by then. The track is to be [released](Self::release) afterwards.
    #[inline]
    pub(super) fn end(&mut self, place: u32, moment: Moment) -> Ended {
        let Some(track) = self.list.get_mut(place as usize) else {
            self.left_out = self.left_out.saturating_sub(1);
            return Ended::Nothing;
        };
        if track.beyond > 0 {
            track.beyond -= 1;
            self.left_out -= 1;
            return Ended::Nothing;
        }
        let slice = match track.slices.last() {
            Some(last) if !moment.is_before(last.moment) => track.slices.pop(),
            _ => {
                let at = track.slices.iter().rposition(|open| !moment.is_before(open.moment));
                at.map(|at| track.slices.remove(at))
            }
        };
        let Some(slice) = slice else { return Ended::Early };
        self.account(&slice);
        Ended::Slice(slice)
    }

    /// A slice is no longer kept.
    #[inline]
    fn account(&mut self, slice: &Slice) {
        match &slice.begin {
            Begin::Fresh { .. } => {}
            Begin::Kept(event) => self.bytes = self.bytes.saturating_sub(event.len() + limits::OVERHEAD),
            Begin::LeftOut => self.left_out = self.left_out.saturating_sub(1),
        }
    }

    /// Keeps an end until its begin comes, if not too many others do.
    pub(super) fn wait_for_begin(&mut self, end: End) {
        if self.ends.len() >= limits::ENDS
            && let Some(oldest) = self.ends.pop_front()
            && let Some(place) = self.find(oldest.uuid)
            && let Some(track) = self.get_mut(place)
        {
            track.ends = track.ends.saturating_sub(1);
            self.release(place);
        }
        let place = self.place(end.uuid);
        if let Some(track) = self.get_mut(place) {
            track.ends += 1;
            self.ends.push_back(end);
        }
    }

    /// The first end after a begin.
    fn take_end(&mut self, place: u32, begin: Moment) -> Option<End> {
        let uuid = self.get(place)?.uuid;
        let fits = |end: &End| end.uuid == uuid && !end.moment.is_before(begin);
        let fitting = self.ends.iter().enumerate().filter(|(_, end)| fits(end));
        let (at, _) = fitting.min_by_key(|(_, end)| end.moment.time)?;
        if let Some(track) = self.get_mut(place) {
            track.ends -= 1;
        }
        self.ends.remove(at)
    }

    /// Keeps the begins of slices that are still open when all packets were looked at.
    pub(super) fn settle(&mut self, mut keep: impl FnMut(&mut Track, u32, (u32, u32)) -> Option<Box<[u8]>>) {
        while let Some(place) = self.fresh.pop() {
            let Some(track) = self.list.get_mut(place as usize) else { continue };
            let mut slices = std::mem::take(&mut track.slices);
            for slice in &mut slices {
                let Begin::Fresh { at, len } = slice.begin else { continue };
                let has_room = self.bytes < limits::IN_ALL;
                slice.begin = match keep(track, slice.sequence, (at, len)).filter(|_| has_room) {
                    Some(event) => {
                        self.bytes += event.len() + limits::OVERHEAD;
                        Begin::Kept(event)
                    }
                    None => {
                        self.left_out += 1;
                        Begin::LeftOut
                    }
                };
            }
            track.slices = slices;
        }
    }

    /// Drops the open slices that a sequence has begun: on one track, or on all.
    pub(super) fn forget(&mut self, sequence: u32, on: Option<u32>) {
        let places = on.map_or(0..self.list.len() as u32, |place| place..place.saturating_add(1));
        for place in places {
            let Some(track) = self.get_mut(place) else { continue };
            if track.slices.is_empty() {
                continue;
            }
            let slices = std::mem::take(&mut track.slices);
            let (gone, kept) = slices.into_iter().partition(|slice: &Slice| slice.sequence == sequence);
            track.slices = kept;
            let gone: Vec<Slice> = gone;
            gone.iter().for_each(|slice| self.account(slice));
            self.release(place);
        }
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Track> {
        self.list.iter_mut()
    }

    /// How many open slices have no begin here.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

/// Tracks' ids, which others may choose, mixed with a number that they do not know.
#[derive(Clone)]
pub(super) struct Mix(u64);

impl Default for Mix {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Mix {
    type Hasher = Mixed;

    fn build_hasher(&self) -> Mixed {
        Mixed(self.0)
    }
}

pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
