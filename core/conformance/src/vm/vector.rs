//! Vectors: a program, patches, and the state after each, as lines of text.

use std::fmt::Write;

use tracebuf::vm::{Limits, Program, StackFrame, Step, Vm, VmStatus};

/// A patch and what must come of it.
#[derive(Debug)]
pub struct Case {
    /// The packet.
    pub patch: Vec<u8>,
    /// `ok`, `error` or `abort`.
    pub status: String,
    /// The state after it.
    pub state: Vec<u8>,
}

/// A vector.
#[derive(Debug)]
pub struct Vector {
    /// Its name.
    pub name: String,
    /// Bytes that its states and patches may take, by an account of 48 bytes and more for a node.
    pub limit: usize,
    /// The program.
    pub program: Vec<u8>,
    /// The state at the beginning, if one is loaded.
    pub state: Option<Vec<u8>>,
    /// The patches, in order.
    pub cases: Vec<Case>,
}

impl Vector {
    /// Reads a vector. Of a patch's results, the one that is expected of us counts: line `T`, or else `R`.
    ///
    /// # Errors
    /// The line that is malformed, and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut vector =
            Self { name: String::new(), limit: 0, program: Vec::new(), state: None, cases: Vec::new() };
        let mut lines = text.lines().enumerate();
        if lines.next().is_none_or(|(_, line)| line != "pvm 1") {
            return Err("line 1: not a vector".into());
        }
        for (index, line) in lines {
            let wrong = |why: &str| format!("line {}: {why}", index + 1);
            let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
            let bytes = |text| unhex(text).ok_or_else(|| wrong("not hexadecimal"));
            match word {
                "name" => vector.name = rest.into(),
                "limit" => vector.limit = rest.parse().map_err(|_| wrong("not a number"))?,
                "program" => vector.program = bytes(rest)?,
                "state" => vector.state = if rest == "none" { None } else { Some(bytes(rest)?) },
                "P" => {
                    let patch = bytes(rest)?;
                    vector.cases.push(Case { patch, status: String::new(), state: Vec::new() });
                }
                "R" | "T" => {
                    let (status, state) = rest.split_once(' ').ok_or_else(|| wrong("no state"))?;
                    let case = vector.cases.last_mut().ok_or_else(|| wrong("no patch before it"))?;
                    (case.status, case.state) = (status.into(), bytes(state)?);
                }
                "end" => return Ok(vector),
                "" | "tags" | "note" | "quirks" => {}
                _ if word.starts_with('#') => {}
                _ => return Err(wrong("unknown word")),
            }
        }
        Err("there is no end".into())
    }

    /// Applies the patches to a machine; returns what became of each and the state after it.
    ///
    /// # Panics
    /// If the program or the state has no room.
    pub fn run(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut steps = vec![Step::default(); self.program.len() / 2];
        let program = Program::new(&self.program, &mut steps).expect("steps enough");
        let mut frames = [StackFrame::default(); 100];
        let mut memory = vec![0; self.limit.min(16 << 20)];
        let mut vm = Vm::new(&mut memory, program, &mut frames)
            .expect("memory enough")
            .with_limits(Limits { instructions: 1 << 20, fields: 1 << 20 });
        if let Some(state) = &self.state {
            assert_eq!(vm.load_state(state), VmStatus::Ok, "the state has room");
        }
        let run = |case: &Case| {
            let status = match vm.apply(&case.patch) {
                VmStatus::Ok => "ok",
                VmStatus::Error => "error",
                VmStatus::Abort => "abort",
            };
            let mut state = Vec::new();
            let Ok(()) = vm.write_state(&mut state);
            (status, state)
        };
        self.cases.iter().map(run).collect()
    }
}

/// Bytes as hexadecimal text; none are `-`.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    if text.is_empty() { "-".into() } else { text }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text == "-" {
        return Some(Vec::new());
    }
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
