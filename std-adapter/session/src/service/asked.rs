//! A producer of a session, with the flushes that it was asked for and has answered.

use tracebuf::service::FlushTracker;

use crate::transport::Transport;

/// A producer, and its answers to the session's flushes, whose numbers are its questions.
pub(super) struct AskedProducer {
    pub(super) transport: Box<dyn Transport>,
    pub(super) flushes: FlushTracker,
    /// The last flush that has ended without its answer.
    missed: u64,
}

impl AskedProducer {
    /// One that comes after this flush, which does not wait for it.
    pub(super) const fn new(transport: Box<dyn Transport>, flush: u64) -> Self {
        Self { transport, flushes: FlushTracker::after(flush), missed: 0 }
    }

    pub(super) fn ask(&mut self, flush: u64) {
        if self.flushes.ask(flush) {
            self.transport.ask_flush(flush);
        }
    }

    pub(super) const fn has_answered(&self, flush: u64) -> bool {
        self.flushes.has_answered(flush)
    }

    pub(super) const fn end_flush(&mut self, flush: u64) {
        if !self.has_answered(flush) && flush > self.missed {
            self.missed = flush;
        }
    }

    /// Whether a flush has ended without its answer, which is still missing.
    pub(super) const fn is_late(&self) -> bool {
        !self.has_answered(self.missed)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tracebuf::service::EndpointStats;

    use super::*;
    use crate::service::Service;
    use crate::transport::CentralBuffer;

    /// How often a producer was asked, its last question, and the last that it has answered.
    #[derive(Default)]
    struct Said {
        times: AtomicU64,
        asked: AtomicU64,
        answered: AtomicU64,
    }

    impl Said {
        fn answer(&self) {
            self.answered.store(self.asked.load(Ordering::Relaxed), Ordering::Relaxed);
        }

        fn times(&self) -> u64 {
            self.times.load(Ordering::Relaxed)
        }
    }

    /// A producer that answers at once, or when the test says so.
    struct Answers(bool, Arc<Said>);

    impl Transport for Answers {
        fn drain(&mut self, _: &mut [CentralBuffer], flushes: &mut FlushTracker) {
            if self.0 {
                self.1.answer();
            }
            flushes.answer(self.1.answered.load(Ordering::Relaxed), None);
        }

        fn ask_flush(&mut self, question: u64) {
            self.1.times.fetch_add(1, Ordering::Relaxed);
            self.1.asked.store(question, Ordering::Relaxed);
        }

        fn scrape(&mut self, _: &mut [CentralBuffer]) {}

        fn stats(&self) -> EndpointStats {
            EndpointStats::default()
        }
    }

    #[test]
    fn each_flush_has_its_own_answer_and_who_owes_one_is_not_asked_beside() {
        let (mut service, slow, quick) = (Service::default(), Arc::<Said>::default(), Arc::<Said>::default());
        service.attach(Box::new(Answers(false, slow.clone())));
        service.attach(Box::new(Answers(true, quick.clone())));
        let times = || (slow.times(), quick.times());
        let first = service.begin_flush();
        slow.answer();
        let [second, third] = [(); 2].map(|()| service.begin_flush());
        assert_eq!(times(), (3, 3));
        assert!(service.is_flushed(first) && !service.is_flushed(second));
        assert!(!service.end_flush(second));
        service.ask_flush_of_idle();
        assert_eq!(times(), (3, 4));
        assert_eq!(quick.answered.load(Ordering::Relaxed), 4, "and what they have is there");
        slow.answer();
        service.drain();
        assert!(service.end_flush(first) && service.end_flush(third));
        service.ask_flush_of_idle();
        assert_eq!(times(), (4, 5));
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
        assert_eq!(newcomer.times(), 0);
        silent.answer();
        service.drain();
        assert!(service.end_flush(flush));
    }
}
