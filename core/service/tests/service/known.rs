//! What consumers are shown of sessions.

use std::collections::BTreeSet;

use tracebuf::proto::fields::consumer::{
    query_service_state_response, tracing_service_state, tracing_session,
};
use tracebuf::proto::reader::{Fields, message, messages, number};
use tracebuf_service::wire::ProtoBuilder;

use super::clients::{Consumer, replies};
use super::world::World;

/// A user that is not root.
const USER: u32 = 2;

/// Sessions that there were.
#[derive(Default)]
pub struct KnownSessions {
    there: BTreeSet<u64>,
    last: u64,
}

impl KnownSessions {
    /// Looks at them as root and as a user. While sessions may be cloned, there is memory of clones to come.
    pub fn check(&mut self, world: &mut World, may_clone: bool) {
        let all = sessions(world, 0);
        let there: BTreeSet<u64> = all.iter().map(|session| session.id).collect();
        assert_eq!(there.len(), all.len());
        assert!(
            there.difference(&self.there).all(|new| *new > self.last),
            "no number is given again: {there:?} after {:?}",
            self.there
        );
        self.last = there.last().copied().unwrap_or(0).max(self.last);
        self.there = there;
        // Those that are forgotten have their buffers until their files are complete.
        let buffers: usize = all.iter().map(|session| session.buffers).sum();
        assert!(world.memory_in_use().0 >= buffers);
        if !may_clone && world.files.values().all(|file| file.is_complete) {
            assert_eq!(world.memory_in_use().0, buffers, "each buffer has its memory, and nothing else has");
        }
        let of_user: Vec<u64> = sessions(world, USER).iter().map(|session| session.id).collect();
        let expected: Vec<u64> =
            all.iter().filter(|session| session.user == USER).map(|session| session.id).collect();
        assert_eq!(of_user, expected, "a user sees its own, and no others");
    }
}

struct Shown {
    id: u64,
    user: u32,
    buffers: usize,
}

fn state(world: &mut World, user: u32) -> Vec<u8> {
    let mut consumer = Consumer::of(world, user);
    let request = consumer.call(world, "QueryServiceState", &ProtoBuilder::new());
    let answers = replies(world, consumer.connection, request);
    world.hang_up(consumer.connection);
    let parts = answers
        .iter()
        .map(|(_, _, said)| message(said, query_service_state_response::SERVICE_STATE).expect("well-formed"));
    parts.collect::<Vec<_>>().concat()
}

fn sessions(world: &mut World, user: u32) -> Vec<Shown> {
    let state = state(world, user);
    let sessions = messages(&state, tracing_service_state::TRACING_SESSIONS).map(|session| Shown {
        id: number(session, tracing_session::ID).expect("well-formed"),
        user: number(session, tracing_session::CONSUMER_UID).expect("well-formed") as u32,
        buffers: Fields::of(session).filter(|field| field.number == tracing_session::BUFFER_SIZE_KB).count(),
    });
    sessions.collect()
}

/// How many sessions and producers there are.
pub fn left(world: &mut World) -> (u64, usize) {
    let state = state(world, 0);
    let sessions = number(&state, tracing_service_state::NUM_SESSIONS).expect("well-formed");
    (sessions, messages(&state, tracing_service_state::PRODUCERS).count())
}
