//! What a flight recorder knows of its reasons: who waits for a snapshot, when there may be another, and how many.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::waits::FOR_EVER;

/// Most triggers that can wait for their time.
pub(super) const WAITING: usize = 16;

/// Most reasons that have files of their own, those in the folder at the start among them.
const REASONS: usize = 64;

/// The reason of all that come after these.
const OTHER: &str = "other";

/// How many files there are of each reason, and how soon one may follow another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// In all.
    pub(super) files: u32,
    /// Of these, the first of a run; without a number, a quarter.
    pub(super) first: Option<u32>,
    pub(super) interval: Duration,
}

impl Limits {
    pub(super) fn first(self) -> u32 {
        self.first.unwrap_or_else(|| self.files.div_ceil(4)).min(self.files.saturating_sub(1))
    }

    pub(super) fn newest(self) -> u32 {
        self.files.saturating_sub(self.first())
    }
}

/// A snapshot that is to be written later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) reason: String,
    pub(super) due: Instant,
    /// Boot time of what it begins with; without it, everything.
    pub(super) from: Option<u64>,
    /// Until when others of the reason share it: or else it could be put off for ever.
    shared_until: Instant,
    asked: Instant,
}

#[derive(Default)]
struct Known {
    /// How many files this recorder has written, or is writing.
    files: u64,
    last: Option<Instant>,
}

/// What became of a request for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Waits,
    /// It waits because there was another one just before.
    Deferred,
    /// Another one that waits serves it too.
    Shared,
    /// Too many others wait.
    Refused,
}

pub(super) struct Reasons {
    pub(super) limits: Limits,
    known: BTreeMap<String, Known>,
    waiting: Vec<Request>,
}

impl Reasons {
    /// With those of files that are there.
    pub(super) fn new(limits: Limits, there: impl Iterator<Item = String>) -> Self {
        let known = there.map(|reason| (reason, Known::default())).take(REASONS).collect();
        Self { limits, known, waiting: Vec::new() }
    }

    /// The reason under which its files are: itself, unless there are too many.
    fn name_of<'r>(&self, reason: &'r str) -> &'r str {
        let is_one = self.known.contains_key(reason) || self.known.len() < REASONS;
        if is_one { reason } else { OTHER }
    }

    /// Before this time there is no snapshot of this reason; the first ones come at once.
    fn soonest(&self, reason: &str, now: Instant) -> Instant {
        let known = self.known.get(reason);
        let known = known.filter(|known| known.files >= u64::from(self.limits.first()));
        known
            .and_then(|known| known.last?.checked_add(self.limits.interval))
            .map_or(now, |next| next.max(now))
    }

    /// Asks for a snapshot once `after` has passed, or in place of one that would come too soon.
    pub(super) fn ask(&mut self, reason: &str, now: Instant, after: Duration, from: Option<u64>) -> Asked {
        let reason = self.name_of(reason);
        let (soonest, end) = (self.soonest(reason, now), now + after.min(FOR_EVER));
        let due = end.max(soonest);
        let is_shared = |request: &&mut Request| request.reason == reason && now <= request.shared_until;
        if let Some(request) = self.waiting.iter_mut().find(is_shared) {
            request.due = request.due.max(due);
            // The longest wins; and without a beginning, everything is wanted.
            request.from = request.from.zip(from).map(|(one, other)| one.min(other));
            request.shared_until = request.shared_until.max(request.asked + after.min(FOR_EVER));
            return if soonest > end { Asked::Deferred } else { Asked::Shared };
        }
        if self.waiting.len() >= WAITING {
            return Asked::Refused;
        }
        let reason = reason.to_owned();
        self.waiting.push(Request { reason, due, from, shared_until: due, asked: now });
        if soonest > end { Asked::Deferred } else { Asked::Waits }
    }

    /// Whether one of this reason may be written now. If not, it is asked for here.
    pub(super) fn is_now_or_ask(&mut self, reason: &str, now: Instant) -> Result<(), Asked> {
        let is_now = self.soonest(self.name_of(reason), now) <= now;
        if is_now { Ok(()) } else { Err(self.ask(reason, now, Duration::ZERO, None)) }
    }

    /// Takes a snapshot whose time has come. A snapshot of its reason may have come just before: it is put off.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Request> {
        let soonest: Vec<_> = self.waiting.iter().map(|request| self.soonest(&request.reason, now)).collect();
        for (request, soonest) in self.waiting.iter_mut().zip(soonest).filter(|(_, soonest)| *soonest > now) {
            request.due = request.due.max(soonest);
        }
        let at = self.waiting.iter().position(|request| request.due <= now)?;
        Some(self.waiting.remove(at))
    }

    /// Takes the next one, whenever its time is.
    pub(super) fn take_any(&mut self) -> Option<Request> {
        (!self.waiting.is_empty()).then(|| self.waiting.remove(0))
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.waiting.iter().map(|request| request.due).min()
    }

    /// Begins to write a file: its reason, and which of this recorder's it is, from 1.
    pub(super) fn begin(&mut self, reason: &str, now: Instant) -> (String, u64) {
        let reason = self.name_of(reason).to_owned();
        let known = self.known.entry(reason.clone()).or_default();
        known.files += 1;
        known.last = Some(now);
        (reason, known.files)
    }

    /// It could not be written: the next one takes its place, if none has begun yet.
    pub(super) fn failed(&mut self, reason: &str, number: u64) {
        let Some(known) = self.known.get_mut(reason).filter(|known| known.files == number) else { return };
        known.files -= 1;
        if known.files == 0 {
            // It may be no reason at all.
            self.known.remove(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn reasons(files: u32) -> Reasons {
        Reasons::new(Limits { files, first: None, interval: SECOND }, std::iter::empty())
    }

    #[test]
    fn a_quarter_of_the_files_are_the_first_and_one_is_always_the_newest() {
        let parts = |files, first| {
            let limits = Limits { files, first, interval: SECOND };
            (limits.first(), limits.newest())
        };
        let told = [1, 2, 3, 4, 8, 9].map(|files| parts(files, None));
        assert_eq!(told, [(0, 1), (1, 1), (1, 2), (1, 3), (2, 6), (3, 6)]);
        assert_eq!([parts(8, Some(0)), parts(8, Some(5)), parts(8, Some(9))], [(0, 8), (5, 3), (7, 1)]);
    }

    #[test]
    fn of_those_that_share_a_snapshot_the_longest_wins_on_both_sides() {
        let (mut reasons, now) = (reasons(8), Instant::now());
        assert_eq!(reasons.ask("slow", now, SECOND, Some(500)), Asked::Waits);
        let later = now + SECOND / 2;
        assert_eq!(reasons.ask("slow", later, SECOND * 2, Some(700)), Asked::Shared);
        assert_eq!(reasons.ask("slow", later, Duration::ZERO, Some(300)), Asked::Shared);
        assert_eq!(reasons.take_due(later + SECOND * 2 - Duration::from_nanos(1)), None);
        let request = reasons.take_due(later + SECOND * 2).expect("its time has come");
        assert_eq!((&request.reason[..], request.from), ("slow", Some(300)));
        // One that wants everything gets it.
        reasons.ask("slow", now, SECOND, Some(500));
        reasons.ask("slow", now, SECOND, None);
        assert_eq!(reasons.take_any().expect("it waits").from, None);
    }

    #[test]
    fn triggers_that_never_cease_do_not_put_a_snapshot_off_for_ever() {
        let (mut reasons, start) = (reasons(8), Instant::now());
        let mut written = Vec::new();
        for step in 0..100 {
            let now = start + SECOND / 10 * step;
            reasons.ask("slow", now, SECOND, None);
            if let Some(request) = reasons.take_due(now) {
                reasons.begin(&request.reason, now);
                written.push(step);
            }
        }
        let apart = written.windows(2).map(|two| two[1] - two[0]).max();
        assert!(written[0] <= 20 && apart <= Some(21), "{written:?}");
    }

    #[test]
    fn after_the_first_ones_there_is_one_in_each_interval_and_one_for_those_in_between() {
        let (mut reasons, start) = (reasons(8), Instant::now());
        let at = |tenths: u32| start + SECOND / 10 * tenths;
        for (number, tenths) in [(1, 0), (2, 1)] {
            assert_eq!(reasons.is_now_or_ask("panic", at(tenths)), Ok(()));
            assert_eq!(reasons.begin("panic", at(tenths)), ("panic".into(), number));
        }
        for tenths in [2, 3, 10] {
            assert_eq!(reasons.is_now_or_ask("panic", at(tenths)), Err(Asked::Deferred), "{tenths}");
        }
        // Another reason does not wait for it.
        assert_eq!(reasons.is_now_or_ask("another", at(4)), Ok(()));
        assert_eq!((reasons.take_due(at(10)), reasons.next_due()), (None, Some(at(11))));
        let request = reasons.take_due(at(11)).expect("its time has come");
        assert_eq!(reasons.begin(&request.reason, at(11)).1, 3);
        assert_eq!(reasons.is_now_or_ask("panic", at(21)), Ok(()));
    }

    #[test]
    fn a_trigger_s_snapshot_is_put_off_when_one_of_its_reason_came_just_before() {
        let (mut reasons, now) = (reasons(1), Instant::now());
        reasons.ask("slow", now, SECOND, None);
        reasons.begin("slow", now + SECOND / 2);
        assert_eq!(reasons.take_due(now + SECOND), None);
        assert_eq!(reasons.next_due(), Some(now + SECOND * 3 / 2));
        assert!(reasons.take_due(now + SECOND * 3 / 2).is_some());
    }

    #[test]
    fn made_up_reasons_share_files_and_an_interval_and_known_ones_keep_theirs() {
        let limits = Limits { files: 8, first: None, interval: SECOND };
        let mut reasons = Reasons::new(limits, ["panic".to_owned()].into_iter());
        let now = Instant::now();
        for reason in 0..1000 {
            let (name, _) = reasons.begin(&format!("request {reason}"), now);
            assert_eq!(name == OTHER, reason >= REASONS - 1, "{reason}: {name}");
        }
        assert_eq!(reasons.known.len(), REASONS + 1);
        assert_eq!(reasons.begin("panic", now), ("panic".into(), 1));
        assert_eq!(reasons.is_now_or_ask("one more", now), Err(Asked::Deferred));
        assert_eq!(reasons.take_any().map(|request| request.reason), Some(OTHER.into()));
        assert_eq!(reasons.ask("one more", now, SECOND * 2, None), Asked::Waits, "that is late enough");
    }

    #[test]
    fn a_file_that_could_not_be_written_does_not_take_the_place_of_a_first_one() {
        let (mut reasons, now) = (reasons(8), Instant::now());
        let (_, number) = reasons.begin("panic", now);
        reasons.failed("panic", number);
        assert_eq!(reasons.begin("panic", now).1, 1);
        reasons.begin("panic", now);
        reasons.failed("panic", 1);
        assert_eq!(reasons.begin("panic", now).1, 3);
    }
}
