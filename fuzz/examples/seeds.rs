//! Writes the seeds that are made and not written by hand: `cargo run --example seeds`.

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for (target, name, bytes) in tracebuf_fuzz::seeds::all() {
        fs::create_dir_all(folder.join(target))?;
        fs::write(folder.join(target).join(name), bytes)?;
    }
    Ok(())
}
