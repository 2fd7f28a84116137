//! Arithmetic of chunk ids: what is added to a writer's, and which chunk the buffer has unfinished.

/// What is added to the ids of a writer's chunks. Nothing on microcontrollers, where it would take memory: their
/// writers are this crate's, whose ids go on.
#[derive(Clone, Copy, Default)]
pub(super) struct Shift(#[cfg(not(target_os = "none"))] u32);

impl Shift {
    /// The shift by which `chunk_id` comes right behind `newest`.
    pub(super) const fn behind(newest: u32, chunk_id: u32) -> Self {
        #[cfg(not(target_os = "none"))]
        let shift = Self(newest.wrapping_add(1).wrapping_sub(chunk_id));
        #[cfg(target_os = "none")]
        let (shift, _, _) = (Self(), newest, chunk_id);
        shift
    }

    pub(super) const fn of(self, chunk_id: u32) -> u32 {
        #[cfg(not(target_os = "none"))]
        let chunk_id = chunk_id.wrapping_add(self.0);
        chunk_id
    }
}

/// The chunk that the buffer was offered before it was complete, unless it was offered again since: the low bits of its
/// id, and a one.
#[derive(Clone, Copy)]
pub(super) struct Unfinished(IdAndOne);

/// Orders up to 2³⁰ of a writer's chunks, where shared memory has a million at most.
#[cfg(not(target_os = "none"))]
type IdAndOne = u32;
/// Orders up to 2¹⁴, where shared memory is small and a recorder has several of these.
#[cfg(target_os = "none")]
type IdAndOne = u16;

impl Unfinished {
    pub(super) const NONE: Self = Self(0);

    pub(super) const fn of(chunk_id: u32) -> Self {
        Self((chunk_id as IdAndOne) << 1 | 1)
    }

    /// Whether there is one, and this chunk is behind it.
    pub(super) const fn is_before(self, chunk_id: u32) -> bool {
        self.0 != 0 && Self::of(chunk_id).0.wrapping_sub(self.0).cast_signed() > 0
    }

    /// Whether there is one behind this chunk.
    pub(super) const fn is_behind(self, chunk_id: u32) -> bool {
        self.0 != 0 && self.0.wrapping_sub(Self::of(chunk_id).0).cast_signed() > 0
    }
}
