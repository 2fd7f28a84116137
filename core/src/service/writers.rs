//! The table of a producer's writers, as its endpoint knows them.

use crate::buffer::{ChunkFlags, ChunkHeader, WALK_LIMIT};
use crate::list::List;
use crate::producer::TraceWriter;
use crate::producer::insert_at;
use crate::steps::step;
use crate::wrapping::is_after;
use ids::{Shift, Unfinished};

mod ids;

/// The writers of one producer: those that are registered, and others that a chunk was taken from. They are sorted by
/// id: a look through all of them for each chunk would let a producer with many writers hold up the service. Where ids
/// are shifted, one that has ended keeps its place until another needs it.
pub(super) struct Writers<const N: usize> {
    list: List<Writer, N>,
    /// How many in the list have ended.
    #[cfg(not(target_os = "none"))]
    ended: u32,
    /// Whether they patch sizes in complete chunks until they commit them. On microcontrollers they are this crate's,
    /// which do not.
    #[cfg(not(target_os = "none"))]
    patch_in_place: bool,
}

pub(super) struct Writer {
    id: u16,
    /// The buffer that it writes to.
    pub(super) target: u16,
    registration: Registration,
    shift: Shift,
    /// The chunks that scrapes have shown whole and whose commits have not come, as far as they follow each other: the
    /// first one's id, and how many there are.
    first_shown: u32,
    shown: u16,
    /// How many fragments the chunk behind these had begun, if a scrape has shown it unfinished.
    begun: u16,
    /// How many of the chunks offered to the buffer have patches yet to come, and the newest of them.
    unpatched: u8,
    newest_unpatched: u32,
    unfinished: Unfinished,
}

/// No buffer's number: none is given this one.
#[cfg(not(target_os = "none"))]
const NO_BUFFER: u16 = u16::MAX;

/// Whether a writer has said that it is there. If not, its target means nothing, and scrapes leave it out.
#[derive(Clone, Copy, PartialEq, Eq)]
// Where ids are not shifted, those that have ended are not kept.
#[cfg_attr(target_os = "none", expect(dead_code))]
enum Registration {
    None,
    /// None of its chunks has been seen since.
    New,
    /// Like `New`, and the previous writer of its number wrote to another buffer.
    Moved,
    /// Scrapes have shown chunks of it, and none was committed.
    Shown,
    Begun,
    /// It has ended as `Shown`: what was shown is from the next one of its number, which the service has yet to hear
    /// of.
    Next,
    /// It has ended, and its chunks were committed: ids that go on get the same shift as its own.
    Ended,
}

/// How the chunks of a writer that is registered again are counted.
#[derive(Clone, Copy)]
pub(super) struct Counting(Registration, Shift);

/// How many chunks behind the committed ones a scrape shows while patches are to come. A patch comes before the commits
/// of more than [`TraceWriter::MAX_PATCHED`] chunks behind its own, and must find its chunk among the newest of its
/// sequence in the buffer; a few are to spare.
const MOST_AHEAD: u32 = WALK_LIMIT - TraceWriter::MAX_PATCHED - 64;
const _: () = assert!(MOST_AHEAD + TraceWriter::MAX_PATCHED < WALK_LIMIT);

impl Writer {
    fn new(id: u16, target: u16, registration: Registration) -> Self {
        Self {
            id,
            target,
            registration,
            shift: Shift::default(),
            first_shown: 0,
            shown: 0,
            begun: 0,
            unpatched: 0,
            newest_unpatched: 0,
            unfinished: Unfinished::NONE,
        }
    }

    fn is_registered(&self) -> bool {
        !self.has_ended() && self.registration != Registration::None
    }

    fn has_ended(&self) -> bool {
        matches!(self.registration, Registration::Next | Registration::Ended)
    }

    /// Counts its chunks as `counting` says: it was registered before, or some of its chunks were shown before the
    /// service heard of it.
    pub(super) fn go_on(&mut self, counting: Counting) {
        Counting(self.registration, self.shift) = counting;
    }

    /// Takes its ids as they are from its next chunk on: that is its own or, if none is committed before it ends, that
    /// of the next writer of its number.
    #[cfg(not(target_os = "none"))]
    pub(super) fn begin(&mut self) {
        (self.registration, self.shift) = (Registration::Shown, Shift::default());
    }

    /// The id by which its buffer is to know a chunk, given the newest id that the buffer knows from writers of this
    /// number; it is asked for that at a writer's first chunk only. Those of Perfetto's writers, which count from 0 again,
    /// go on behind those of earlier ones. So do those of writers that go on after one that wrote to another buffer, if
    /// this buffer knows later ids: those are then from an earlier producer of the same number.
    pub(super) fn id_of(&mut self, chunk_id: u32, newest: impl FnOnce() -> Option<u32>) -> u32 {
        let is_moved = self.registration == Registration::Moved;
        if is_moved || self.registration == Registration::New {
            self.registration = Registration::Shown;
            if !cfg!(target_os = "none") {
                match newest() {
                    Some(newest) if chunk_id == 0 || is_moved && !is_after(chunk_id, newest) => {
                        self.shift = Shift::behind(newest, chunk_id);
                    }
                    // The buffer has forgotten those before: a first id other than 0 would tell of a loss.
                    None if chunk_id == 0 => self.shift = Shift::default(),
                    _ => {}
                }
            }
        }
        self.shifted(chunk_id)
    }

    /// Like [`id_of`](Self::id_of), for a chunk that is there already.
    pub(super) fn shifted(&self, chunk_id: u32) -> u32 {
        self.shift.of(chunk_id)
    }

    /// Whether a buffer that the producer may write to is this writer's: any is, while the writer is not registered.
    pub(super) fn may_write_to(&self, target: u16) -> bool {
        !self.is_registered() || self.target == target
    }

    /// Whether a scrape has shown all that is in a chunk.
    pub(super) fn has_shown(&self, header: &ChunkHeader) -> bool {
        let place = header.chunk_id.wrapping_sub(self.first_shown);
        let shown = u32::from(self.shown);
        place < shown || place == shown && !header.complete && header.fragments == self.begun
    }

    /// Whether patches to come would not find their chunks beyond this uncommitted one and those before it.
    pub(super) fn is_too_far(&self, header: &ChunkHeader) -> bool {
        self.unpatched > 0 && is_after(header.chunk_id, self.first_shown.wrapping_add(MOST_AHEAD))
    }

    /// Whether a chunk comes behind one that was not complete when a scrape looked at it, and must be by now: what its
    /// writer put into that one since would be missing.
    pub(super) fn is_behind_unfinished(&self, header: &ChunkHeader) -> bool {
        self.unfinished.is_before(header.chunk_id)
    }

    /// Notes that the buffer was offered a chunk, by a scrape or by its commit.
    pub(super) fn offer(&mut self, header: &ChunkHeader) {
        if !self.unfinished.is_behind(header.chunk_id) {
            self.unfinished =
                if header.complete { Unfinished::NONE } else { Unfinished::of(header.chunk_id) };
        }
        if waits_for_patches(header)
            && (self.unpatched == 0 || is_after(header.chunk_id, self.newest_unpatched))
        {
            if self.unpatched == 0 && self.shown == 0 {
                // Not shown, but chunks are counted from here on.
                (self.first_shown, self.begun) = (header.chunk_id.wrapping_add(1), 0);
            }
            self.unpatched = self.unpatched.saturating_add(1);
            self.newest_unpatched = header.chunk_id;
        }
    }

    /// Notes that all patches of a chunk have come.
    pub(super) fn patched(&mut self) {
        self.unpatched = self.unpatched.saturating_sub(1);
    }

    /// Notes that a scrape has shown a chunk, and the buffer has it.
    pub(super) fn show(&mut self, header: &ChunkHeader) {
        if header.chunk_id != self.first_shown.wrapping_add(self.shown.into()) {
            if self.shown > 0 {
                // It is known already, or those before it can be read first, and their commits will come first.
                return;
            }
            self.first_shown = header.chunk_id;
        }
        self.shown = self.shown.saturating_add(header.complete.into());
        self.begun = if header.complete { 0 } else { header.fragments };
    }

    /// Notes that a chunk's commit has come, as have those of all before it.
    pub(super) fn pass(&mut self, chunk_id: u32) {
        if self.registration == Registration::Shown {
            self.registration = Registration::Begun;
        }
        let passed = chunk_id.wrapping_sub(self.first_shown).wrapping_add(1);
        if passed as i32 <= 0 {
            return;
        }
        if passed > self.shown.into() {
            self.begun = 0;
        }
        self.first_shown = self.first_shown.wrapping_add(passed);
        self.shown = self.shown.saturating_sub(u16::try_from(passed).unwrap_or(u16::MAX));
    }
}

/// Whether a chunk was given away with a promise of patches.
pub(super) fn waits_for_patches(header: &ChunkHeader) -> bool {
    header.complete && header.flags.contains(ChunkFlags::NEEDS_PATCHING)
}

impl<const N: usize> Writers<N> {
    pub(super) const fn new() -> Self {
        Self {
            list: List::new(),
            #[cfg(not(target_os = "none"))]
            ended: 0,
            #[cfg(not(target_os = "none"))]
            patch_in_place: false,
        }
    }

    pub(super) const fn patch_in_place(&mut self) {
        #[cfg(not(target_os = "none"))]
        {
            self.patch_in_place = true;
        }
    }

    /// Whether a size in this chunk, which is not committed, may yet be patched.
    #[cfg(not(target_os = "none"))]
    pub(super) fn may_patch(&self, header: &ChunkHeader) -> bool {
        self.patch_in_place && waits_for_patches(header)
    }

    #[cfg(target_os = "none")]
    pub(super) const fn may_patch(&self, _: &ChunkHeader) -> bool {
        false
    }

    /// Where a writer is, or belongs.
    fn place_of(&self, id: u16) -> Result<usize, usize> {
        self.list.binary_search_by(|writer| {
            step();
            writer.id.cmp(&id)
        })
    }

    fn find(&self, id: u16) -> Option<&Writer> {
        self.list.get(self.place_of(id).ok()?)
    }

    /// Registers a writer that is not known. False if there is no room for one more.
    pub(super) fn add(&mut self, id: u16, target: u16) -> bool {
        self.insert(Writer::new(id, target, Registration::New)).is_some()
    }

    /// Inserts a writer that is not known, in the place of one that has ended if no other is free.
    fn insert(&mut self, writer: Writer) -> Option<&mut Writer> {
        #[cfg(not(target_os = "none"))]
        if self.list.is_full() && self.ended > 0 {
            let ended = self.list.iter().inspect(|_| step()).find(|writer| writer.has_ended());
            let ended = ended.map(|writer| writer.id);
            self.remove(ended?);
        }
        let (Ok(place) | Err(place)) = self.place_of(writer.id);
        insert_at(&mut self.list, place, writer)
    }

    pub(super) fn remove(&mut self, id: u16) {
        #[cfg(not(target_os = "none"))]
        if self.find(id).is_some_and(Writer::has_ended) {
            self.ended -= 1;
        }
        #[cfg(feature = "alloc")]
        if let Ok(place) = self.place_of(id) {
            self.list.remove(place);
        }
        #[cfg(not(feature = "alloc"))]
        self.list.retain(|writer| writer.id != id);
    }

    /// Notes that a writer has ended. All its chunks have been committed before.
    pub(super) fn end(&mut self, id: u16) {
        // Where ids are not shifted, there is nothing to keep.
        #[cfg(not(target_os = "none"))]
        if let Some(writer) = self.get_mut(id) {
            writer.registration = match writer.registration {
                Registration::Shown => Registration::Next,
                Registration::Moved => {
                    // The next one has moved as well, whichever buffer it writes to.
                    writer.target = NO_BUFFER;
                    Registration::Ended
                }
                _ => Registration::Ended,
            };
            self.ended += 1;
            return;
        }
        self.remove(id);
    }

    /// Ends all registrations. What is known of the writers stays, for chunks that are committed late.
    pub(super) fn end_all(&mut self) {
        for writer in self.list.iter_mut().filter(|writer| writer.is_registered()) {
            writer.registration = Registration::None;
        }
    }

    /// How to count the chunks of a writer to `target` that is being registered, if that is known.
    pub(super) fn counting(&self, id: u16, target: u16) -> Option<Counting> {
        let writer = self.find(id)?;
        match writer.registration {
            Registration::None => None,
            Registration::Next | Registration::Ended if writer.target != target => {
                Some(Counting(Registration::Moved, Shift::default()))
            }
            Registration::Next => Some(Counting(Registration::Shown, writer.shift)),
            Registration::Ended => Some(Counting(Registration::New, writer.shift)),
            registration => Some(Counting(registration, writer.shift)),
        }
    }

    /// Whether any is registered.
    pub(super) fn has_registered(&self) -> bool {
        self.list.iter().any(Writer::is_registered)
    }

    /// A writer, if it is registered.
    pub(super) fn get(&self, id: u16) -> Option<&Writer> {
        self.find(id).filter(|writer| writer.is_registered())
    }

    /// A writer that a chunk has come from, registered or not, to change what is known of it. `None` if it is not known
    /// and there is no room for one more.
    pub(super) fn get_or_see(&mut self, id: u16) -> Option<&mut Writer> {
        match self.place_of(id) {
            Ok(place) => self.list.get_mut(place),
            Err(_) => self.insert(Writer::new(id, 0, Registration::None)),
        }
    }

    /// A writer, registered or not, if it is known.
    pub(super) fn known_mut(&mut self, id: u16) -> Option<&mut Writer> {
        let place = self.place_of(id).ok()?;
        self.list.get_mut(place)
    }

    /// Like [`get`](Self::get), to change what is known of it.
    pub(super) fn get_mut(&mut self, id: u16) -> Option<&mut Writer> {
        self.known_mut(id).filter(|writer| writer.is_registered())
    }
}

#[cfg(test)]
mod tests;
