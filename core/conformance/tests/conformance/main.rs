//! The conformance set: every script is replayed, and a judge checks what came out.
//!
//! One test for each script and judge; the name gives both, such as `truth/wrap-101: the invariants hold`.

mod compare;
mod data;
mod truth;

use std::process::ExitCode;

use compare::compare;
use data::{Case, Files, cases, check_numbers};
use libtest_mimic::{Arguments, Failed, Trial};
use tracebuf_conformance::replay::Replay;
use truth::{Truth, Verdict, judge};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let (cases, mut trials) = (cases(), Vec::new());
    for case in &cases {
        let title = |judge: &str| format!("{}/{}: {judge}", case.class.folder, case.name);
        let of = case.clone();
        trials.push(Trial::test(title("its files are there"), move || Ok(of.check_files()?)));
        if case.class.has_expected() {
            let of = case.clone();
            trials.push(Trial::test(title("the output is the reference's"), move || as_the_reference(&of)));
        }
        if case.class.has_truth() {
            let of = case.clone();
            trials.push(Trial::test(title("the invariants hold"), move || invariants(&of)));
        }
    }
    trials.push(Trial::test("all: no script is missing", move || Ok(check_numbers(&cases)?)));
    trials.push(Trial::test("all: as many packets are kept as the reference keeps", keeps_overall));
    trials.extend(judges_own_tests());
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn replay(files: &Files) -> Result<String, Failed> {
    let mut output = Vec::new();
    Replay::new(&mut output).run(files.script()?)?;
    Ok(String::from_utf8(output)?)
}

fn as_the_reference(case: &Case) -> Result<(), Failed> {
    let files = case.files();
    Ok(compare(case.class.name, files.expected()?, &replay(&files)?)?)
}

fn truth_of(files: &Files) -> Result<Truth, Failed> {
    Ok(serde_json::from_slice(files.truth()?)?)
}

fn verdict(files: &Files) -> Result<Verdict, Failed> {
    Ok(judge(&truth_of(files)?, &replay(files)?))
}

/// The invariants, and at least 95% of the packets that the reference keeps, less five: chunks that have another size
/// in memory are overwritten a little earlier or later.
fn invariants(case: &Case) -> Result<(), Failed> {
    let files = case.files();
    let truth = truth_of(&files)?;
    // The judge goes by the class that the truth names.
    truth.check_class(case.class.folder, case.class.name)?;
    let verdict = judge(&truth, &replay(&files)?);
    verdict.result()?;
    if !case.class.has_reference_keeps() {
        return Ok(());
    }
    let (seen, reference) = (verdict.seen, files.reference_keeps()?);
    if seen * 100 + 500 < reference * 95 {
        return Err(format!("{seen} packets were kept, the reference keeps {reference}").into());
    }
    Ok(())
}

/// At least 98% of what the reference keeps, summed over all scripts.
fn keeps_overall() -> Result<(), Failed> {
    let (mut ours, mut reference) = (0, 0);
    for case in cases().iter().filter(|case| case.class.has_reference_keeps()) {
        let files = case.files();
        ours += verdict(&files)?.seen;
        reference += files.reference_keeps()?;
    }
    if ours * 100 < reference * 98 {
        return Err(format!("{ours} packets were kept, the reference keeps {reference}").into());
    }
    Ok(())
}

/// A judge that lets everything pass would look like success, so each invariant is broken once.
fn judges_own_tests() -> Vec<Trial> {
    const PERFECT: &str = "pkt 1 2 0 0 0 1 aa\npkt 1 2 0 0 0 1 bb\npkt 1 2 0 0 0 1 cc\nend\n";
    let broken: [(&str, String, &[&str]); 8] = [
        ("nothing broken", PERFECT.to_owned(), &[]),
        ("a loss that is flagged", "pkt 1 2 0 0 0 1 aa\npkt 1 2 0 0 3 1 cc\nend\n".to_owned(), &["complete"]),
        ("a packet never written", PERFECT.replace("bb", "bd"), &["intact", "noticed"]),
        ("a packet twice", PERFECT.replace("cc", "bb"), &["once"]),
        ("packets out of order", PERFECT.replace("cc", "aa"), &["fifo"]),
        (
            "a loss that is not flagged",
            PERFECT.replace("aa\npkt 1 2 0 0 0 1 bb", "aa"),
            &["complete", "noticed"],
        ),
        ("a flag without a loss", PERFECT.replace("0 1 bb", "3 1 bb"), &["truthful"]),
        ("a packet that had to come out", PERFECT.replace("0 1 cc", "0 1 bb"), &["once", "recovered"]),
    ];
    let truth = |must: &str| -> Truth {
        let json =
            format!(r#"{{"class":"gaps","packets":{{"1/2":["aa","bb","cc"]}},"must":{{"1/2":{must}}}}}"#);
        serde_json::from_str(&json).expect("a truth")
    };
    let mut trials = Vec::new();
    for (what, output, expected) in broken {
        let truth = truth(if expected.contains(&"recovered") { "[2]" } else { "[]" });
        trials.push(Trial::test(format!("the judge of truth sees {what}"), move || {
            let broken = judge(&truth, &output).broken();
            if broken == expected { Ok(()) } else { Err(format!("saw {broken:?}").into()) }
        }));
    }
    trials.push(Trial::test("the judge of outputs sees a mask, a counter and a missing row", || {
        const OUTPUT: &str = "ok\npkt 1 2 0 0 0 1 aa\nstats chunks_read=1\nend\n";
        compare("clean", OUTPUT, OUTPUT)?;
        for (from, to) in [("0 1 aa", "3 1 aa"), ("aa", "ab"), ("read=1", "read=2"), ("end\n", "")] {
            if compare("clean", OUTPUT, &OUTPUT.replace(from, to)).is_ok() {
                return Err(format!("{to} in the place of {from} was not seen").into());
            }
        }
        Ok(())
    }));
    trials
}
