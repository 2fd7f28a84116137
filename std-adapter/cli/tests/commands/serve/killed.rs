//! `kill -9` of producers, consumers and the service, at any moment.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tracebuf::proto::TracePackets;
use tracebuf::proto::fields::config::trace_config;
use tracebuf::proto::fields::trace_packet;
use tracebuf::proto::reader::{message, number};
use tracebuf_ipc::Connection;
use tracebuf_session::Relay;

use super::{Consumer, Service, track_events};
use crate::mix::mix;
use crate::wait_until;

/// Kills, unless `TRACEBUF_KILLS` says how many.
const KILLS: u64 = 50;
const PROGRAMS: usize = 2;
/// Says to a child where the sockets are, and which file its session has.
const FOLDER: &str = "TRACEBUF_KILLED_FOLDER";
const FILE: &str = "TRACEBUF_KILLED_FILE";

/// This program again, as one of the tests below.
fn child(test: &str, folder: &Path, file: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "--ignored", "--nocapture", &format!("serve::killed::{test}")]);
    command.env(FOLDER, folder).env(FILE, file).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("it starts")
}

fn told(variable: &str) -> Option<PathBuf> {
    Some(PathBuf::from(std::env::var_os(variable)?))
}

#[test]
#[ignore = "run by the last test, to be killed"]
fn records_until_it_is_killed() {
    let Some(folder) = told(FOLDER) else { return };
    let relay = Relay::new();
    let recorder = relay.recorder();
    let connected = move |service: &Connection| relay.connect(&service.recorder());
    let _follower = Connection::builder().follow_perfetto(folder.join("p"), connected).expect("a thread");
    for number in 0_u64.. {
        recorder.instant_with("event", |event| event.arg("number", number));
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
#[ignore = "run by the last test, to be killed"]
fn has_a_file_written_until_it_is_killed() {
    let (Some(folder), Some(file)) = (told(FOLDER), told(FILE)) else { return };
    let mut consumer = Consumer::connect(&folder.join("c"));
    let config = track_events()
        .number(trace_config::WRITE_INTO_FILE, true)
        .number(trace_config::FILE_WRITE_PERIOD_MS, 100_u32)
        .number(trace_config::WRITE_FLUSH_MODE, 3_u32); // before each write
    let enabled = consumer.enable(&config, Some(&File::create(file).expect("room")));
    consumer.answers(enabled);
}

/// The processes that have events in a file, all packets of which are whole.
fn recorded(file: &Path, what: &str) -> Vec<u64> {
    let bytes = std::fs::read(file).unwrap_or_default();
    let packets: Vec<&[u8]> = TracePackets::new(&bytes)
        .map(|packet| packet.unwrap_or_else(|error| panic!("{what}: {error:?}")))
        .collect();
    let events = packets
        .iter()
        .filter(|packet| message(packet, trace_packet::TRACK_EVENT).expect("a whole packet").len() > 4);
    let mut pids: Vec<_> = events.filter_map(|packet| number(packet, trace_packet::TRUSTED_PID)).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

#[test]
#[ignore = "takes more than five seconds"]
fn whoever_is_killed_files_have_whole_packets_and_those_who_live_go_on() {
    let kills = std::env::var("TRACEBUF_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let mut service = Service::start("serve-killed");
    let folder = service.folder.clone();
    let file = |round: u64| folder.join(format!("{round}.pftrace"));
    let mut programs = [(); PROGRAMS].map(|()| child("records_until_it_is_killed", &folder, &folder));
    let mut consumer = child("has_a_file_written_until_it_is_killed", &folder, &file(0));
    for round in 0..kills {
        let chance = mix(round);
        let everybody = |programs: &[Child], file: &Path| {
            let wanted: Vec<u64> = programs.iter().map(|program| program.id().into()).collect();
            // What is read while it is written is not of one moment, and not judged.
            let bytes = std::fs::read(file).unwrap_or_default();
            let packets = TracePackets::new(&bytes).map_while(Result::ok);
            let pids: Vec<_> =
                packets.filter_map(|packet| number(packet, trace_packet::TRUSTED_PID)).collect();
            wanted.iter().all(|pid| pids.contains(pid))
        };
        let now = file(round);
        assert!(wait_until(60, || everybody(&programs, &now)), "round {round}: all are in {}", now.display());
        std::thread::sleep(Duration::from_micros(chance % 150_000));
        let what = match chance >> 32 & 3 {
            0 => {
                kill(&mut consumer);
                "a consumer"
            }
            1 => {
                service.kill();
                // Nobody has taken the sockets away.
                assert!(folder.join("p").exists() && folder.join("c").exists());
                service.child = Service::command(&folder).spawn().expect("the command");
                service = service.listening();
                "the service"
            }
            _ => {
                let program = &mut programs[chance as usize >> 8 & 1];
                kill(program);
                *program = child("records_until_it_is_killed", &folder, &folder);
                "a program"
            }
        };
        // A session whose consumer is gone ends, and its file is complete when it has statistics.
        if what != "the service" {
            kill(&mut consumer);
            let is_complete = || {
                let bytes = std::fs::read(&now).unwrap_or_default();
                let last = TracePackets::new(&bytes).last();
                let stats =
                    last.and_then(Result::ok).and_then(|last| message(last, trace_packet::TRACE_STATS));
                stats.is_some_and(|stats| !stats.is_empty())
            };
            assert!(wait_until(30, is_complete), "round {round}, {what} was killed: it is completed");
        }
        kill(&mut consumer);
        let pids = recorded(&now, &format!("round {round}, {what} was killed"));
        assert!(!pids.is_empty(), "round {round}");
        let _ = std::fs::remove_file(&now);
        consumer = child("has_a_file_written_until_it_is_killed", &folder, &file(round + 1));
    }
    kill(&mut consumer);
    programs.iter_mut().for_each(kill);
    // It is as the kill has left it.
    let _ = std::fs::remove_file(file(kills));
}
