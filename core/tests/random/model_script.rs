//! Runs one script on the model, by hand, to compare what comes out with what the buffer or the reference gives:
//! `TRACEBUF_SCRIPT=in TRACEBUF_OUTPUT=out cargo test -p tracebuf --test random -- --ignored model_script`.

use crate::support::script;

#[test]
#[ignore = "a tool: TRACEBUF_SCRIPT names the script, TRACEBUF_OUTPUT the file for what comes out"]
fn the_model_runs_the_script_that_the_environment_names() {
    let path = std::env::var("TRACEBUF_SCRIPT").expect("TRACEBUF_SCRIPT names a script (.tbops)");
    let output = std::env::var("TRACEBUF_OUTPUT").unwrap_or_else(|_| "/dev/stdout".into());
    let text = std::fs::read_to_string(path).expect("a script");
    std::fs::write(output, script::run(&text).expect("well-formed")).expect("written");
}
