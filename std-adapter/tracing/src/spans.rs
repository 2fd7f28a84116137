//! Data of spans that have something to keep: fields, flows and a life; and the table of them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use rustc_hash::FxHashMap;
use tracebuf::producer::track_event::Event;
use tracing_core::Metadata;

use super::fields::KeptFields;
use super::frontend::Frontend;
use super::ids;
use super::late::{self, Since};
use super::lifetime::Life;
use super::slow::Watched;
use tracebuf_session::Recorder;
use tracebuf_session::parts::{BufferId, NO_BUFFER};

const MAX_FOLLOWED: usize = 64;

thread_local! {
    /// Whether this thread may allocate while it holds the lock of a span's fields or flows. Code called from the
    /// program's allocator then does not wait for such a lock, because it may be this one.
    static MAY_ASK: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, which may allocate, under a span's lock. Within another such call it is skipped if the lock is taken.
fn asking<T>(lock: &Mutex<T>, f: impl FnOnce(&mut T)) {
    let Some(mut locked) = locked(lock) else { return };
    let outer = MAY_ASK.replace(true);
    f(&mut locked);
    drop(locked);
    MAY_ASK.set(outer);
}

fn locked<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    if !MAY_ASK.get() {
        return Some(lock.lock().unwrap_or_else(PoisonError::into_inner));
    }
    match lock.try_lock() {
        Ok(locked) => Some(locked),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A span's fields and flows.
///
/// No lock is held while an event is written: that may wait for the drain thread, which may enter the same span.
pub(super) struct SpanData {
    pub(super) metadata: &'static Metadata<'static>,
    fields: KeptFields,
    changes: AtomicU64,
    /// All fields, once some were recorded. Shared with a thread that is just writing them.
    changed: Mutex<Option<Arc<KeptFields>>>,
    /// A number that no other span has, which is also the flow of its slices.
    pub(super) number: u64,
    has_flow: bool,
    life: OnceLock<Arc<Life>>,
    /// When its life began, if that is still to be recorded.
    unborn: AtomicU64,
    /// Apart, as few spans have it.
    watched: Option<Arc<Watched>>,
    /// Flows of other spans that go to its next slice.
    followed: Mutex<VecDeque<u64>>,
}

impl SpanData {
    /// The data of a new span. Its life, if recorded, begins here, within its parent's if that is in the same session.
    pub(super) fn begin(
        frontend: &Frontend,
        metadata: &'static Metadata<'static>,
        fields: KeptFields,
        parent: impl FnOnce() -> Option<Arc<Life>>,
    ) -> Self {
        let number = if frontend.flows || frontend.lifetimes { ids::unique() } else { 0 };
        let mut span = Self {
            metadata,
            fields,
            changes: AtomicU64::new(0),
            changed: Mutex::default(),
            number,
            has_flow: frontend.flows,
            life: OnceLock::new(),
            unborn: AtomicU64::new(0),
            watched: frontend.slow.begin(metadata),
            followed: Mutex::default(),
        };
        if frontend.lifetimes {
            span.unborn = AtomicU64::new(Since::now(frontend).number());
            if *span.unborn.get_mut() == 0 {
                span.begin_life(frontend, parent(), |life, span| {
                    frontend.recorder.begun(|tracer| {
                        let track = tracer.on(life.track());
                        let described = track.enter_with(metadata.name(), |event| {
                            span.annotate(frontend.describe(metadata, event))
                        });
                        described.detach()
                    })
                });
            }
        }
        span
    }

    /// Begins its life within its parent's, if that is in the same session.
    fn begin_life(
        &self,
        frontend: &Frontend,
        parent: Option<Arc<Life>>,
        begin: impl FnOnce(&Life, &Self) -> BufferId,
    ) {
        let parent = parent.filter(|parent| parent.is_in(frontend.recorder.buffer_id()));
        let parent = parent.unwrap_or_else(|| frontend.process());
        let life = Life::within(parent, self.metadata.name(), self.number);
        let buffer = begin(&life, self);
        if let Some(life) = life.begun(buffer) {
            let _ = self.life.set(life);
        }
    }

    /// Begins its life at the time of its making, if that was not recorded then and is now.
    pub(super) fn begin_life_late(&self, frontend: &Frontend, parent: Option<Arc<Life>>) {
        if self.unborn.load(Ordering::Relaxed) == 0 || !frontend.recorder.is_on() {
            return;
        }
        let since = self.unborn.swap(0, Ordering::Relaxed);
        if since == 0 {
            return;
        }
        self.begin_life(frontend, parent, |life, span| {
            late::begun(&frontend.recorder, |tracer| {
                let begin = tracer.on(life.track()).at(since);
                begin.begin_with(span.metadata.name(), |event| {
                    span.annotate(frontend.describe(span.metadata, event))
                });
            })
        });
    }

    /// Its life, if that is recorded.
    pub(super) fn life(&self) -> Option<Arc<Life>> {
        self.life.get().cloned()
    }

    /// Ends a span whose last handle is gone. Several layers may hear of the same end.
    pub(super) fn end(&self, recorder: &Recorder) {
        if let Some(life) = self.life.get() {
            self.end_life(life, recorder);
        }
        // After that: the snapshot has the end, too.
        if let Some(watched) = &self.watched {
            watched.end(|event| self.annotate(event));
        }
    }

    /// Ends the slice of its life, with the fields that were recorded since.
    fn end_life(&self, life: &Life, recorder: &Recorder) {
        let mut buffer = life.take_open();
        if buffer == NO_BUFFER {
            return;
        }
        recorder.with_at(&mut buffer, |tracer| {
            if self.changes() == 0 {
                tracer.on(life.track()).end();
            } else {
                tracer.on(life.track()).end_with(|event| self.annotate_end(0, event));
            }
        });
    }

    fn flow(&self) -> Option<u64> {
        self.has_flow.then_some(self.number)
    }

    pub(super) fn record(&self, values: &tracing_core::span::Record<'_>) {
        // Formatted without the lock: formatting a value may itself trace, and record into this span.
        let mut later = KeptFields::default();
        values.record(&mut later);
        asking(&self.changed, |changed| {
            let all = changed.get_or_insert_with(|| Arc::new(self.fields.clone()));
            // Counted under the lock: a thread that sees the number then finds the change.
            let change = self.changes.fetch_add(1, Ordering::Relaxed) + 1;
            Arc::make_mut(all).merge(&later, change);
        });
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Annotates with the fields recorded after so many changes.
    pub(super) fn annotate_end<'x, 'e, 'w, 'a>(
        &self,
        seen: u64,
        event: &'x mut Event<'e, 'w, 'a>,
    ) -> &'x mut Event<'e, 'w, 'a> {
        if let Some(fields) = self.fields_now() {
            fields.annotate_since(seen + 1, event);
        }
        event
    }

    /// Makes the flow of another span go to this span's next slice. Not every flow: a span that lives long, or is
    /// seldom entered, may follow many, so only the newest are kept.
    pub(super) fn follow(&self, other: &Self) {
        let Some(own) = self.flow() else { return };
        asking(&self.followed, |followed| {
            // A flow that a slice takes twice is shown as an arrow from it to itself.
            let is_new = |flow: &u64| own != *flow && !followed.contains(flow);
            let flow = other.flow().filter(is_new);
            followed.extend(flow);
            if followed.len() > MAX_FOLLOWED {
                followed.pop_front();
            }
        });
    }

    pub(super) fn annotate<'x, 'e, 'w, 'a>(
        &self,
        event: &'x mut Event<'e, 'w, 'a>,
    ) -> &'x mut Event<'e, 'w, 'a> {
        match self.fields_now() {
            None => self.fields.annotate(event),
            Some(fields) => fields.annotate(event),
        }
        if let Some(flow) = self.flow() {
            event.flow(flow);
            let followed = locked(&self.followed).map(|mut followed| mem::take(&mut *followed));
            for flow in followed.into_iter().flatten() {
                event.flow(flow);
            }
        }
        event
    }

    /// All fields, if some were recorded since the span was made.
    fn fields_now(&self) -> Option<Arc<KeptFields>> {
        if self.changes() > 0 { locked(&self.changed)?.clone() } else { None }
    }
}

impl Drop for SpanData {
    fn drop(&mut self) {
        mem::take(&mut self.fields).leave();
    }
}

const SHARDS: usize = 16;

/// The spans of a subscriber that have something to keep, by their ids. Ids are made here, so nobody can choose them to
/// have the same place in a map.
///
/// A child after a fork requests nothing here: a thread that does not exist there may hold a lock. Memory is neither
/// allocated nor freed while a lock is held: the program's allocator may enter spans.
pub(super) struct Spans {
    next: AtomicU64,
    shards: [Mutex<Shard>; SHARDS],
}

pub(super) type Shard = FxHashMap<u64, Listed>;

/// A span and how many handles it has; for a layer, the registry counts them.
pub(super) struct Listed {
    data: Arc<SpanData>,
    handles: usize,
}

impl Spans {
    /// Ids of these begin here: those below are places in the table of callsites.
    pub(super) const FIRST: u64 = 1 << 32;
    /// The id of all spans that are made while nothing is recorded.
    pub(super) const NONE: u64 = Self::FIRST - 1;

    pub(super) fn new() -> Self {
        Self { next: AtomicU64::new(Self::FIRST), shards: Default::default() }
    }

    pub(super) fn shard(&self, id: u64) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[id as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, data: SpanData) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let new = Listed { data: Arc::new(data), handles: 1 };
        let mut shard = self.shard(id);
        while shard.len() == shard.capacity() {
            let known = shard.len();
            drop(shard);
            self.grow(id, known);
            shard = self.shard(id);
        }
        shard.insert(id, new);
        id
    }

    /// Makes room in the shard of an id, which is full with `known` spans.
    #[cold]
    #[inline(never)]
    fn grow(&self, id: u64, known: usize) {
        let mut larger = FxHashMap::default();
        larger.reserve(2 * known + 1);
        let mut shard = self.shard(id);
        // Other threads may have enlarged it meanwhile.
        if shard.len() == shard.capacity() && larger.capacity() > shard.len() {
            larger.extend(shard.drain());
            mem::swap(&mut larger, &mut shard);
        }
        drop(shard);
    }

    pub(super) fn get(&self, id: u64) -> Option<Arc<SpanData>> {
        self.shard(id).get(&id).map(|span| span.data.clone())
    }

    #[inline(never)]
    pub(super) fn add_reference(&self, id: u64) {
        if let Some(span) = self.shard(id).get_mut(&id) {
            span.handles = span.handles.saturating_add(1);
        }
    }

    /// Drops a handle; returns the span if that was the last one.
    #[inline(never)]
    pub(super) fn drop_reference(&self, id: u64) -> Option<Arc<SpanData>> {
        let mut shard = self.shard(id);
        let span = shard.get_mut(&id)?;
        span.handles -= 1;
        if span.handles > 0 {
            return None;
        }
        let gone = shard.remove(&id)?;
        drop(shard);
        Some(gone.data)
    }
}
