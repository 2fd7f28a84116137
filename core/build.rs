//! Sets `tracebuf_small` for microcontrollers: see `SMALL` in `src/lib.rs`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|system| system == "none") {
        println!("cargo::rustc-cfg=tracebuf_small");
    }
}
