//! Sockets, and who may come.

use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tracebuf_ipc::{Connection, ProducerSocket};
use tracebuf_session::{Session, SessionError};

use crate::harness::{PATIENCE, Service, socket_path, waits_for};
use crate::trace::scratch;
use crate::transport::Does;

#[test]
fn nobody_may_record_before_the_session_has_it() {
    let service = Service::start("attached", Session::builder(), ProducerSocket::builder());
    // The session's thread stands still.
    let (go, held) = channel::<()>();
    service.session.attach(Does::new(move |_| held.recv().is_ok())).expect("it runs");
    let path = service.path.clone();
    let opening = thread::spawn(|| Connection::builder().open(path));
    thread::sleep(Duration::from_millis(100));
    assert!(!opening.is_finished());
    drop(go);
    opening.join().expect("no panic").expect("a connection");
}

#[test]
fn more_producers_than_there_are_places_for_are_refused_until_one_goes() {
    let service = Service::start("places", Session::builder(), ProducerSocket::builder().producers(2));
    let open = || Connection::builder().open(&service.path);
    let mut there = vec![open().expect("a place"), open().expect("a place")];
    let error = open().expect_err("none is left").to_string();
    assert!(error.ends_with("the service has 2 producers, as many as it takes"), "{error}");
    assert!(error.contains(&service.path.display().to_string()), "{error}");
    there.pop();
    let mut again = None;
    waits_for("a place is free again", || {
        again = open().ok();
        again.is_some()
    });
    again.expect("a connection").flush(PATIENCE).expect("it answers");
    assert!(there[0].is_connected());
}

#[test]
fn a_socket_that_is_in_use_stays_and_a_file_that_is_none_too() {
    let service = Service::start("in-use", Session::builder(), ProducerSocket::builder());
    let bind = |path: &Path| ProducerSocket::builder().bind(&service.session, path);
    assert!(bind(&service.path).is_err());
    Connection::builder().open(&service.path).expect("it is there");
    assert_eq!(service.socket.producers_seen(), 1, "who looks whether it is in use is no producer");
    let file = scratch("file");
    std::fs::write(&file, "text").expect("a file");
    let copy = socket_path("file");
    std::fs::copy(&file, &copy).expect("a file");
    let error = bind(&copy).expect_err("a file");
    assert!(error.to_string().ends_with("no socket"), "{error}");
    assert_eq!(std::fs::read(&copy).expect("it is there"), b"text");
    assert!(Connection::builder().open(&copy).is_err());
    std::fs::remove_file(copy).expect("it is there");
    // Another's socket, made in place of the one that was removed, stays when the first goes.
    std::fs::remove_file(&service.path).expect("it is there");
    let second = bind(&service.path).expect("nobody has it");
    drop(service.socket);
    Connection::builder().open(&service.path).expect("the second");
    drop(second);
    assert!(!service.path.exists());
    let sizes = [0, 4095, 128 << 20].map(|bytes| {
        ProducerSocket::builder().shared_memory(bytes).bind(&service.session, &service.path).err()
    });
    assert!(sizes.iter().all(|error| matches!(error, Some(SessionError::SharedMemory { .. }))));
}
