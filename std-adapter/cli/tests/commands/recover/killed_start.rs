//! Files of buffers whose next start was killed.

use crate::trace::scratch;
use crate::{text, tracebuf};

#[test]
fn where_the_last_session_s_buffer_is_after_a_killed_start_is_said() {
    let [file, kept, output] =
        ["x.region", "x.region.previous", "x.pftrace"].map(|name| scratch(&format!("killed_start/{name}")));
    let begun = [b"TRACENEW".to_vec(), vec![0; 8192]].concat();
    let told = format!(
        "it seems that a session's start in it was killed: what was there before is in {}",
        kept.display()
    );
    // Or between its two renames, with nothing under its name.
    let contents = [None, Some(vec![]), Some(begun), Some(vec![0; 1 << 16]), Some(b"somebody's".to_vec())];
    for (is_kept, content) in
        [false, true].into_iter().flat_map(|kept| contents.iter().map(move |all| (kept, all)))
    {
        let [_, _] = [&file, &kept].map(std::fs::remove_file);
        if is_kept {
            std::fs::write(&kept, "what a session left").expect("a file");
        }
        if let Some(content) = content {
            std::fs::write(&file, content).expect("a file");
        }
        let is_told = is_kept && content.as_deref() != Some(b"somebody's");
        for (command, more) in [("recover", true), ("inspect", false)] {
            let mut command = tracebuf(&[command]);
            command.arg(&file);
            if more {
                command.arg("-o").arg(&output);
            }
            let run = command.output().expect("the command");
            let said = text(&run.stderr);
            assert_eq!(run.status.code(), Some(1), "{said}");
            assert_eq!(said.trim_end().ends_with(&format!(": {told}")), is_told, "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
    let _ = std::fs::remove_file(kept);
}
