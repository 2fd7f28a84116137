//! Sets `tracebuf_small` for microcontrollers: see `SMALL` in `src/lib.rs`. With it `tracebuf_size`, if the profile says
//! that code is for flash and not for speed: then even what is called often is not inlined. And `tracebuf_linked` where
//! `linked_name!` has the linker number names: where no loader moves what is not loaded, and addresses have 32 bits. Then
//! `TRACEBUF_BUILD` is another one for each profile, compiler and set of flags.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if std::env::var_os("CARGO_CFG_TARGET_OS").is_some_and(|system| system == "none") {
        println!("cargo::rustc-cfg=tracebuf_small");
        if matches!(arch.as_str(), "arm" | "riscv32") {
            println!("cargo::rustc-cfg=tracebuf_linked");
            // Cargo's name for all of that is in the folder's.
            let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().replace('\x1F', " ");
            let folder = std::env::var_os("OUT_DIR").map(std::path::PathBuf::from).unwrap_or_default();
            let unit = folder.parent().and_then(|unit| unit.file_name()).unwrap_or_default();
            println!("cargo::rustc-env=TRACEBUF_BUILD={} {flags}", unit.to_string_lossy());
        }
        if std::env::var("OPT_LEVEL").is_ok_and(|level| matches!(level.as_str(), "s" | "z")) {
            println!("cargo::rustc-cfg=tracebuf_size");
        }
    }
}
