//! A producer of a session, with what it was asked and has answered.

use std::time::Instant;

use crate::transport::Transport;
use crate::waits::PATIENCE;

/// A producer, with the number of the last flush that it was asked for and of the last that it has answered.
///
/// A [`Transport`] tells only whether the last question is answered. So no producer is asked anew while a flush waits
/// for its answer: with many flushes, a slow one might never have answered the last question.
pub(super) struct AskedProducer {
    pub(super) transport: Box<dyn Transport>,
    asked: u64,
    asked_at: Instant,
    answered: u64,
    is_late: bool,
}

impl AskedProducer {
    /// One that comes after this flush, which does not wait for it.
    pub(super) fn new(transport: Box<dyn Transport>, flush: u64) -> Self {
        Self { transport, asked: flush, asked_at: Instant::now(), answered: flush, is_late: false }
    }

    /// Asks for the newest flush, if it was not asked yet and no flush from the oldest on waits for its answer; or if
    /// one has waited for so long that the question may be lost, and as long as it waits no flush would have an answer.
    pub(super) fn ask(&mut self, oldest: u64, newest: u64) {
        let is_waited_for = self.answered < self.asked && self.asked >= oldest;
        if self.asked < newest && !(is_waited_for && self.asked_at.elapsed() < 2 * PATIENCE) {
            (self.asked, self.asked_at) = (newest, Instant::now());
            self.transport.ask_flush();
        }
    }

    /// Asks without a flush, and only if it has answered everything.
    pub(super) fn ask_if_idle(&mut self) {
        if self.answered == self.asked && self.transport.is_flushed() {
            self.transport.ask_flush();
        }
    }

    /// Sees whether it has answered. Call this only after draining what came after the question: then what it has sent
    /// is in the buffers.
    pub(super) fn look(&mut self) {
        if self.transport.is_flushed() {
            (self.answered, self.is_late) = (self.asked, false);
        }
    }

    pub(super) const fn has_answered(&self, flush: u64) -> bool {
        self.answered >= flush
    }

    /// Nothing waits for this flush any more.
    pub(super) const fn end_flush(&mut self, flush: u64) {
        self.is_late |= self.answered < self.asked && self.asked <= flush;
    }

    /// Whether a flush has ended without its answer, which is still missing.
    pub(super) const fn is_late(&self) -> bool {
        self.is_late
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tracebuf::service::EndpointStats;

    use super::*;
    use crate::service::Service;
    use crate::transport::CentralBuffer;

    /// How often a producer was asked, and the last of those questions that it has answered.
    #[derive(Default)]
    struct Said {
        asked: AtomicU32,
        answered: AtomicU32,
    }

    impl Said {
        fn answer(&self) {
            self.answered.store(self.asked(), Ordering::Relaxed);
        }

        fn asked(&self) -> u32 {
            self.asked.load(Ordering::Relaxed)
        }
    }

    /// A producer that answers at once, or when the test says so.
    struct Answers(bool, Arc<Said>);

    impl Transport for Answers {
        fn drain(&mut self, _: &mut [CentralBuffer]) {
            if self.0 {
                self.1.answer();
            }
        }

        fn ask_flush(&mut self) {
            self.1.asked.fetch_add(1, Ordering::Relaxed);
        }

        fn is_flushed(&self) -> bool {
            self.1.answered.load(Ordering::Relaxed) == self.1.asked()
        }

        fn scrape(&mut self, _: &mut [CentralBuffer]) {}

        fn stats(&self) -> EndpointStats {
            EndpointStats::default()
        }
    }

    #[test]
    fn who_is_slow_is_asked_anew_when_nobody_waits_for_its_answer_and_others_at_once() {
        let (mut service, slow, quick) = (Service::default(), Arc::<Said>::default(), Arc::<Said>::default());
        service.attach(Box::new(Answers(false, slow.clone())));
        service.attach(Box::new(Answers(true, quick.clone())));
        let asked = || (slow.asked(), quick.asked());
        let [first, second, third] = [(); 3].map(|()| service.begin_flush());
        assert_eq!(asked(), (1, 3));
        assert!(!service.end_flush(second));
        service.ask_flush_of_idle();
        assert_eq!(asked(), (1, 4));
        assert_eq!(quick.answered.load(Ordering::Relaxed), 4, "and what they have is there");
        // It answers what it was asked, and then has the next question.
        slow.answer();
        service.drain();
        assert_eq!(asked(), (2, 4));
        assert!(service.is_flushed(first) && !service.is_flushed(third));
        assert!(service.end_flush(first));
        slow.answer();
        service.drain();
        assert!(service.end_flush(third));
        // Nothing waits any more for what it was asked before.
        for number in 3..5 {
            let flush = service.begin_flush();
            assert_eq!(asked(), (number, number + 2));
            assert!(!service.end_flush(flush));
        }
    }

    #[test]
    fn a_question_that_may_be_lost_is_asked_again_though_somebody_waits_for_its_answer() {
        let said = Arc::<Said>::default();
        let mut producer = AskedProducer::new(Box::new(Answers(false, said.clone())), 0);
        producer.ask(1, 1);
        producer.ask(1, 2);
        assert_eq!(said.asked(), 1);
        producer.asked_at = producer.asked_at.checked_sub(2 * PATIENCE).expect("a clock that was there then");
        producer.ask(1, 1);
        assert_eq!(said.asked(), 1, "by a flush that comes later");
        producer.ask(1, 2);
        producer.ask(1, 3);
        assert_eq!(said.asked(), 2);
    }

    #[test]
    fn late_is_who_has_not_answered_when_a_flush_ends_and_not_who_was_asked_since() {
        let (mut service, said) = (Service::default(), Arc::<Said>::default());
        service.attach(Box::new(Answers(false, said.clone())));
        let has_answered = |service: &Service| service.producers().all(|producer| producer.has_answered);
        let first = service.begin_flush();
        assert!(has_answered(&service), "somebody waits for it");
        said.answer();
        let second = service.begin_flush();
        // As when a long trace's period begins while a session's last flush waits.
        assert!(service.end_flush(first) && has_answered(&service));
        assert!(!service.end_flush(second) && !has_answered(&service));
        let third = service.begin_flush();
        assert!(!has_answered(&service), "nor to what it was asked before");
        said.answer();
        service.drain();
        assert!(has_answered(&service) && service.end_flush(third) && has_answered(&service));
    }

    #[test]
    fn a_flush_does_not_wait_for_those_that_come_behind_it() {
        let mut service = Service::default();
        let [silent, newcomer] = [(); 2].map(|()| Arc::<Said>::default());
        service.attach(Box::new(Answers(false, silent.clone())));
        let flush = service.begin_flush();
        service.attach(Box::new(Answers(false, newcomer.clone())));
        service.drain();
        assert_eq!(newcomer.asked(), 0);
        silent.answer();
        service.drain();
        assert!(service.end_flush(flush));
    }
}
