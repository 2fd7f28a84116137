//! Sets `tracebuf_small` for microcontrollers: see `SMALL` in `src/lib.rs`. With it `tracebuf_size`, if the profile says
//! that code is for flash and not for speed: then even what is called often is not inlined. And `tracebuf_linked` where
//! `linked_name!` has the linker number names: where no loader moves what is not loaded, and addresses have 32 bits.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if std::env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|system| system == "none") {
        println!("cargo::rustc-cfg=tracebuf_small");
        if matches!(arch.as_str(), "arm" | "riscv32") {
            println!("cargo::rustc-cfg=tracebuf_linked");
        }
        if std::env::var("OPT_LEVEL").is_ok_and(|level| matches!(level.as_str(), "s" | "z")) {
            println!("cargo::rustc-cfg=tracebuf_size");
        }
    }
}
