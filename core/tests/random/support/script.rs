//! Runs a script (`.tbops`) on the model and prints what came out, in the scripts' own form.

use std::fmt::Write;

use super::model::{Header, Model, Packet, Stats};
use super::ops::{hex, unhex};

/// The output of a whole script; a malformed line is an error with its number.
pub fn run(script: &str) -> Result<String, String> {
    let mut model = Model::new(0, false, 65_535);
    let mut evicted: Vec<Packet> = Vec::new();
    let mut out = String::new();
    for (number, line) in script.lines().enumerate() {
        let words: Vec<_> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        let Some((name, args)) = words.split_first() else { continue };
        let args = Args(args);
        step(&mut model, &mut evicted, &mut out, name, &args)
            .ok_or_else(|| format!("line {}: {line}", number + 1))?;
    }
    Ok(out)
}

struct Args<'a>(&'a [&'a str]);

impl Args<'_> {
    fn text(&self, i: usize) -> Option<&str> {
        self.0.get(i).copied()
    }

    fn number(&self, i: usize) -> Option<i128> {
        let text = self.text(i)?;
        match text.strip_prefix("0x") {
            Some(hex) => i128::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    }
}

fn step(
    model: &mut Model,
    evicted: &mut Vec<Packet>,
    out: &mut String,
    name: &str,
    args: &Args<'_>,
) -> Option<()> {
    match name {
        "new" => {
            *model = Model::new(args.number(0)? as u64, args.text(1)? == "discard", 65_535);
            out.push_str("ok\n");
        }
        "copy" => {
            let header = Header {
                producer: args.number(0)? as u16,
                writer: args.number(1)? as u16,
                chunk_id: args.number(2)? as u32,
                fragments: args.number(3)? as u16,
                flags: args.number(4)? as u8,
                complete: args.number(5)? != 0,
                uid: args.number(6)? as u32,
                pid: args.number(7)? as i32,
            };
            let mut observer = |packet: &Packet| {
                evicted.push(packet.clone());
                false
            };
            model.commit(header, &unhex(args.text(8)?)?, false, &mut observer);
            out.push_str("ok\n");
        }
        "patch" => {
            let mut patches = Vec::new();
            for patch in args.text(4)?.split(',').filter(|p| *p != "-") {
                let (at, data) = patch.split_once(':')?;
                let at = match at.strip_prefix("0x") {
                    Some(at) => u64::from_str_radix(at, 16).ok()?,
                    None => at.parse().ok()?,
                };
                patches.push((at, unhex(data)?.try_into().ok()?));
            }
            let key = (args.number(0)? as u16, args.number(1)? as u16);
            let done = model.patch(key, args.number(2)? as u32, &patches, args.number(3)? != 0);
            writeln!(out, "patch {done}").ok()?;
        }
        "read" | "readn" => {
            let limit = if name == "readn" { Some(args.number(0)? as usize) } else { None };
            let (packets, ended) = model.read(limit);
            print(out, "pkt", &packets);
            out.push_str(if ended { "end\n" } else { "limit\n" });
        }
        "clone" => {
            print(out, "cpkt", &model.clone_read_only().read(None).0);
            out.push_str("cend\n");
        }
        "stats" => writeln!(out, "{}", stats_line(&model.stats())).ok()?,
        "overwritten" => {
            for p in evicted.drain(..) {
                let (uid, pid, slices) = (p.uid, p.pid, p.slices.len());
                writeln!(out, "opkt {} {} {uid} {pid} {slices} {}", p.producer, p.writer, hex(&p.bytes()))
                    .ok()?;
            }
            out.push_str("oend\n");
        }
        _ => return None,
    }
    Some(())
}

fn print(out: &mut String, name: &str, packets: &[Packet]) {
    for p in packets {
        let (uid, pid, loss, slices) = (p.uid, p.pid, p.loss, p.slices.len());
        let bytes = hex(&p.bytes());
        let _ = writeln!(out, "{name} {} {} {uid} {pid} {loss} {slices} {bytes}", p.producer, p.writer);
    }
}

fn stats_line(s: &Stats) -> String {
    let all = [
        ("buffer_size", s.buffer_size),
        ("bytes_written", s.bytes_written),
        ("bytes_overwritten", s.bytes_overwritten),
        ("bytes_read", s.bytes_read),
        ("padding_bytes_written", s.padding_bytes_written),
        ("padding_bytes_cleared", s.padding_bytes_cleared),
        ("chunks_written", s.chunks_written),
        ("chunks_rewritten", s.chunks_rewritten),
        ("chunks_relocated", s.chunks_relocated),
        ("chunks_overwritten", s.chunks_overwritten),
        ("chunks_discarded", s.chunks_discarded),
        ("chunks_read", s.chunks_read),
        ("chunks_committed_out_of_order", s.chunks_committed_out_of_order),
        ("write_wrap_count", s.write_wrap_count),
        ("patches_succeeded", s.patches_succeeded),
        ("patches_failed", s.patches_failed),
        ("readaheads_succeeded", s.readaheads_succeeded),
        ("readaheads_failed", s.readaheads_failed),
        ("abi_violations", s.abi_violations),
        ("trace_writer_packet_loss", s.trace_writer_packet_loss),
        ("chunks_unchanged", s.chunks_unchanged),
        ("chunks_refused", s.chunks_refused),
    ];
    all.iter().fold("stats".to_owned(), |line, (name, value)| format!("{line} {name}={value}"))
}
