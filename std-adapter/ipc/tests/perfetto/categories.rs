//! Categories that a service wants of a program of this crate, which has a relay for each.

use tracebuf_ipc::{Connection, PerfettoSocket};
use tracebuf_session::{Relay, Session};

use crate::following::{CATEGORIES, Call, Listening, STARTED, STOPPED, memory};
use crate::program::{Message, REGISTER_WRITER, Service, waits_for};
use crate::trace::number;

/// A field of DataSourceConfig.
const TRACK_EVENT_CONFIG: u32 = 113;

/// Enables these categories, and disables those.
fn config(enabled: &[&str], disabled: &[&str]) -> Message {
    let add = |lists: Message, (field, name): (u32, &&str)| lists.bytes(field, name.as_bytes());
    let all = enabled.iter().map(|name| (2, name)).chain(disabled.iter().map(|name| (1, name)));
    Message::default().message(TRACK_EVENT_CONFIG, &all.fold(Message::default(), add))
}

#[test]
fn each_session_has_the_relays_connected_whose_categories_it_wants() {
    let sessions = [
        (config(&["net"], &["*"]), [true, false]),
        (config(&["ren*"], &["*"]), [false, true]),
        (config(&[], &["*"]), [false, false]),
        (Message::default(), [true, true]),
        // Malformed.
        (Message::default().bytes(TRACK_EVENT_CONFIG, b"\x0A\x01*\x0A\x05n"), [true, true]),
    ];
    let (listening, relays) = (Listening::at("categories"), CATEGORIES.map(|name| (name, Relay::new())));
    let connected = relays.clone();
    let following = listening.followed_with(move |service| {
        for (category, relay) in &connected {
            if service.wants(category) {
                relay.connect(&service.recorder())?;
            }
        }
        Ok(())
    });
    let recorders = relays.each_ref().map(|(_, relay)| relay.recorder());
    for (config, expected) in sessions {
        let mut service = listening.accept();
        service.ready();
        service.memory(&memory(true), 4);
        service.start_with(7, 1, config);
        service.hears(STARTED);
        assert_eq!(relays.each_ref().map(|(_, relay)| relay.is_connected()), expected);
        recorders.iter().for_each(|recorder| recorder.instant("event"));
        if expected != [false; 2] {
            // One writer for the thread, whichever relays it records with.
            service.hears(REGISTER_WRITER);
        }
        service.of_instance(2, 7);
        let is_stopped = |call: &Call| {
            assert_ne!(call.method, REGISTER_WRITER);
            call.method == STOPPED && number(&call.arguments, 1) == Some(7)
        };
        let moved = service.moved_until(1, is_stopped);
        assert_eq!(moved, 0, "the service takes what is in chunks that have begun");
        assert!(recorders.iter().all(|recorder| !recorder.is_on()));
    }
    // Nobody answers it any more.
    drop(listening);
    drop(following.join().expect("it is there"));
}

#[test]
fn as_many_categories_are_told_as_a_message_has_room_for() {
    let service = Service::start("named", Session::builder(), PerfettoSocket::builder());
    let name = "x".repeat(1000);
    let follow = |count| {
        let builder = Connection::builder().categories(vec![&*name; count]);
        builder.follow_perfetto(&service.path, |_| Ok(()))
    };
    let follower = follow(129).expect("it is not too long");
    waits_for("it has come", || follower.is_connected());
    let error = follow(131).expect_err("the service would end the connection").to_string();
    assert!(error.contains("categories"), "{error}");
}
