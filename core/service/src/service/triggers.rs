//! Triggers that producers fire.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::reading::MOST_UNSENT;
use super::timers::{MS, Timer};
use super::{Service, make_room};
use crate::config::Trigger;
use crate::host::Host;
use crate::sessions::{FiredTrigger, State};

/// Nanoseconds of a day.
const DAY: u64 = 24 * 3600 * 1000 * MS;
/// Most times in a day that a trigger works which may not always: what a config says beyond that is this.
const MOST_COUNTED: usize = 4096;
/// Most names of which it is known how often they were fired.
const MOST_NAMES: usize = 4096;
/// Most triggers that a session has still to tell of.
const MOST_UNTOLD: usize = 1024;
/// Nanoseconds after which a consumer that does not take what it is told may hear of the next.
const LATER: u64 = 100 * MS;

impl<H: Host> Service<H> {
    /// A producer fires a trigger, in all sessions that list it.
    pub(super) fn activate(&mut self, number: u16, name: &str) {
        let Some(producer) = self.producers.get(&number) else { return };
        let (producer, uid) = (producer.name().to_string(), producer.peer.uid);
        let now = self.host.clocks().boottime;
        let listed: Vec<(u64, Trigger)> = self
            .sessions
            .iter()
            .filter_map(|(id, session)| {
                let all = session.config.triggers.as_ref()?;
                Some((*id, all.triggers.iter().find(|trigger| trigger.name == name)?.clone()))
            })
            .collect();
        if listed.is_empty() {
            return;
        }
        let of_today = self.fired_today(name, now) as u64;
        let mut has_worked = false;
        for (id, trigger) in listed {
            has_worked |=
                self.works(&trigger, &producer, of_today) && self.fire(id, &trigger, &producer, uid, now);
        }
        if has_worked {
            self.note_fired(name, now);
        }
    }

    /// How often triggers of this name have worked in the last day.
    fn fired_today(&mut self, name: &str, now: u64) -> usize {
        let Some(times) = self.fired.get_mut(name) else { return 0 };
        while times.front().is_some_and(|time| now.saturating_sub(*time) >= DAY) {
            times.pop_front();
        }
        times.len()
    }

    fn note_fired(&mut self, name: &str, now: u64) {
        make_room(&mut self.fired, name, MOST_NAMES, |times| times.back().copied());
        let times = self.fired.entry(name.to_string()).or_default();
        if times.len() >= MOST_COUNTED {
            times.pop_front();
        }
        times.push_back(now);
    }

    /// Whether a producer may fire a trigger, and it is not to be passed over this time.
    fn works(&mut self, trigger: &Trigger, producer: &str, of_today: u64) -> bool {
        let is_for =
            trigger.producers.is_empty() || self.host.matches(&trigger.producers, producer) == Ok(true);
        // The upper 53 bits, of which a number below 1 is made without loss.
        let random = (self.host.random() >> 11) as f64 / (1_u64 << 53) as f64;
        let most = trigger.most_a_day.min(MOST_COUNTED as u64);
        is_for && random >= trigger.skipped && (most == 0 || of_today < most)
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
            let due = self.now.saturating_add(trigger.stop_delay_ms.saturating_mul(MS));
            session.hits.push((due, fired.clone()));
            self.timers.insert((due, Timer::Clone(id)));
        }
        if session.told.triggers.len() < MOST_UNTOLD {
            session.told.triggers.push(fired);
        }
        match (starts, session.state) {
            (true, State::Configured) => {
                session.config.say_duration(trigger.stop_delay_ms);
                self.start(id);
                self.end_after(id, trigger.stop_delay_ms);
            }
            // One that is still to be started by hand ends so long after that.
            (false, State::Started) if is_first && !clones => self.end_after(id, trigger.stop_delay_ms),
            _ => {}
        }
        true
    }

    /// Lets the consumer of a session hear of triggers for which it is to clone it.
    pub(super) fn clone_is_due(&mut self, id: u64) {
        loop {
            let Some(session) = self.sessions.get_mut(&id) else { return };
            let Some(at) = session.hits.iter().position(|(due, _)| *due <= self.now) else { return };
            let consumer = session.consumer.and_then(|consumer| self.connections.get(&consumer));
            if consumer.is_some_and(|consumer| consumer.unsent > MOST_UNSENT) {
                return self.set_timer(LATER, Timer::Clone(id));
            }
            let (_, hit) = session.hits.remove(at);
            self.observe_hit(id, &hit);
        }
    }
}
