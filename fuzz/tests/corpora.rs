//! The seeds, and whatever was found since, run through the targets without a fuzzer.

use std::{fs, io, path::Path};
use tracebuf_fuzz::{TARGETS, attach, seeds, sockets};

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

#[test]
fn the_seeds_are_those_that_the_generator_makes() {
    for (target, name, bytes) in seeds::all() {
        let file = folder("seeds").join(target).join(&name);
        assert_eq!(fs::read(&file).ok(), Some(bytes), "{}", file.display());
    }
}

/// Or the target would hear of shared memory that is not there.
#[test]
fn of_programs_that_work_chunks_come_into_the_trace() {
    let programs = seeds::all().into_iter().filter(|(target, ..)| *target == "sockets");
    for (_, name, bytes) in
        programs.filter(|(_, name, _)| name.ends_with("works") || name.ends_with("patches"))
    {
        let chunks = sockets::chunks_of(&bytes);
        println!("{name}: {chunks}");
        assert!(chunks >= 2, "{name}");
    }
}

/// Or the target would look at regions in which there is nothing to find.
#[test]
fn of_regions_of_honest_work_packets_come_out() {
    let attach = seeds::all().into_iter().filter(|(target, ..)| *target == "attach");
    for (_, name, bytes) in attach.filter(|(_, name, _)| !name.starts_with("rubbish")) {
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
