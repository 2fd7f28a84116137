//! What a replay did, in a few figures for a person.

use std::fmt;

use tracebuf::buffer::{Commit, DataLoss, Packet};

use tracebuf_std::display::Count;

/// Packets that were left out of a trace file, as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut(pub u64);

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = "not in the trace file, malformed, forged or too long for a trace";
        write!(f, "{what}: {}", Count(self.0, "packet"))
    }
}

/// The figures of one replay.  Its `Display` is the summary that the command prints, in several lines.
///
/// ```
/// use tracebuf_conformance::replay::Replay;
///
/// let summary = Replay::new(std::io::sink()).run("new 4096 ring\nread\n".as_bytes())?;
/// assert!(summary.to_string().contains("read: 0 packets, 0 bytes, none after a loss"));
/// # Ok::<(), tracebuf_conformance::replay::ReplayError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReplaySummary {
    /// Operations run, `new` included.
    pub operations: u64,
    /// Why the last `new` that failed made no buffer.
    pub not_made: Option<String>,
    /// What became of the chunks offered.
    pub commits: Commits,
    /// Packets of `read` and `readn`.
    pub read: Packets,
    /// Packets read from clones.
    pub cloned: Packets,
    /// Packets read that the trace file did not take: no producer may write them, or they are too long for a trace.
    pub refused_packets: u64,
}

/// What became of the chunks that were offered to the buffer: each counts once.
///
/// ```
/// use tracebuf_conformance::replay::Replay;
///
/// let copy = "copy 1 2 0 1 0 1 1000 10 03616263\n";
/// let script = ["new 4096 ring\n", copy, copy].concat(); // the producer sends a chunk twice
/// let commits = Replay::new(std::io::sink()).run(script.as_bytes())?.commits;
/// assert_eq!((commits.written, commits.unchanged), (1, 1));
/// # Ok::<(), tracebuf_conformance::replay::ReplayError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Commits {
    /// Stored anew.
    pub written: u64,
    /// Stored over an earlier copy of the same chunk.
    pub rewritten: u64,
    /// Stored anew in the place of an earlier copy.
    pub relocated: u64,
    /// Had the same bytes as before.
    pub unchanged: u64,
    /// Not stored: already read, or the buffer takes no more.
    pub discarded: u64,
    /// Not stored: the producer broke the rules, or no table entry was free.
    pub refused: u64,
}

impl Commits {
    pub(crate) fn count(&mut self, commit: &Commit) {
        let counter = match commit {
            Commit::Written => &mut self.written,
            Commit::Rewritten => &mut self.rewritten,
            Commit::Relocated => &mut self.relocated,
            Commit::Unchanged => &mut self.unchanged,
            Commit::Discarded => &mut self.discarded,
            Commit::Refused(_) => &mut self.refused,
        };
        *counter += 1;
    }
}

/// Packets that were read, and what was lost before them.
///
/// ```
/// use tracebuf_conformance::replay::Replay;
///
/// // Chunks 0 and 2 of a writer: chunk 1 never came.
/// let chunks = "copy 1 2 0 1 0 1 1000 10 03616263\ncopy 1 2 2 1 0 1 1000 10 03646566\n";
/// let script = ["new 4096 ring\n", chunks, "read\n"].concat();
/// let read = Replay::new(std::io::sink()).run(script.as_bytes())?.read;
/// println!("{read}"); // says the cause, too
/// assert_eq!((read.packets, read.bytes, read.after_loss), (2, 6, 1));
/// # Ok::<(), tracebuf_conformance::replay::ReplayError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Packets {
    /// How many.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How many of them follow a loss on their sequence.
    pub after_loss: u64,
    /// How many of them name each cause, in the order of [`DataLoss::CAUSES`]; one packet can name several.
    pub causes: [u64; DataLoss::CAUSES.len()],
}

impl Packets {
    pub(crate) fn count(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        self.bytes += packet.len() as u64;
        self.after_loss += u64::from(!packet.loss().is_empty());
        for (count, (cause, _)) in self.causes.iter_mut().zip(DataLoss::CAUSES) {
            *count += u64::from(packet.loss().contains(cause));
        }
    }
}

impl fmt::Display for Packets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, ", Count(self.packets, "packet"), Count(self.bytes, "byte"))?;
        if self.after_loss == 0 {
            return f.write_str("none after a loss");
        }
        write!(f, "{} after a loss", self.after_loss)?;
        let mut before = " (";
        for (count, (_, name)) in self.causes.iter().zip(DataLoss::CAUSES) {
            if *count > 0 {
                write!(f, "{before}{name} {count}")?;
                before = ", ";
            }
        }
        f.write_str(if before == ", " { ")" } else { "" })
    }
}

impl fmt::Display for ReplaySummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Commits { written, rewritten, relocated, unchanged, discarded, refused } = self.commits;
        writeln!(f, "operations: {}", self.operations)?;
        if let Some(why) = &self.not_made {
            writeln!(f, "no buffer was made: {why}")?;
        }
        writeln!(
            f,
            "chunks: {written} written, {rewritten} rewritten, {relocated} relocated, {unchanged} unchanged, \
             {discarded} discarded, {refused} refused"
        )?;
        write!(f, "read: {}", self.read)?;
        if self.cloned.packets > 0 {
            write!(f, "\nread from clones: {}", self.cloned)?;
        }
        if self.refused_packets > 0 {
            write!(f, "\n{}", LeftOut(self.refused_packets))?;
        }
        Ok(())
    }
}
