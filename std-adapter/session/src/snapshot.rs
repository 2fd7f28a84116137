//! Snapshots: copies of a session's buffers, to be written as traces.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracebuf::buffer::{BufferStats, ReadOnlyTraceBuffer};

use crate::clock_pairs::ClocksWritten;
use crate::export::{Before, Piece, write_trace};
use crate::files::OwnFiles;
use crate::long_trace::History;
use crate::process_tree::Numbers;
use crate::service::Service;
use crate::side_packets::SideRevision;
use crate::size_signal;
use crate::summary::{Losses, Summary, summary_of};
use crate::totals::{Totals, Written};
use crate::transport::CentralBuffer;
use tracebuf_std::fork;
use tracebuf_std::memory::PagedMemory;
use tracebuf_std::whole_file::write_atomically;

/// Spare memory for a copy of each buffer, kept because touching new pages costs as much as the copy.
pub(crate) type Spare = Arc<Mutex<Vec<Option<PagedMemory>>>>;

/// Takes a buffer's spare memory if it has at least `len` bytes, otherwise new memory.
fn memory_of(spare: &Spare, buffer: usize, len: usize) -> io::Result<PagedMemory> {
    let mut spare = spare.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = spare.get_mut(buffer).and_then(Option::take);
    // Memory from before the ring grew is of no use any more.
    match kept.filter(|memory| memory.as_ref().len() >= len) {
        Some(memory) => Ok(memory),
        None => PagedMemory::new(len),
    }
}

/// Keeps memory for a buffer's next copy: the larger of two.
fn keep(spare: &mut Vec<Option<PagedMemory>>, buffer: usize, memory: PagedMemory) {
    if spare.len() <= buffer {
        spare.resize_with(buffer + 1, || None);
    }
    let place = &mut spare[buffer];
    if place.as_ref().is_none_or(|kept| kept.as_ref().len() < memory.as_ref().len()) {
        *place = Some(memory);
    }
}

/// Memory for a copy of each buffer's size, every page of it touched.
pub(crate) fn prepare(sizes: impl Iterator<Item = usize>) -> io::Result<Spare> {
    let touched = sizes.map(|size| {
        // What a clone of a full buffer asks for: 7 bytes more, for memory that is not aligned as this is.
        let mut memory = PagedMemory::new(size.saturating_add(7))?;
        // A page of zeros that was only read would not be a page of its own.
        memory.as_mut().chunks_mut(4096).for_each(|page| page[0] = 1);
        Ok(Some(memory))
    });
    Ok(Arc::new(Mutex::new(touched.collect::<io::Result<_>>()?)))
}

/// What was in a session's buffers at one moment.
pub struct Snapshot {
    buffers: Vec<ReadOnlyTraceBuffer<PagedMemory>>,
    /// What came before those in each copy.
    before: Vec<Before>,
    totals: Totals,
    summary: Summary,
    /// The boot time of the copy.
    at: u64,
    /// The clocks, and what is beside the buffers.
    head: Piece,
    numbers: Numbers,
    stall: Duration,
    spare: Spare,
    /// The fork count of the process that took it.
    forks: u32,
    from: Option<u64>,
    files: OwnFiles,
}

impl Snapshot {
    /// A copy of the buffers. Beside a long trace, with what is `read`, if that is kept.
    pub(crate) fn take(service: &mut Service, read: Option<&History>, spare: &Spare) -> io::Result<Self> {
        let sizes = service.buffers.iter().map(CentralBuffer::clone_size).enumerate();
        let memory = sizes.map(|(buffer, size)| memory_of(spare, buffer, size));
        let memory = memory.collect::<io::Result<Vec<_>>>()?;
        // Before the copies: a description may be taken back while they are made.
        let mut side = Piece::default();
        side.side_data(&service.side, SideRevision::default())?;
        let start = Instant::now();
        let buffers = service.buffers.iter().zip(memory);
        let copies = buffers.map(|(buffer, memory)| buffer.clone_read_only(memory));
        let buffers = copies.collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
        let of_ring = |buffer: &CentralBuffer| Before::from(buffer.observer().clone());
        let of_rings = || service.buffers.iter().map(of_ring).collect();
        let before = read.map_or_else(of_rings, History::before);
        let stall = start.elapsed();
        // After the copies: newer than all that is in them.
        let mut head = Piece::default();
        let at = head.clocks(&mut service.clocks, ClocksWritten::default())?.boottime();
        head.append(side);
        let mut numbers = Numbers::default();
        numbers.refresh(&service.side.process_tree);
        let (totals, spare) = (service.totals(), spare.clone());
        let (forks, files, summary) = (fork::forks(), service.files.clone(), summary_of(service, None));
        Ok(Self {
            buffers,
            before,
            totals,
            summary,
            at,
            head,
            numbers,
            stall,
            spare,
            forks,
            from: None,
            files,
        })
    }

    /// Returns how long the drain thread took for the copy. Recording threads go on meanwhile.
    pub fn stall(&self) -> Duration {
        self.stall
    }

    /// Returns the buffers' counters at the moment of the copy.
    pub fn buffers(&self) -> impl Iterator<Item = BufferStats> {
        self.totals.dropped.told(self.buffers.iter().map(ReadOnlyTraceBuffer::stats))
    }

    /// Leaves out events from before this boot time, in nanoseconds, as from [`Session::now`](crate::Session::now).
    /// Slices that end later or are open stay whole, with their arguments, and so do counts, losses and other packets,
    /// and all of producers whose packets are [folded by programs](crate::Session::add_program).
    #[must_use]
    pub fn since(mut self, time: u64) -> Self {
        self.from = Some(time);
        self
    }

    /// Writes a whole trace, with statistics at its end, into a file that appears at `path` when it is complete.
    ///
    /// It is written beside `path`, synced and renamed: an existing file is replaced whole, or stays as it is. If that
    /// fails or is cut short, `.NAME.PID-N.part` stays. A link's target, a device or a pipe is written into, but not what
    /// another user's link in a folder like `/tmp` leads to.
    ///
    /// # Errors
    /// What the file system says; or `path` names no file, or one of this session's or another's own files.
    pub fn write_to(self, path: impl AsRef<Path>) -> io::Result<Written> {
        let path = path.as_ref();
        self.files.check_is_none(path)?;
        size_signal::blocked(|| write_atomically(path, |file| self.write(file)))
    }

    /// Writes a whole trace, with statistics at its end, in pieces of about a mebibyte. Errors are those of the output.
    pub fn write(mut self, output: &mut impl Write) -> io::Result<Written> {
        self.write_out(output)
    }

    /// Writes it, once.
    pub(crate) fn write_out(&mut self, output: &mut impl Write) -> io::Result<Written> {
        // An event that a thread is within must not keep back what the thread recorded before.
        self.buffers.iter_mut().for_each(ReadOnlyTraceBuffer::stop_waiting);
        let before = std::mem::take(&mut self.before);
        let buffers = self.buffers.iter_mut().zip(before);
        let renumber = |piece: &mut Piece, from| self.numbers.apply(piece, from);
        write_trace(buffers, self.totals, self.at, &self.head, self.from, renumber, output)
    }

    /// What is missing in the trace, once that is written, except what the rings have overwritten: that is only older.
    pub(crate) fn losses(&self) -> Losses {
        let buffers = self.buffers().collect();
        let sequences = self.buffers.iter().flat_map(ReadOnlyTraceBuffer::sequences).collect();
        let losses = Summary { buffers, sequences, ..self.summary.clone() }.losses();
        Losses { chunks_overwritten: 0, bytes_overwritten: 0, ..losses }
    }
}

debug_fields!(Snapshot, stall, from);

impl Drop for Snapshot {
    fn drop(&mut self) {
        if fork::forks() != self.forks {
            // A thread of the parent may have held the lock; and no snapshot is taken here that could use the memory.
            return;
        }
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        // Only as much as one snapshot takes: two at once cost new memory.
        for (buffer, copy) in self.buffers.drain(..).enumerate() {
            keep(&mut spare, buffer, copy.into_memory());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::PoisonError;
    use std::time::Duration;

    use crate::Session;

    /// Where the memory for snapshots lies.
    fn spare(session: &Session) -> Vec<(*const u8, usize)> {
        let spare = session.spare.lock().unwrap_or_else(PoisonError::into_inner);
        spare.iter().flatten().map(|memory| (memory.as_ref().as_ptr(), memory.as_ref().len())).collect()
    }

    /// Records until the first ring is full.
    fn fill(session: &Session) {
        while session.summary().expect("a summary").buffers[0].write_wrap_count == 0 {
            (0..1000).for_each(|_| session.recorder().instant("fill"));
            session.flush(Duration::from_secs(5)).expect("a flush");
        }
    }

    #[test]
    fn a_full_ring_s_snapshots_take_the_memory_that_was_prepared() {
        let session = Session::builder().ring(64 << 10).prepare_snapshots().start().expect("a session");
        let prepared = spare(&session);
        fill(&session);
        for _ in 0..3 {
            drop(session.snapshot().expect("a snapshot"));
            assert_eq!(spare(&session), prepared);
        }
    }

    #[test]
    fn a_child_drops_its_parent_s_snapshot_though_a_thread_had_the_lock_of_the_memory() {
        use tracebuf_testing::fork::in_child;

        let session = Session::builder().ring(64 << 10).start().expect("a session");
        let mut snapshot = Some(session.snapshot().expect("a snapshot"));
        let held = session.spare.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(in_child(|| {
            drop(snapshot.take());
            true
        }));
        drop(held);
    }

    #[test]
    fn of_snapshots_at_once_the_memory_of_one_is_kept() {
        let session = Session::builder().ring(256 << 10).ring(64 << 10).ring(64 << 10).start();
        let session = session.expect("a session");
        fill(&session);
        drop(session.snapshot().expect("a snapshot"));
        let sizes = || spare(&session).iter().map(|(_, len)| *len).collect::<Vec<_>>();
        let of_one = sizes();
        let snapshots = [0; 3].map(|_| session.snapshot().expect("a snapshot"));
        assert_eq!(sizes(), []);
        drop(snapshots);
        assert_eq!(sizes(), of_one);
    }

    #[test]
    fn memory_of_a_ring_that_has_grown_since_is_replaced_and_then_kept() {
        let session = Session::builder().ring(256 << 10).start().expect("a session");
        drop(session.snapshot().expect("a snapshot"));
        let small = spare(&session);
        fill(&session);
        drop(session.snapshot().expect("a snapshot"));
        let full = spare(&session);
        assert!(full.len() == 1 && full != small, "{full:?}");
        drop(session.snapshot().expect("a snapshot"));
        assert_eq!(spare(&session), full);
    }
}
