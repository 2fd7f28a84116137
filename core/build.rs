//! Sets `tracebuf_small` for microcontrollers: see `SMALL` in `src/lib.rs`. With it `tracebuf_size`, if the profile says
//! that code is for flash and not for speed: then even what is called often is not inlined.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|system| system == "none") {
        println!("cargo::rustc-cfg=tracebuf_small");
        if std::env::var("OPT_LEVEL").is_ok_and(|level| matches!(level.as_str(), "s" | "z")) {
            println!("cargo::rustc-cfg=tracebuf_size");
        }
    }
}
