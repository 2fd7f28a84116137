//! What is on its way to the file's thread: a queue that grows while the file is behind, and then loses its oldest.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Progress;
use super::past::Past;
use crate::export::{PIECE, Piece};
use crate::region_file::Slot;

pub(super) enum Message {
    Piece(Piece),
    /// A piece of a buffer in a file: it stays there until it is in this file. With the number of its packets.
    Slot(Slot, u64),
    Sync,
}

/// What the file's thread does next.
pub(super) struct Next {
    pub(super) message: Message,
    /// What readers need before it, because a file begins or something was given up.
    pub(super) state: Piece,
    /// Whether another file is to begin with it.
    pub(super) begins_file: bool,
    /// Whether something was given up before it.
    pub(super) follows_gap: bool,
}

/// The drain thread's end. Dropping it ends the file's thread once that has taken everything.
pub(super) struct Sender(Arc<Backlog>);

/// The file thread's end. Once it is dropped, what is sent goes nowhere.
pub(super) struct Receiver(Arc<Backlog>);

struct Backlog {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Changed in the order of the queue: by who takes a piece, or gives it up, while the queue is locked.
    past: Mutex<Past>,
    progress: Arc<Progress>,
    /// The most bytes of pieces that may wait.
    limit: usize,
    /// Pieces become no longer than this by being joined.
    piece: usize,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<Message>,
    /// Bytes of the pieces that wait, and of the one that is being written.
    bytes: usize,
    in_hand: usize,
    /// Memory of pieces that were written, for those to come.
    spare: Vec<Vec<u8>>,
    is_ended: bool,
    has_no_receiver: bool,
}

/// Pieces whose memory is kept. If it went to the system, it would be asked for again, page by page.
const SPARE: usize = 8;

pub(super) fn backlog(limit: usize, piece: usize, past: Past, progress: Arc<Progress>) -> (Sender, Receiver) {
    let backlog = Arc::new(Backlog {
        queue: Mutex::default(),
        changed: Condvar::new(),
        past: Mutex::new(past),
        progress,
        // One piece is filled while another is written.
        limit: limit.max(2 * PIECE),
        piece,
    });
    (Sender(backlog.clone()), Receiver(backlog))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sender {
    /// Hands over a piece, for which older ones may have to go; at the session's end it waits for room instead. False:
    /// there is no thread to take it.
    pub(super) fn piece(&self, piece: &mut Piece, waits: bool) -> bool {
        let backlog = &*self.0;
        let mut queue = locked(&backlog.queue);
        let is_too_much = |queue: &Queue| queue.bytes + piece.bytes.len() > backlog.limit;
        while waits && !queue.has_no_receiver && queue.bytes > 0 && is_too_much(&queue) {
            queue = backlog.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.has_no_receiver {
            return false;
        }
        while !waits && is_too_much(&queue) {
            if !backlog.give_up_oldest(&mut queue) {
                break;
            }
        }
        queue.bytes += piece.bytes.len();
        match queue.messages.back_mut() {
            // While the file is behind, short pieces take no more memory than long ones.
            Some(Message::Piece(last)) if last.bytes.len() + piece.bytes.len() <= backlog.piece => {
                last.bytes.append(&mut piece.bytes);
                last.packets += std::mem::take(&mut piece.packets);
            }
            _ => {
                let empty = Piece { bytes: queue.spare.pop().unwrap_or_default(), packets: 0 };
                queue.messages.push_back(Message::Piece(std::mem::replace(piece, empty)));
            }
        }
        backlog.changed.notify_all();
        true
    }

    /// Hands over something that is not given up; false if there is no thread to take it.
    pub(super) fn send(&self, message: Message) -> bool {
        let mut queue = locked(&self.0.queue);
        if !queue.has_no_receiver {
            if let Message::Piece(piece) = &message {
                queue.bytes += piece.bytes.len();
            }
            queue.messages.push_back(message);
            self.0.changed.notify_all();
        }
        !queue.has_no_receiver
    }
}

impl Backlog {
    /// Gives up the oldest piece that waits; false if none does.
    fn give_up_oldest(&self, queue: &mut Queue) -> bool {
        let is_piece = |message: &Message| matches!(message, Message::Piece(_));
        let oldest = queue.messages.iter().position(is_piece).and_then(|at| queue.messages.remove(at));
        let Some(Message::Piece(mut piece)) = oldest else { return false };
        queue.bytes -= piece.bytes.len();
        locked(&self.past).lose(&piece.bytes, &self.progress);
        piece.bytes.clear();
        queue.keep(piece.bytes);
        true
    }
}

impl Queue {
    fn keep(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            // Otherwise one large packet's memory would be kept for every piece to come.
            bytes.shrink_to(2 * PIECE);
            self.spare.push(bytes);
        }
    }
}

impl Receiver {
    /// Waits for what comes next; `None` at the end. `is_due` says whether another file is to begin before so many bytes.
    pub(super) fn next(&self, is_due: impl Fn(usize) -> bool) -> Option<Next> {
        let backlog = &*self.0;
        let mut queue = locked(&backlog.queue);
        let mut message = loop {
            match queue.messages.pop_front() {
                Some(message) => break message,
                None if queue.is_ended => return None,
                None => queue = backlog.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        };
        if let Message::Piece(piece) = &message {
            queue.in_hand = piece.bytes.len();
        }
        let mut past = locked(&backlog.past);
        drop(queue);
        let len = match &message {
            Message::Piece(piece) => Some(piece.bytes.len()),
            Message::Slot(slot, _) => Some(slot.bytes().len()),
            Message::Sync => None,
        };
        let begins_file = len.is_some_and(is_due);
        let (state, follows_gap) = match len {
            Some(_) => past.state(begins_file),
            None => Default::default(),
        };
        match &mut message {
            Message::Piece(piece) => past.pass(piece, &backlog.progress),
            Message::Slot(slot, _) => past.see(slot.bytes(), &backlog.progress),
            Message::Sync => {}
        }
        Some(Next { message, state, begins_file, follows_gap })
    }

    /// Called when a piece was written, or given up: takes its memory back.
    pub(super) fn done(&self, mut piece: Piece) {
        piece.bytes.clear();
        let mut queue = locked(&self.0.queue);
        queue.bytes -= std::mem::take(&mut queue.in_hand);
        queue.keep(piece.bytes);
        self.0.changed.notify_all();
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        locked(&self.0.queue).is_ended = true;
        self.0.changed.notify_all();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        locked(&self.0.queue).has_no_receiver = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// So many packets of a sequence, of 256 bytes each.
    fn piece(packets: u64) -> Piece {
        let packet = [&[0x0A, 0xFD, 0x01, 0x50, 2, 0x22, 0xF8, 0x01][..], &[0; 248]].concat();
        Piece { bytes: packet.repeat(packets as usize), packets }
    }

    fn never(_: usize) -> bool {
        false
    }

    fn packets(next: &Next) -> u64 {
        match &next.message {
            Message::Piece(piece) => piece.packets,
            _ => 0,
        }
    }

    #[test]
    fn the_oldest_of_too_much_is_given_up_and_counted_and_what_follows_knows() {
        let progress = Arc::<Progress>::default();
        let (sender, receiver) = backlog(2 * PIECE, PIECE, Past::default(), progress.clone());
        let most = (PIECE / 256) as u64;
        (0..2).for_each(|_| assert!(sender.piece(&mut piece(most), false)));
        assert_eq!(progress.lost.load(Ordering::Relaxed), 0);
        assert!(sender.piece(&mut piece(10), false) && sender.piece(&mut piece(20), false));
        assert_eq!(progress.lost.load(Ordering::Relaxed), most);
        drop(sender);
        let (first, second) = (receiver.next(never).expect("one"), receiver.next(never).expect("another"));
        assert!(first.follows_gap && !second.follows_gap);
        // Short ones are joined.
        assert_eq!((packets(&first), packets(&second)), (most, 30));
        assert!(receiver.next(never).is_none());
    }

    #[test]
    fn at_the_end_nothing_is_given_up_but_waited_for_unless_nobody_takes_it() {
        let progress = Arc::<Progress>::default();
        let (sender, receiver) = backlog(0, PIECE, Past::default(), progress.clone());
        let taker = thread::spawn(move || {
            for _ in 0..6 {
                thread::sleep(Duration::from_millis(20));
                if let Some(Next { message: Message::Piece(piece), .. }) = receiver.next(never) {
                    receiver.done(piece);
                }
            }
            receiver
        });
        let most = (PIECE / 256) as u64;
        (0..8).for_each(|_| assert!(sender.piece(&mut piece(most), true)));
        drop(taker.join().expect("no panic"));
        assert_eq!(progress.lost.load(Ordering::Relaxed), 0);
        assert!(!sender.piece(&mut piece(most), true) && !sender.send(Message::Sync));
    }

    #[test]
    fn a_large_packet_s_memory_is_not_kept_nor_that_of_very_many() {
        let (sender, receiver) = backlog(usize::MAX, PIECE, Past::default(), Arc::default());
        assert!(sender.send(Message::Piece(Piece { bytes: vec![0; 64 * PIECE], packets: 1 })));
        (0..40)
            .for_each(|_| assert!(sender.send(Message::Piece(Piece { bytes: vec![0; PIECE], packets: 1 }))));
        drop(sender);
        while let Some(Next { message: Message::Piece(piece), .. }) = receiver.next(never) {
            receiver.done(piece);
        }
        let queue = locked(&receiver.0.queue);
        assert!(queue.spare.len() <= SPARE && queue.spare.iter().all(|spare| spare.capacity() <= 2 * PIECE));
        assert_eq!(queue.bytes, 0);
    }
}
