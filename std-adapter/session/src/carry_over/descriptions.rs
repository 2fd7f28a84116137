//! Descriptions of tracks that a sequence has written last.

use tracebuf::proto::fields::{counter_descriptor, track_descriptor};
use tracebuf::proto::reader::{message, number};

use super::limits;

/// A description, and what is looked for in it.
#[derive(Clone)]
pub(super) struct Description {
    pub(super) uuid: u64,
    parent: Option<u64>,
    /// `TrackDescriptor`.
    pub(super) content: Box<[u8]>,
}

/// The first of a state, such as a thread's and its process's, and the latest, as many as its writer can know that they
/// are described.
#[derive(Clone, Default)]
pub(super) struct Descriptions(Vec<Description>);

/// How many of the first stay.
const FIRST: usize = 4;

impl Descriptions {
    /// A new state describes anew what it needs.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds one. Returns its track, and whether it is an incremental counter's.
    pub(super) fn add(&mut self, content: &[u8]) -> Option<(u64, bool)> {
        let uuid = number(content, track_descriptor::UUID)?;
        let counter = message(content, track_descriptor::COUNTER).unwrap_or_default();
        let is_incremental =
            number(counter, counter_descriptor::IS_INCREMENTAL).is_some_and(|is_so| is_so != 0);
        if content.len() <= limits::DESCRIPTION {
            let parent = number(content, track_descriptor::PARENT_UUID);
            let described = Description { uuid, parent, content: content.into() };
            match self.0.iter_mut().find(|known| known.uuid == uuid) {
                Some(known) => *known = described,
                None => {
                    if self.0.len() >= limits::DESCRIPTIONS {
                        self.0.remove(FIRST);
                    }
                    self.0.push(described);
                }
            }
        }
        Some((uuid, is_incremental))
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Description> {
        self.0.iter()
    }

    /// A track's, and those of the tracks above it, as far as they are known.
    pub(super) fn up_from(&self, uuid: u64) -> impl Iterator<Item = &Description> {
        let find = |uuid: u64| self.0.iter().find(|known| known.uuid == uuid);
        let up = move |below: &&Description| below.parent.and_then(find);
        std::iter::successors(find(uuid), up).take(limits::PARENTS)
    }
}
