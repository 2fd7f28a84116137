//! Which session a clone is of, and who may have one.

use tracebuf::proto::fields::config::trace_config;
use tracebuf_service::wire::ProtoBuilder;

use crate::clients::{Consumer, config_of};
use crate::clones::{USER, answered, buffer, by_id, by_name, refused, setting};
use crate::world::World;

#[test]
fn sessions_of_other_users_those_with_files_and_those_that_are_not_there_cannot_be_cloned() {
    let mut all =
        setting(&[buffer()], &ProtoBuilder::new().bytes(trace_config::UNIQUE_SESSION_NAME, b"mine"));
    let world = &mut all.world;
    for arguments in [by_id(1), by_name("mine"), by_id(u64::MAX)] {
        assert!(refused(world, USER + 1, &arguments).contains("no such session"));
    }
    for arguments in [by_id(0), by_id(7), by_name("min"), by_id(u64::MAX), ProtoBuilder::new()] {
        assert!(refused(world, USER, &arguments).contains("no such session"), "without a score");
    }
    let mut root = Consumer::of(world, 0);
    let request = root.call(world, "CloneSession", &by_id(1));
    world.pass(5000);
    assert!(answered(world, &root, request).expect("now").is_ok(), "root may");
    let config = config_of(&[64], &[])
        .number(trace_config::WRITE_INTO_FILE, true)
        .number(trace_config::BUGREPORT_SCORE, 5_u32);
    let mut writes = Consumer::of(world, USER);
    let file = world.file();
    writes.enable_with(world, &config, Some(file));
    assert!(refused(world, USER, &by_id(u64::MAX)).contains("file descriptor is required"));
    let mut sender = Consumer::of(world, USER);
    let file = world.file();
    sender.call_with(world, "CloneSession", &by_id(7), Some(file));
    assert!(world.discarded.contains(&file), "a descriptor is closed");
}

#[test]
fn the_clone_for_a_bug_report_is_of_the_session_with_the_highest_score_that_is_above_nought() {
    let mut world = World::default();
    // They are kept: who hangs up ends its session.
    let _consumers = [(7_u64, 1_u32), (-1_i64 as u64, 2), (3, 3)].map(|(score, lsb)| {
        let mut consumer = Consumer::of(&mut world, USER);
        let config = config_of(&[64], &[])
            .number(trace_config::BUGREPORT_SCORE, score)
            .number(trace_config::TRACE_UUID_LSB, lsb);
        consumer.enable(&mut world, &config);
        consumer
    });
    let mut clone = || {
        let mut consumer = Consumer::of(&mut world, USER);
        let request = consumer.call(&mut world, "CloneSession", &by_id(u64::MAX));
        world.pass(5000);
        answered(&world, &consumer, request).expect("now").map(|[_, lsb]| lsb)
    };
    assert_eq!(clone(), Ok(1));
}
