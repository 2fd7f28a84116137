//! Recordings of the kernel's ring buffers against the kernel's own text of them, and their traces against those of
//! Perfetto's recorder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tracebuf_conformance::ftrace::{Fixture, MalformedPages, record};
use tracebuf_machine::ftrace::{FtraceReader, TraceFs};

mod kernel_text;
mod layouts;
mod perfetto;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/ftrace").join(name)
}

fn fixture(name: &str) -> Fixture {
    let file = File::open(data(name)).expect("a fixture");
    Fixture::read(file).expect("a sound fixture")
}

/// All fixtures, by the names of their files.
fn fixtures() -> Vec<(String, Fixture)> {
    let entries = fs::read_dir(data("")).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let names = entries.filter_map(|name| name.into_string().ok()).filter(|name| name.ends_with(".tar.gz"));
    let mut all: Vec<_> = names.map(|name| (name.clone(), fixture(&name))).collect();
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    assert!(all.len() >= 9, "fixtures are missing");
    all
}

#[test]
fn malformed_pages_have_the_statuses_that_perfettos_recorder_gives_them() {
    let malformed =
        MalformedPages::read(File::open(data("malformed-1.json.gz")).expect("a file")).expect("a list");
    let mut formats = fixture(&malformed.formats_of);
    assert_eq!(malformed.pages.len(), 23);
    for page in &malformed.pages {
        let outcome = page.decode(&mut formats).expect("formats");
        let status = outcome.status.map(|status| status as u64);
        assert_eq!((status, outcome.events), (page.status, page.events), "{}", page.name);
    }
}

#[test]
fn no_prefix_of_a_page_and_no_flipped_bit_of_it_makes_the_reader_panic_or_write_more_events() {
    let mut fixture = fixture("wide-1.tar.gz");
    let events = fixture.events().to_vec();
    fixture.begin_round(0);
    let mut page = vec![0; 4096];
    fixture.read_page(0, &mut page).expect("a page");
    let mut reader =
        FtraceReader::new(&mut fixture, events.iter().map(String::as_str), true).expect("formats");
    let whole = reader.decode(0, &page, &mut |_| ());
    assert_eq!(whole.status, None);
    for len in (0..page.len()).step_by(7) {
        assert!(reader.decode(0, &page[..len], &mut |_| ()).events <= whole.events);
    }
    for bit in (0..page.len() * 8).step_by(5) {
        page[bit / 8] ^= 1 << (bit % 8);
        // The smallest record takes eight bytes.
        assert!(reader.decode(0, &page, &mut |_| ()).events <= 4080 / 8);
        page[bit / 8] ^= 1 << (bit % 8);
    }
}

/// `cargo test --release -p tracebuf-conformance --test ftrace -- --ignored --nocapture`
#[test]
#[ignore = "it measures"]
fn events_a_second_are_decoded_and_written_by_a_small_part_of_a_core() {
    for name in ["busy-1.tar.gz", "lost-1.tar.gz", "syscalls-1.tar.gz", "wide-1.tar.gz"] {
        for compact in [true, false] {
            let mut fixture = fixture(name);
            let names = fixture.events().to_vec();
            fixture.begin_round(0);
            let mut pages = Vec::new();
            for cpu in fixture.cpus().expect("processors") {
                let mut page = vec![0; 4096];
                while fixture.read_page(cpu, &mut page).is_ok() {
                    pages.push((cpu, page.clone()));
                }
            }
            let mut reader =
                FtraceReader::new(&mut fixture, names.iter().map(String::as_str), compact).expect("formats");
            let (mut events, mut bytes, start) = (0, 0, Instant::now());
            let mut taken = Duration::ZERO;
            while taken < Duration::from_secs(1) {
                for (cpu, page) in &pages {
                    events += reader.decode(*cpu, page, &mut |packet| bytes += packet.len()).events;
                }
                reader.finish(&mut |packet| bytes += packet.len());
                reader.begin_pass(&mut fixture);
                taken = start.elapsed();
            }
            let each = taken.as_nanos() as f64 / events as f64;
            let form = if compact { "compact" } else { "verbose" };
            let of_core = each / 1e9 * 1e5 * 100.0;
            println!(
                "{name} {form}: {each:.0} ns an event, {} bytes; 100,000/s take {of_core:.1} % of a core",
                bytes as u64 / events
            );
        }
    }
}
