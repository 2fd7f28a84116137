//! What the service does not do, or not for everybody, and how it says so.

use tracebuf::proto::fields::config::trace_config;
use tracebuf::proto::fields::ipc::{bind_service_reply, chunks_to_move, commit_data_request, method};
use tracebuf::proto::reader::number;
use tracebuf_service::Port;
use tracebuf_service::wire::ProtoBuilder;
use tracebuf_service::wire::frames::{ServiceFrame, bind};
use tracebuf_service::wire::program;

use crate::clients::{Consumer, Program, config_of, send};
use crate::host::SERVICE;
use crate::world::World;

const USER: u32 = 700;

fn locking(mode: u32) -> ProtoBuilder {
    config_of(&[64], &[("events", 0)]).number(trace_config::LOCKDOWN_MODE, mode)
}

/// Whether a program of this user is let in, and how many data sources of it start.
fn comes(world: &mut World, uid: u32) -> (bool, usize) {
    let connected = Program::of(world, uid, "late");
    let is_in = world
        .frames(connected.connection)
        .iter()
        .any(|frame| matches!(ServiceFrame::of(frame), Some(ServiceFrame::Reply(2, Some(_)))));
    world.hang_up(connected.connection);
    if !is_in {
        return (false, 0);
    }
    let mut program = Program::offering(world, uid, &[("events", 0)]);
    let starts = program.starts(world).len();
    world.hang_up(program.connection);
    (true, starts)
}

#[test]
fn lockdown_keeps_other_users_programs_out_until_a_session_ends_it() {
    let mut world = World::default();
    let mut early = Program::offering(&mut world, USER, &[("events", 0)]);
    let mut own = Program::offering(&mut world, SERVICE, &[("events", 0)]);
    let mut locks = Consumer::of(&mut world, 0);
    // One that does not begin locks nothing.
    let wrong = locking(2).message(trace_config::TRACE_FILTER, &ProtoBuilder::new());
    locks.enable(&mut world, &wrong);
    assert_eq!(comes(&mut world, USER), (true, 0));
    locks.enable(&mut world, &locking(2));
    assert_eq!((early.starts(&world).len(), own.starts(&world).len()), (0, 1));
    assert_eq!((comes(&mut world, USER), comes(&mut world, SERVICE)), ((false, 0), (true, 1)));
    assert_eq!(comes(&mut world, 0), (false, 0), "nor root's");
    assert!(world.log.iter().any(|line| line.contains("kept out by lockdown_mode")), "{:?}", world.log);
    early.offer(&mut world, "events", 0);
    assert!(early.starts(&world).is_empty(), "nor what those offer that are there");
    // It goes on after the session, and one that says nothing of it changes nothing.
    world.hang_up(locks.connection);
    let mut consumer = Consumer::of(&mut world, USER);
    consumer.enable(&mut world, &locking(0));
    assert_eq!((comes(&mut world, USER), early.starts(&world).len()), ((false, 0), 0));
    world.hang_up(consumer.connection);
    let mut opens = Consumer::of(&mut world, USER);
    opens.enable(&mut world, &locking(1));
    assert_eq!((comes(&mut world, USER), early.starts(&world).len()), ((true, 1), 2));
}

#[test]
fn a_boost_is_refused_and_said_in_the_error_and_the_log() {
    let mut world = World::default();
    let boost = ProtoBuilder::new().number(1, 2_u32).number(2, 10_u32);
    let config = config_of(&[64], &[]).message(trace_config::PRIORITY_BOOST, &boost);
    let mut consumer = Consumer::of(&mut world, 0);
    let enabled = consumer.enable(&mut world, &config);
    let error = consumer.ended(&world, enabled).expect("it is refused");
    assert_eq!(error, "priority_boost is not supported by this service");
    assert_eq!(world.log, [format!("a session is refused: {error}")]);
}

#[test]
fn relays_are_refused_and_the_log_says_so() {
    for port in [Port::Producers, Port::Consumers] {
        let mut world = World::default();
        let connection = world.connect(port, USER);
        send(&mut world, connection, &bind(7, "RelayPort"), None);
        let [answer] = world.frames(connection) else { panic!("one answer") };
        let Some(ServiceFrame::Bound(bound)) = ServiceFrame::of(answer) else { panic!("{answer:?}") };
        assert_ne!(number(bound, bind_service_reply::SUCCESS), Some(1));
        assert!(
            matches!(&world.log[..], [line] if line.contains("\"RelayPort\"") && line.contains("relays"))
        );
        // A name without end, and one that is no text, do no harm in a log.
        send(&mut world, connection, &bind(8, &"x".repeat(100_000)), None);
        send(&mut world, connection, &bind(9, "a\nb\u{1b}[31m"), None);
        assert!(world.log.iter().all(|line| line.len() < 300 && !line.contains(['\n', '\u{1b}'])));
        assert!(!world.closed.contains(&connection));
    }
}

#[test]
fn a_program_that_shares_no_memory_is_refused_and_others_go_on() {
    let mut world = World::default();
    let mut program = Program::offering(&mut world, USER, &[("events", 0)]);
    let mut other = Program::offering(&mut world, USER, &[("events", 0)]);
    let mut consumer = Consumer::of(&mut world, 0);
    consumer.enable(&mut world, &config_of(&[64], &[("events", 0)]));
    let chunk = ProtoBuilder::new()
        .number(chunks_to_move::TARGET_BUFFER, 1_u32)
        .bytes(chunks_to_move::DATA, &[0; 256]);
    let commit = ProtoBuilder::new().message(commit_data_request::CHUNKS_TO_MOVE, &chunk);
    assert!(!program.call(&mut world, method::COMMIT_DATA, &commit));
    assert!(world.closed.contains(&program.connection));
    assert!(world.log.iter().any(|line| line.contains("without shared memory")), "{:?}", world.log);
    assert!(other.call(&mut world, method::COMMIT_DATA, &program::push_flush(ProtoBuilder::new(), 1)));
}
