//! The seeds, and whatever was found since, run through the targets without a fuzzer.

use std::{fs, io, path::Path};
use tracebuf_fuzz::{TARGETS, attach, sockets};

/// Runs every file of one folder; how many there were.
fn run(folder: &Path, run: fn(&[u8])) -> io::Result<usize> {
    let mut files = fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    files.sort();
    for file in &files {
        println!("{}", file.display());
        run(&fs::read(file)?);
    }
    Ok(files.len())
}

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The seeds of a target whose names are as they should be.
fn seeds(target: &str, is_one: impl Fn(&str) -> bool) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder("seeds").join(target)).expect("seeds").map(|file| file.expect("a seed"));
    let named = files.map(|file| (file.file_name().into_string().expect("text"), file.path()));
    let seeds: Vec<_> = named
        .filter(|(name, _)| is_one(name))
        .map(|(name, path)| (name, fs::read(path).expect("a seed")))
        .collect();
    assert!(seeds.len() >= 4, "{target}");
    seeds
}

#[test]
fn every_target_stands_its_seeds() {
    for (name, target) in TARGETS {
        assert!(run(&folder("seeds").join(name), target).expect("readable seeds") >= 5, "{name}");
    }
}

#[test]
fn every_target_stands_what_fuzzing_left_here() {
    for (name, target) in TARGETS {
        // There is such a folder only where somebody has been fuzzing.
        let _ = run(&folder("corpus").join(name), target);
    }
}

/// Or the target would hear of shared memory that is not there.
#[test]
fn of_programs_that_work_chunks_come_into_the_trace() {
    for (name, bytes) in seeds("sockets", |name| name.ends_with("works") || name.ends_with("patches")) {
        let chunks = sockets::chunks_of(&bytes);
        println!("{name}: {chunks}");
        assert!(chunks >= 2, "{name}");
    }
}

/// Or the target would look at regions in which there is nothing to find.
#[test]
fn of_regions_of_honest_work_packets_come_out() {
    for (name, bytes) in seeds("attach", |name| !name.starts_with("rubbish")) {
        let count = attach::packets_of(&bytes);
        println!("{name}: {count}");
        assert!(count > 0, "{name}");
    }
}

#[test]
fn every_target_stands_the_empty_input_and_simple_ones() {
    for (_, target) in TARGETS {
        target(&[]);
        for byte in 0..=255 {
            target(&[byte; 64]);
        }
    }
}
