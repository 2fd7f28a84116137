//! The files of a session that is starting.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tracebuf::buffer::TraceBuffer;

use crate::buffer_config::BufferConfig;
use crate::carry_over::{CarryOver, kept_memory};
use crate::clock::ClockReading;
use crate::clock_pairs::ClockPairs;
use crate::error::SessionError;
use crate::export::Piece;
use crate::files::{Opened, OwnFiles, Undo, open_long_trace};
use crate::long_trace::{LongTrace, Names, Recording};
use crate::recording_gate::RecordingGate;
use crate::region_file::{
    BufferMemory, ClockTable, KeptMemory, Outbox, OwnMark, OwnMemory, RegionSpec, SharedMemorySpec, create,
};
use crate::service::Service;
use crate::side_packets::SideData;
use crate::size_signal;
use crate::transport::CentralBuffer;
use tracebuf_std::memory::PagedMemory;
use tracebuf_std::system::id_at;

/// Files of a session that has not started: what they held still exists. Dropping this puts it back.
pub(crate) struct OpenFiles<'s> {
    // Dropped before the files: what was created is removed while they are locked.
    made: Vec<Undo>,
    buffers: Vec<CentralBuffer>,
    /// For each buffer, if it lies in a file beside a long trace.
    outboxes: Vec<Option<Outbox>>,
    own: Option<(OwnMemory, OwnMark)>,
    files: OwnFiles,
    long_trace: Option<(&'s LongTrace, Opened, Option<Names>)>,
    /// The same in all files: from it, recovery knows which trace belongs to which buffer.
    clocks: ClockReading,
    /// In each buffer's file, the place for those that follow.
    clock_tables: Vec<ClockTable>,
}

impl<'s> OpenFiles<'s> {
    /// Makes the buffers, in files that do not count yet. `own`: shared memory in the first of these files.
    pub(crate) fn new(
        buffers: &[BufferConfig],
        long_trace: Option<&'s LongTrace>,
        keeps: Option<usize>,
        mut own: Option<SharedMemorySpec>,
    ) -> Result<Self, SessionError> {
        if let Some(trace) = long_trace
            && buffers.iter().any(|buffer| buffer.file.is_some())
        {
            trace.check_beside_file().map_err(|error| SessionError::writing(&trace.path, error))?;
        }
        let opened = long_trace.map(|trace| {
            let opened = open_first(trace);
            let (file, undo, names) = opened.map_err(|error| SessionError::writing(&trace.path, error))?;
            Ok(((trace, file, names), undo))
        });
        let (long_trace, undo) = opened.transpose()?.unzip();
        let its_id = long_trace.as_ref().map(|(_, file, _)| file.id);
        let mut files = Self {
            buffers: Vec::new(),
            outboxes: Vec::new(),
            own: None,
            files: OwnFiles { long_trace: its_id, regions: Vec::new() },
            made: undo.flatten().into_iter().collect(),
            long_trace,
            clocks: ClockReading::now(),
            clock_tables: Vec::new(),
        };
        for (index, buffer) in buffers.iter().enumerate() {
            let bytes = buffer.bytes;
            let size = buffer.region_size().ok_or(SessionError::LargeBuffer { buffer: index, bytes })?;
            // Beside a long trace, packets also leave by its file.
            let observes = files.long_trace.is_none() && buffer.is_ring();
            let mut kept = None;
            let memory = match &buffer.file {
                None => memory_of(size, buffer.in_large_pages(size))?,
                Some(path) => {
                    let own = own.take().map(|own| SharedMemorySpec { buffer: index as u16, ..own });
                    let keeps = keeps.filter(|_| observes).map_or(0, |bytes| kept_memory(bytes) as u64);
                    let opened = files.open(path, size, own, keeps);
                    let opened = opened.map_err(|error| {
                        SessionError::io(format!("a buffer in {}", path.display()), error)
                    })?;
                    kept = opened.1;
                    opened.0
                }
            };
            let buffer = TraceBuffer::new(memory, buffer.config()).map_err(SessionError::Buffer)?;
            let carried = match kept {
                Some(memory) => CarryOver::of_ring().keep_in_file(memory),
                None if observes => CarryOver::of_ring().keeping(keeps),
                None => CarryOver::default(),
            };
            files.buffers.push(buffer.observed_by(carried));
            files.outboxes.resize_with(index + 1, || None);
        }
        Ok(files)
    }

    pub(crate) fn own_memory(&self) -> Option<OwnMemory> {
        self.own.as_ref().map(|(memory, _)| memory.clone())
    }

    fn open(
        &mut self,
        path: &Path,
        size: usize,
        own: Option<SharedMemorySpec>,
        kept: u64,
    ) -> io::Result<(BufferMemory, Option<KeptMemory>)> {
        // Its lock would say that another session has it.
        self.files.check_is_none(path)?;
        let mut clocks = Piece::default();
        clocks.service(&self.clocks)?;
        let beside_long_trace = self.long_trace.is_some();
        let wanted = RegionSpec { region: size as u64, beside_long_trace, clocks: &clocks.bytes, own, kept };
        let (parts, undo) = size_signal::blocked(|| create(path, &wanted))?;
        self.made.push(undo);
        self.files.regions.extend(id_at(path));
        self.outboxes.push(parts.outbox);
        self.own = self.own.take().or(parts.own);
        self.clock_tables.push(parts.clocks);
        Ok((parts.memory, parts.kept))
    }

    /// From here on they count, unless there is an error.
    pub(crate) fn begin(
        self,
        gate: &Arc<RecordingGate>,
    ) -> Result<(Service, Option<Recording>), SessionError> {
        let Self { buffers, outboxes, own, files, made, long_trace, clocks, clock_tables } = self;
        let side = SideData::default();
        let long_trace = long_trace.map(|(trace, file, names)| {
            let recording = Recording::start(trace, file, names, gate.clone(), outboxes, &clocks, &side);
            recording.map_err(|error| SessionError::writing(&trace.path, error))
        });
        let long_trace = long_trace.transpose()?;
        made.into_iter().for_each(Undo::forget);
        let mut service = Service::new(buffers, files, own.map(|(_, mark)| mark));
        service.clocks = ClockPairs::new(clocks, clock_tables);
        service.side = side;
        Ok((service.read_out(long_trace.is_some()), long_trace))
    }
}

/// Opens the file of a long trace, or the first of several.
fn open_first(trace: &LongTrace) -> io::Result<(Opened, Option<Undo>, Option<Names>)> {
    if !trace.rotation.is_on() {
        return open_long_trace(&trace.path).map(|(file, undo)| (file, undo, None));
    }
    let mut names = Names::after_all(&trace.path)?;
    names.open().map(|(file, undo)| (file, undo, Some(names)))
}

fn memory_of(size: usize, is_large: bool) -> Result<BufferMemory, SessionError> {
    let memory = PagedMemory::new(size).map_err(|error| SessionError::io("memory for a buffer", error))?;
    Ok(if is_large { memory.in_large_pages() } else { memory }.into())
}
