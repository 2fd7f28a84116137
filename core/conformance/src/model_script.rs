//! Scripts of operations, run on the model.
//!
//! ```
//! let script = "new 4096 ring\ncopy 1 2 0 1 0 1 1000 10 03616263\nread\n";
//! assert_eq!(tracebuf_conformance::model_script::run(script).unwrap(), "ok\nok\npkt 1 2 1000 10 0 1 616263\nend\n");
//! ```

use std::fmt::Write;

use tracebuf::buffer::FillPolicy;

use crate::model::{Header, Model, ModelPacket, Stats};
use crate::random::ops::hex;
use crate::script::{Op, parse_line};

/// Runs a script and returns its output, in the form of a replay's.
///
/// # Errors
/// The first malformed line, with its number.
pub fn run(script: &str) -> Result<String, String> {
    let mut model = Model::new(0, false, 65_535);
    let (mut evicted, mut out) = (Vec::new(), String::new());
    for (line, number) in script.lines().zip(1..) {
        let op = parse_line(line.as_bytes()).map_err(|why| format!("line {number}: {why}"))?;
        op.into_iter().for_each(|op| step(&mut model, &mut evicted, &mut out, op));
    }
    Ok(out)
}

fn step(model: &mut Model, evicted: &mut Vec<ModelPacket>, out: &mut String, op: Op) {
    let end = match op {
        Op::New { size, policy } => {
            *model = Model::new(size, policy == FillPolicy::Discard, 65_535);
            "ok".to_owned()
        }
        Op::Copy { header: h, payload } => {
            let header = Header {
                producer: h.producer_id,
                writer: h.writer_id,
                chunk_id: h.chunk_id,
                fragments: h.fragments,
                flags: h.flags.bits(),
                complete: h.complete,
                uid: h.uid,
                pid: h.pid,
            };
            let mut observer = |packet: &ModelPacket| {
                evicted.push(packet.clone());
                false
            };
            model.commit(header, &payload, false, &mut observer);
            "ok".to_owned()
        }
        Op::Patch { producer, writer, chunk, pending, patches } => {
            let patches: Vec<_> = patches.iter().map(|patch| (patch.offset.into(), patch.data)).collect();
            format!("patch {}", model.patch((producer, writer), chunk, &patches, pending))
        }
        Op::Read => read(model, None, out),
        Op::ReadN(limit) => read(model, Some(usize::try_from(limit).unwrap_or(usize::MAX)), out),
        Op::Clone => {
            print(out, "cpkt", &model.clone_read_only().read(None).0);
            "cend".to_owned()
        }
        Op::Stats => stats_line(&model.stats()),
        Op::Overwritten => {
            for p in evicted.drain(..) {
                let (uid, pid, slices, bytes) = (p.uid, p.pid, p.slices.len(), hex(&p.bytes()));
                let _ = writeln!(out, "opkt {} {} {uid} {pid} {slices} {bytes}", p.producer, p.writer);
            }
            "oend".to_owned()
        }
    };
    out.push_str(&end);
    out.push('\n');
}

fn read(model: &mut Model, limit: Option<usize>, out: &mut String) -> String {
    let (packets, ended) = model.read(limit);
    print(out, "pkt", &packets);
    if ended { "end" } else { "limit" }.to_owned()
}

fn print(out: &mut String, name: &str, packets: &[ModelPacket]) {
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
