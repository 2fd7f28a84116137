//! The board is chosen by the target: its memory for the linker, and a `cfg` for the code.

use std::env;
use std::fs;
use std::path::PathBuf;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(board, values(\"mps2_an386\", \"microbit\"))");
    println!("cargo::rerun-if-changed=build.rs");
    let target = env::var("TARGET").unwrap_or_default();
    let (board, flash, ram) = match target.as_str() {
        "thumbv7em-none-eabihf" => ("mps2_an386", "4M", "4M"),
        "thumbv6m-none-eabi" => ("microbit", "256K", "16K"),
        _ => return,
    };
    let memory = format!(
        "MEMORY {{\n  FLASH : ORIGIN = 0x00000000, LENGTH = {flash}\n  RAM : ORIGIN = 0x20000000, LENGTH = {ram}\n}}\n"
    );
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    fs::write(out.join("memory.x"), memory).expect("the output folder can be written");
    // Programs that do not use one of the interrupts need no handler for it.
    let device = "PROVIDE(Control = DefaultHandler);\nPROVIDE(Sensor = DefaultHandler);\nPROVIDE(Software = DefaultHandler);\n";
    fs::write(out.join("device.x"), device).expect("the output folder can be written");
    println!("cargo::rustc-cfg=board=\"{board}\"");
    println!("cargo::rustc-link-search={}", out.display());
    for argument in ["-Tlink.x", "-Tdefmt.x", "--nmagic"] {
        println!("cargo::rustc-link-arg-bins={argument}");
        println!("cargo::rustc-link-arg-benches={argument}");
    }
}
