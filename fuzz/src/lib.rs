//! Fuzz targets of tracebuf: each is a function of bytes that panics when something is wrong.
//!
//! Under cargo-fuzz they run under libFuzzer; in a plain build they are programs that run the files they are
//! given, and `cargo test` runs their seeds.

pub mod attach;
pub mod commit;
pub mod cost;
pub mod differential;
pub mod ftrace;
pub mod inplace;
pub mod input;
pub mod memory;
pub mod ops;
pub mod receive;
pub mod replay;
pub mod service;
pub mod smb;
pub mod sockets;
pub mod validator;
pub mod vm;

#[cfg(fuzzing)]
pub use libfuzzer_sys;

/// A target: its name, and what it does with an input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 13] = [
    ("ops", ops::run),
    ("commit", commit::run),
    ("smb", smb::run),
    ("validator", validator::run),
    ("replay", replay::run),
    ("attach", attach::run),
    ("differential", differential::run),
    ("receive", receive::run),
    ("sockets", sockets::run),
    ("service", service::run),
    ("ftrace", ftrace::run),
    ("vm", vm::run),
    ("inplace", inplace::run),
];

/// The main function of a target.
#[macro_export]
macro_rules! target {
    ($run:path) => {
        #[cfg(fuzzing)]
        $crate::libfuzzer_sys::fuzz_target!(|data: &[u8]| $run(data));

        #[cfg(not(fuzzing))]
        fn main() -> std::io::Result<()> {
            $crate::run_files(std::env::args_os().skip(1), $run)
        }
    };
}

/// Prints what an input does, if requested: `TRACE=1 cargo run --bin ops FILE`.
pub fn trace(what: impl FnOnce() -> String) {
    if cfg!(not(fuzzing)) && std::env::var_os("TRACE").is_some() {
        println!("{}", what());
    }
}

/// Runs files, and the files in folders.
pub fn run_files<P: AsRef<std::path::Path>>(
    paths: impl IntoIterator<Item = P>,
    run: fn(&[u8]),
) -> std::io::Result<()> {
    for path in paths {
        let path = path.as_ref();
        if path.is_dir() {
            let mut inside =
                std::fs::read_dir(path)?.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
            inside.sort();
            run_files(inside, run)?;
        } else {
            println!("{}", path.display());
            run(&std::fs::read(path)?);
        }
    }
    Ok(())
}
