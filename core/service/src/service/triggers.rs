//! Triggers that producers fire.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::Service;
use super::timers::{MS, Timer};
use crate::config::Trigger;
use crate::host::Host;
use crate::sessions::{FiredTrigger, State};

/// Nanoseconds of a day.
const DAY: u64 = 24 * 3600 * 1000 * MS;
/// Most triggers of a day that are counted; one beyond that does nothing.
const MOST: usize = 16_384;
/// Most triggers that a session has still to tell of.
const MOST_UNTOLD: usize = 1024;

impl<H: Host> Service<H> {
    /// A producer fires a trigger, in all sessions that list it.
    pub(super) fn activate(&mut self, number: u16, name: &str) {
        let Some(producer) = self.producers.get(&number) else { return };
        let (producer, uid) = (producer.name().to_string(), producer.peer.uid);
        let now = self.host.clocks().boottime;
        self.fired.retain(|(_, time)| now.saturating_sub(*time) < DAY);
        let of_today = self.fired.iter().filter(|(fired, _)| fired == name).count() as u64;
        if self.fired.len() >= MOST {
            return;
        }
        let listed: Vec<(u64, Trigger)> = self
            .sessions
            .iter()
            .filter_map(|(id, session)| {
                let all = session.config.triggers.as_ref()?;
                Some((*id, all.triggers.iter().find(|trigger| trigger.name == name)?.clone()))
            })
            .collect();
        let mut has_worked = false;
        for (id, trigger) in listed {
            has_worked |=
                self.works(&trigger, &producer, of_today) && self.fire(id, &trigger, &producer, uid, now);
        }
        if has_worked {
            self.fired.push((name.to_string(), now));
        }
    }

    /// Whether a producer may fire a trigger, and it is not to be passed over this time.
    fn works(&mut self, trigger: &Trigger, producer: &str, of_today: u64) -> bool {
        let is_for =
            trigger.producers.is_empty() || self.host.matches(&trigger.producers, producer) == Ok(true);
        // The upper 53 bits, of which a number below 1 is made without loss.
        let random = (self.host.random() >> 11) as f64 / (1_u64 << 53) as f64;
        is_for && random >= trigger.skipped && (trigger.most_a_day == 0 || of_today < trigger.most_a_day)
    }

    /// Starts a session, or lets it end; false if it is over.
    fn fire(&mut self, id: u64, trigger: &Trigger, producer: &str, uid: u32, now: u64) -> bool {
        let clocks = self.host.clocks();
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        if !matches!(session.state, State::Configured | State::Started) {
            return false;
        }
        let is_first = !core::mem::replace(&mut session.is_triggered, true);
        session.note_clocks(clocks);
        let fired = FiredTrigger {
            name: trigger.name.clone(),
            producer: String::from(producer),
            uid,
            stop_delay_ms: trigger.stop_delay_ms,
            time: now,
        };
        let clones = session.config.triggers.as_ref().is_some_and(|triggers| triggers.clones);
        let starts = session.config.triggers.as_ref().is_some_and(|triggers| triggers.starts);
        if clones && session.hits.len() < MOST_UNTOLD {
            session.hits.push(fired.clone());
        }
        if session.told.triggers.len() < MOST_UNTOLD {
            session.told.triggers.push(fired);
        }
        match (starts, session.state) {
            (true, State::Configured) => {
                self.start(id);
                self.end_after(id, trigger.stop_delay_ms);
            }
            // A session that was to be started by hand may be stopped by a trigger only once it is.
            _ if clones => self.set_timer(trigger.stop_delay_ms.saturating_mul(MS), Timer::Clone(id)),
            (false, State::Started) if is_first => self.end_after(id, trigger.stop_delay_ms),
            _ => {}
        }
        true
    }

    /// Lets the consumer of a session hear of triggers for which it is to clone it.
    pub(super) fn clone_is_due(&mut self, id: u64) {
        let now = self.host.clocks().boottime;
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let is_due =
            |hit: &mut FiredTrigger| hit.time.saturating_add(hit.stop_delay_ms.saturating_mul(MS)) <= now;
        let due: Vec<FiredTrigger> = session.hits.extract_if(.., is_due).collect();
        due.into_iter().for_each(|hit| self.observe_hit(id, &hit));
    }
}
