//! Traces that the service writes into files.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tracebuf::buffer::{BufferStats, FillPolicy, TraceBuffer};

use super::Service;
use super::reading::Read;
use crate::host::{Action, FileToken, Host};
use crate::sessions::{OutputFile, State};
use crate::sinks::Piece;

/// Bytes that are written at once.
const PIECE: usize = 1 << 20;
/// Most bytes that wait to be written: what comes then waits in the buffers, which say what they lose.
const BACKLOG: u64 = 64 << 20;
/// Bytes kept for the end of a trace that must not be longer than so much: statistics, and what it was.
const END: u64 = 16 << 10;

/// Bytes that a buffer has taken in all.
const fn taken(stats: &BufferStats) -> u64 {
    stats.bytes_written.saturating_add(stats.padding_bytes_written)
}

impl OutputFile {
    pub(crate) const fn new(token: FileToken) -> Self {
        Self {
            token,
            given: 0,
            written: 0,
            drains: false,
            is_full: false,
            is_finishing: false,
            drained: Vec::new(),
            lost: 0,
            cloned_by: None,
        }
    }

    const fn waiting(&self) -> u64 {
        self.given.saturating_sub(self.written)
    }
}

impl<H: Host> Service<H> {
    /// Writes what a session has, in turns.
    pub(super) fn write_now(&mut self, id: u64) {
        if let Some(file) = self.sessions.get_mut(&id).and_then(|session| session.file.as_mut()) {
            file.drains = true;
            self.writers.insert(id);
        }
    }

    /// Writes early what a ring would overwrite before its time, and says so if it has.
    pub(super) fn look_at_files(&mut self) {
        let (mut early, mut lines) = (Vec::new(), Vec::new());
        for (id, session) in &mut self.sessions {
            let Some(file) = session.file.as_mut().filter(|_| session.state == State::Started) else {
                continue;
            };
            file.drained.resize(session.buffers.len(), 0);
            let mut lost = 0;
            for (number, drained) in session.buffers.iter().zip(&file.drained) {
                let Some(buffer) = self.buffers.get(*number) else { continue };
                let stats = buffer.stats();
                lost += stats.bytes_overwritten;
                let is_ring = buffer.policy() == FillPolicy::RingBuffer;
                if is_ring && !file.drains && taken(&stats).saturating_sub(*drained) >= stats.buffer_size / 2
                {
                    file.drains = true;
                    early.push(*id);
                }
            }
            if file.lost == 0 && lost > 0 {
                lines.push(format!(
                    "session {id} loses data: it is overwritten before it is written into the file"
                ));
            }
            file.lost = lost;
        }
        self.writers.extend(early);
        lines.into_iter().for_each(|line| self.log(line));
    }

    /// Writes a piece. Returns whether another can be written at once.
    pub(super) fn write_turn(&mut self, id: u64) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else {
            self.writers.remove(&id);
            return false;
        };
        let (limit, is_over) = (session.config.max_file_size, session.state.is_over());
        let Some(file) = session.file.as_mut().filter(|file| file.drains && !file.is_finishing) else {
            self.writers.remove(&id);
            return false;
        };
        if file.waiting() >= BACKLOG {
            return false;
        }
        let (token, given, was_full) = (file.token, file.given, file.is_full);
        let room = limit.map_or(u64::MAX, |limit| {
            // The packet with which it would be so long is not written.
            limit.saturating_sub(given).saturating_sub(1).saturating_sub(END.min(limit / 4))
        });
        let mut piece = Piece::new(room);
        // What is compressed takes less room than is known beforehand: so the last pieces are ever smaller.
        let most = if self.compresses(id) { (room / 2).clamp(1, PIECE as u64) as usize } else { PIECE };
        let read = if was_full { Read::All } else { self.read(id, &mut piece, most) };
        let is_full = read == Read::Full;
        let packets = self.compressed(id, piece.into_bytes());
        self.give(id, token, packets);
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        let syncs = session.config.syncs_writes;
        let Some(file) = &mut session.file else { return false };
        file.is_full |= is_full;
        if is_full && !is_over {
            // What is left in the buffers is no part of this trace.
            self.disable(id, true);
            return true;
        }
        if read == Read::Some {
            return true;
        }
        file.drains = false;
        let stats = session.buffers.iter().map(|number| self.buffers.get(*number).map(TraceBuffer::stats));
        file.drained = stats.map(|stats| stats.as_ref().map_or(0, taken)).collect();
        self.writers.remove(&id);
        if is_over {
            file.is_finishing = true;
            let is_full = file.is_full;
            if is_full {
                self.write_end(id, token, limit.unwrap_or(u64::MAX));
            }
            self.actions.push(Action::Finish(token));
        } else if syncs {
            self.actions.push(Action::Sync(token));
        }
        false
    }

    /// The end of a trace that has become too long: what was lost, and that it is over.
    fn write_end(&mut self, id: u64, token: FileToken, limit: u64) {
        let given =
            self.sessions.get(&id).and_then(|session| session.file.as_ref()).map_or(0, |file| file.given);
        let mut piece = Piece::new(limit.saturating_sub(given).saturating_sub(1));
        if let Some(session) = self.sessions.get_mut(&id) {
            session.told.stats_are_due = true;
        }
        // What has no room is left out.
        self.read(id, &mut piece, 0);
        self.give(id, token, piece.into_bytes());
    }

    fn give(&mut self, id: u64, token: FileToken, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        if let Some(file) = self.sessions.get_mut(&id).and_then(|session| session.file.as_mut()) {
            file.given = file.given.saturating_add(bytes.len() as u64);
        }
        self.actions.push(Action::Write { file: token, bytes });
    }

    fn session_of(&self, token: FileToken) -> Option<u64> {
        let has_it = |file: &OutputFile| file.token == token;
        self.sessions.iter().find(|(_, session)| session.file.as_ref().is_some_and(has_it)).map(|(id, _)| *id)
    }

    pub(super) fn written(&mut self, token: FileToken, bytes: usize) {
        let id = self.session_of(token);
        if let Some(file) = id.and_then(|id| self.sessions.get_mut(&id)?.file.as_mut()) {
            file.written = file.written.saturating_add(bytes as u64);
        }
    }

    /// A file takes nothing more: its session ends.
    pub(super) fn file_failed(&mut self, token: FileToken, error: String) {
        let Some(id) = self.session_of(token) else { return };
        self.log(format!("the trace of session {id} ends: {error}"));
        let Some(file) = self.sessions.get_mut(&id).and_then(|session| session.file.as_mut()) else { return };
        (file.is_full, file.drains) = (true, false);
        let finishes = core::mem::replace(&mut file.is_finishing, true);
        self.writers.remove(&id);
        if !finishes {
            self.actions.push(Action::Finish(token));
        }
        self.fail(id, format!("Cannot write the trace: {error}"));
    }

    /// A file is complete, and closed.
    pub(super) fn file_finished(&mut self, token: FileToken) {
        let Some(id) = self.session_of(token) else { return };
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let file = session.file.take();
        match session.state {
            State::Cloned => {
                self.is_cloned_into_file(id, file.as_ref());
                self.say_that_it_ended(id);
            }
            State::Disabled => self.say_that_it_ended(id),
            _ => {}
        }
    }
}
