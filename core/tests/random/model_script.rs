//! Runs one script on the model: `TRACEBUF_SCRIPT=in TRACEBUF_OUTPUT=out`.

#[test]
fn the_model_runs_the_script_that_the_environment_names() {
    let Ok(script) = std::env::var("TRACEBUF_SCRIPT") else { return };
    let output = std::env::var("TRACEBUF_OUTPUT").unwrap_or_else(|_| "/dev/stdout".into());
    let script = std::fs::read_to_string(script).expect("a script");
    std::fs::write(output, crate::support::script::run(&script).expect("well-formed")).expect("written");
}
