//! Builds Perfetto's C++ from `perfetto-sdk-sys`, together with a function of ours that runs its service.
//!
//! That crate could build it too, but exposes only what programs need. It is one file of 12 MB, which takes more than a
//! minute: so it is built here, once, as the library that the crate links when it does not build one.

use std::path::{Path, PathBuf};
use std::process::Command;

const SERVICE: &str = "src/service.cc";

fn main() {
    // Lints link nothing. They do not share this package's build with the tests: it would be built twice.
    if std::env::var("RUSTC_WORKSPACE_WRAPPER").is_ok_and(|wrapper| wrapper.contains("clippy")) {
        return;
    }
    let perfetto = sources_of("perfetto-sdk-sys").join("libperfetto_c");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={SERVICE}");
    println!("cargo:rerun-if-env-changed=CXX");
    println!("cargo:rerun-if-env-changed=CXXFLAGS");
    println!("cargo:rerun-if-changed={}", perfetto.display());
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").define("NDEBUG", None).include(perfetto).file(SERVICE);
    // Saves minutes of compiling, and is fast enough unless costs are compared. Warnings are Perfetto's own.
    let level = if variable("PROFILE") == "release" { 2 } else { 0 };
    build.opt_level(level).debug(false).warnings(false).flag_if_supported("-w");
    // The crate links it.
    build.cargo_metadata(false).compile("perfetto_c");
    println!("cargo:rustc-link-search=native={}", variable("OUT_DIR"));
    // After the library, as linkers require.
    println!("cargo:rustc-link-arg=-lstdc++");
}

/// The folder of a crate's sources, wherever cargo keeps it.
fn sources_of(name: &str) -> PathBuf {
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["metadata", "--format-version", "1", "--locked", "--offline"]);
    cargo.args(["--filter-platform", &variable("TARGET")]);
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = String::from_utf8(output.stdout).expect("text");
    // A package begins like this; those that depend on it mention its name, but no version right after it.
    let beginning = format!("{{\"name\":\"{name}\",\"version\":");
    let package = metadata.split(&beginning).nth(1).expect("it is among the packages");
    let manifest = package.split("\"manifest_path\":\"").nth(1).and_then(|rest| rest.split('"').next());
    Path::new(manifest.expect("it has a manifest")).parent().expect("its folder").into()
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
