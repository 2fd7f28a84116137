//! What is to happen later.

use alloc::vec::Vec;

use super::Service;
use crate::host::Host;
use crate::sessions::State;

/// Nanoseconds of a millisecond.
pub(super) const MS: u64 = 1_000_000;
/// Nanoseconds after which a duration that counts sleep is looked at again: the steady clock stands still meanwhile.
const LOOK_AGAIN: u64 = 1_000 * MS;

/// What is due, with the session or the flush that it is of. One that is gone has nothing due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// The session has lasted as long as it was to.
    Duration(u64),
    /// A trigger has had enough time to start the session.
    Trigger(u64),
    /// Its consumer is to clone the session.
    Clone(u64),
    /// Its data sources have had enough time to stop.
    Stop(u64),
    /// Data sources have had enough time to start.
    SlowStart(u64),
    /// Producers have had enough time to answer a flush.
    Flush(u64),
    /// To write into the session's file.
    Write(u64),
    /// To flush the session.
    PeriodicFlush(u64),
    /// To let its producers repeat names and clocks.
    Clear(u64),
    /// To tell of clocks, statistics and a marker.
    Snapshot(u64),
    /// The service is to end, and waits for no program any more.
    End,
}

/// The first multiple of a period after a time.
fn next_multiple(time: u64, period_ms: u64) -> u64 {
    let period = period_ms.saturating_mul(MS).max(MS);
    (time / period).saturating_add(1).saturating_mul(period)
}

impl<H: Host> Service<H> {
    pub(super) fn set_timer(&mut self, after: u64, timer: Timer) {
        self.timers.insert((self.now.saturating_add(after), timer));
    }

    /// Sets one for the next multiple of a period, so that sessions do the same together.
    pub(super) fn set_periodic(&mut self, period_ms: u64, timer: Timer) {
        self.timers.insert((next_multiple(self.now, period_ms), timer));
    }

    pub(super) fn do_what_is_due(&mut self) {
        while let Some((time, timer)) = self.timers.first().copied().filter(|(time, _)| *time <= self.now) {
            self.timers.remove(&(time, timer));
            match timer {
                Timer::Duration(id) => self.duration_is_over(id),
                Timer::Trigger(id) => self.no_trigger_came(id),
                Timer::Clone(id) => self.clone_is_due(id),
                Timer::Stop(id) => {
                    if self.sessions.get(&id).is_some_and(|session| session.state == State::Stopping) {
                        self.disabled(id);
                    }
                }
                Timer::SlowStart(id) => self.look_whether_slow(id),
                Timer::Flush(id) => self.end_flush(id, false),
                Timer::Write(id) => self.write_is_due(id),
                Timer::PeriodicFlush(id) => self.flush_is_due(id),
                Timer::Clear(id) => self.clear_is_due(id),
                Timer::Snapshot(id) => self.snapshot_is_due(id),
                Timer::End => self.end_at_once(),
            }
        }
    }

    /// The period of a session that is started, if it has one.
    fn period(&self, id: u64, of: impl FnOnce(&crate::config::TraceConfig) -> u64) -> Option<u64> {
        let session = self.sessions.get(&id).filter(|session| session.state == State::Started)?;
        Some(of(&session.config)).filter(|period| *period != 0)
    }

    fn duration_is_over(&mut self, id: u64) {
        let clocks = self.host.clocks();
        let Some(session) = self.sessions.get(&id).filter(|session| session.state == State::Started) else {
            return;
        };
        let left = session.ends_at.map(|ends| ends.saturating_sub(session.clock(&clocks)));
        match left {
            Some(0) => self.flush_and_stop(id),
            Some(left) if session.config.counts_sleep => {
                self.set_timer(left.min(LOOK_AGAIN), Timer::Duration(id));
            }
            Some(left) => self.set_timer(left, Timer::Duration(id)),
            None => {}
        }
    }

    /// Lets a session that has started end after this, whatever was said before.
    pub(super) fn end_after(&mut self, id: u64, ms: u64) {
        let clocks = self.host.clocks();
        if let Some(session) = self.sessions.get_mut(&id) {
            session.ends_at = Some(session.clock(&clocks).saturating_add(ms.saturating_mul(MS)));
            self.timers.insert((self.now, Timer::Duration(id)));
        }
    }

    fn no_trigger_came(&mut self, id: u64) {
        if self.sessions.get(&id).is_some_and(|session| session.state == State::Configured) {
            self.disable(id, true);
        }
    }

    fn flush_is_due(&mut self, id: u64) {
        if let Some(period) = self.period(id, |config| config.flushing().1) {
            self.flush_periodically(id);
            self.set_periodic(period, Timer::PeriodicFlush(id));
        }
    }

    fn write_is_due(&mut self, id: u64) {
        let Some(period) = self.period(id, |config| config.write_period_ms) else { return };
        self.set_periodic(period, Timer::Write(id));
        if self.sessions.get(&id).is_some_and(|session| session.config.flushing().0) {
            self.flush_to_write(id);
        } else {
            self.write_now(id);
        }
    }

    fn clear_is_due(&mut self, id: u64) {
        if let Some(period) = self.period(id, |config| config.clear_period_ms) {
            self.clear_states(id);
            self.set_periodic(period, Timer::Clear(id));
        }
    }

    fn snapshot_is_due(&mut self, id: u64) {
        let Some(period) = self.period(id, |config| config.builtin.interval_ms) else { return };
        let clocks = self.host.clocks();
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let left = session.snapshot_at.saturating_sub(clocks.boottime);
        if left > 0 {
            return self.set_timer(left.min(LOOK_AGAIN), Timer::Snapshot(id));
        }
        session.note_clocks(clocks);
        (session.told.marker_is_due, session.told.stats_are_due) = (true, true);
        self.set_snapshot(id, period);
    }

    /// Sets the one for the next time that a session's trace tells of clocks.
    pub(super) fn set_snapshot(&mut self, id: u64, period_ms: u64) {
        let boottime = self.host.clocks().boottime;
        match self.sessions.get_mut(&id).filter(|session| session.config.builtin.counts_sleep) {
            Some(session) => {
                session.snapshot_at = next_multiple(boottime, period_ms);
                let left = session.snapshot_at.saturating_sub(boottime);
                self.set_timer(left.min(LOOK_AGAIN), Timer::Snapshot(id));
            }
            None => self.set_periodic(period_ms, Timer::Snapshot(id)),
        }
    }

    /// Forgets what is due of a session.
    pub(super) fn forget_timers(&mut self, id: u64) {
        let is_its = |timer: &Timer| match timer {
            Timer::Duration(of)
            | Timer::Trigger(of)
            | Timer::Clone(of)
            | Timer::Stop(of)
            | Timer::SlowStart(of)
            | Timer::Write(of)
            | Timer::PeriodicFlush(of)
            | Timer::Clear(of)
            | Timer::Snapshot(of) => *of == id,
            Timer::Flush(_) | Timer::End => false,
        };
        let gone: Vec<_> = self.timers.iter().copied().filter(|(_, timer)| is_its(timer)).collect();
        gone.iter().for_each(|timer| _ = self.timers.remove(timer));
    }
}
