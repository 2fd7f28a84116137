//! Questions to a producer for all that it has, and its answers: [`FlushTracker`].

use crate::wrapping::{is_after, is_reached};

/// The questions that one producer was asked, and which of them it has answered.
///
/// A service that wants everything that is complete in a producer's shared memory, for a snapshot or at its end, sends
/// a *question*: a number of its own, higher each time. The producer calls
/// [`Producer::flush`](crate::producer::Producer::flush) and answers with the question and that flush's number. The
/// question is answered once the answer has come and the flush was carried out: either may come first, because another
/// thread of the producer may be sending just then. An answer holds for all earlier questions too.
///
/// A service with several producers can give all of them the same numbers: those of its own flushes. Several may be
/// under way at once, each with its own question.
///
/// ```
/// use tracebuf::service::FlushTracker;
///
/// let mut flushes = FlushTracker::new();
/// flushes.ask(1); // and the question goes to the producer
/// flushes.ask(2); // somebody else wants a flush meanwhile
///
/// flushes.answer(1, Some(7)); // says the producer,
/// assert!(!flushes.has_answered(1)); // whose flush 7 is still on its way
/// flushes.carried_out(7); // what `ProducerEndpoint::carry_out_one` has returned
/// assert!(flushes.has_answered(1) && !flushes.has_answered(2));
/// ```
///
/// Where answers come behind all that belongs to them, as in Perfetto's protocol, they name no flush:
/// `answer(question, None)`. A producer that has to say so itself has a tracker too, and tells the service of what is
/// [answered](Self::answered).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlushTracker {
    asked: u64,
    answered: u64,
    /// The producer's last flush that was carried out.
    done: Option<u32>,
    /// Answers whose flush is on its way, by their questions: the oldest, so that it does not wait for later ones, and
    /// the newest, which holds for all between.
    waiting: [Option<Waiting>; 2],
}

/// An answer that has overtaken its flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiting {
    question: u64,
    flush: u32,
}

impl FlushTracker {
    /// A producer that was asked nothing. Questions are numbered from 1.
    pub const fn new() -> Self {
        Self::after(0)
    }

    /// A producer that came after this question, and all before it: nothing waits for its answer to them.
    pub const fn after(question: u64) -> Self {
        Self { asked: question, answered: question, done: None, waiting: [None; 2] }
    }

    /// Notes that a question is sent. False, and it need not be sent, if this one or a later one was before.
    pub const fn ask(&mut self, question: u64) -> bool {
        let is_new = question > self.asked;
        if is_new {
            self.asked = question;
        }
        is_new
    }

    /// Notes that the producer has answered a question: all that belongs to the answer has come once this flush of the
    /// producer was carried out, or has come already. What was not asked has no answer: it is ignored.
    pub fn answer(&mut self, question: u64, flush: Option<u32>) {
        if question > self.asked || question <= self.answered {
            return;
        }
        match flush {
            Some(flush) if !self.is_carried_out(flush) => self.wait(Waiting { question, flush }),
            _ => self.set_answered(question),
        }
    }

    /// Notes that the producer has answered all that it was asked: for one that keeps nothing back.
    pub fn answer_all(&mut self) {
        self.set_answered(self.asked);
    }

    fn wait(&mut self, answer: Waiting) {
        self.waiting = match self.waiting {
            [None, _] => [Some(answer), None],
            [Some(oldest), newest] if answer.question < oldest.question => {
                [Some(answer), newest.or(Some(oldest))]
            }
            [Some(oldest), None] if answer.question > oldest.question => [Some(oldest), Some(answer)],
            [oldest, Some(newest)] if answer.question > newest.question => [oldest, Some(answer)],
            // There is one for the same question, or a later one for this too.
            as_it_is => as_it_is,
        };
    }

    /// Notes that a flush of the producer was carried out, and with it all that the producer had sent before.
    pub fn carried_out(&mut self, flush: u32) {
        if self.done.is_none_or(|done| is_after(flush, done)) {
            self.done = Some(flush);
        }
        for answer in self.waiting.into_iter().flatten() {
            if self.is_carried_out(answer.flush) {
                self.set_answered(answer.question);
            }
        }
    }

    fn set_answered(&mut self, question: u64) {
        self.answered = self.answered.max(question);
        let answered = self.answered;
        let [oldest, newest] = self.waiting.map(|waiting| waiting.filter(|it| it.question > answered));
        self.waiting = if oldest.is_some() { [oldest, newest] } else { [newest, None] };
    }

    /// Whether this flush of the producer, or a later one, was carried out.
    pub const fn is_carried_out(&self, flush: u32) -> bool {
        match self.done {
            Some(done) => is_reached(done, flush),
            None => false,
        }
    }

    /// The last question that was asked.
    pub const fn asked(&self) -> u64 {
        self.asked
    }

    /// The last question that is answered.
    pub const fn answered(&self) -> u64 {
        self.answered
    }

    /// Whether everything that belongs to this question has come.
    pub const fn has_answered(&self, question: u64) -> bool {
        self.answered >= question
    }

    /// Whether no question waits for its answer.
    pub const fn is_idle(&self) -> bool {
        self.answered == self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A producer that was asked questions 1 to `last`.
    fn asked(last: u64) -> FlushTracker {
        let mut flushes = FlushTracker::new();
        (1..=last).for_each(|question| assert!(flushes.ask(question)));
        flushes
    }

    #[test]
    fn a_question_is_answered_when_the_answer_and_its_flush_have_come_in_whichever_order() {
        let mut flushes = asked(1);
        assert!(!flushes.is_idle());
        flushes.carried_out(1);
        assert!(!flushes.has_answered(1), "a flush without an answer is somebody else's");
        flushes.answer(1, Some(3));
        assert!(!flushes.has_answered(1), "it has overtaken its flush");
        flushes.carried_out(3);
        assert!(flushes.has_answered(1) && flushes.is_idle());
        flushes.ask(2);
        flushes.carried_out(5);
        flushes.answer(2, Some(3));
        assert!(flushes.has_answered(2), "its flush, or a later one");
        flushes.ask(3);
        flushes.answer(3, None);
        assert!(flushes.has_answered(3));
    }

    #[test]
    fn of_two_flushes_at_once_each_has_its_own_answer() {
        let mut flushes = asked(2);
        flushes.answer(1, Some(1));
        flushes.answer(2, Some(3));
        assert_eq!(flushes.answered(), 0);
        flushes.carried_out(1);
        assert_eq!(flushes.answered(), 1);
        flushes.carried_out(3);
        assert_eq!(flushes.answered(), 2);
    }

    #[test]
    fn an_answer_holds_for_the_questions_before_it_and_one_that_is_late_for_none_after_it() {
        let mut flushes = asked(3);
        flushes.answer(2, None);
        assert!(flushes.has_answered(1) && flushes.has_answered(2) && !flushes.has_answered(3));
        flushes.answer(1, Some(9));
        assert_eq!(flushes, FlushTracker { asked: 3, answered: 2, ..FlushTracker::new() });
    }

    #[test]
    fn answers_out_of_order_wait_each_for_its_flush() {
        for answers in [[(1, 1), (2, 3)], [(2, 3), (1, 1)]] {
            let mut flushes = asked(2);
            answers.into_iter().for_each(|(question, flush)| flushes.answer(question, Some(flush)));
            flushes.carried_out(1);
            assert_eq!(flushes.answered(), 1);
            flushes.carried_out(3);
            assert_eq!(flushes.answered(), 2);
        }
        // The later question's flush comes first, and then the earlier one waits for nothing.
        let mut flushes = asked(2);
        flushes.answer(1, Some(3));
        flushes.answer(2, Some(1));
        flushes.carried_out(1);
        assert!(flushes.has_answered(1) && flushes.is_idle());
    }

    #[test]
    fn however_many_answers_wait_the_oldest_does_not_wait_for_the_others() {
        for order in [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1], [3, 1, 5, 2, 4]] {
            let mut flushes = asked(5);
            order.into_iter().for_each(|question| flushes.answer(question.into(), Some(2 * question - 1)));
            flushes.carried_out(1);
            assert_eq!(flushes.answered(), 1, "{order:?}");
            flushes.carried_out(7);
            assert_eq!(flushes.answered(), 1, "the newest has those between");
            flushes.carried_out(9);
            assert!(flushes.is_idle());
        }
    }

    #[test]
    fn what_was_not_asked_has_no_answer_and_a_newcomer_answers_nothing_that_was_asked_before() {
        let mut flushes = FlushTracker::after(5);
        assert!(flushes.has_answered(5) && flushes.is_idle() && !flushes.ask(5));
        flushes.answer(6, None);
        assert!(!flushes.has_answered(6));
        assert!(flushes.ask(7) && !flushes.ask(6));
        flushes.answer(u64::MAX, Some(1));
        flushes.answer(u64::MAX, None);
        flushes.carried_out(1);
        assert!(!flushes.has_answered(6) && !flushes.is_idle());
        flushes.answer_all();
        assert_eq!((flushes.answered(), flushes.asked()), (7, 7));
    }

    #[test]
    fn numbers_of_a_producers_flushes_wrap_around() {
        let mut flushes = asked(2);
        flushes.answer(1, Some(u32::MAX));
        flushes.answer(2, Some(1));
        flushes.carried_out(u32::MAX - 2);
        assert_eq!(flushes.answered(), 0);
        flushes.carried_out(u32::MAX);
        assert_eq!(flushes.answered(), 1);
        flushes.carried_out(1);
        flushes.carried_out(u32::MAX);
        assert!(flushes.is_idle() && flushes.is_carried_out(1) && !flushes.is_carried_out(3));
    }
}
