//! Counts of what came over a line.

use std::fmt;
use std::path::PathBuf;

use tracebuf_std::display::{Count, Escaped};

/// Counts of what came over a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiveReport {
    /// Bytes, all of them.
    pub bytes: u64,
    /// Intact frames.
    pub frames: u64,
    /// Frames that arrived damaged, and anything else between two zeros.
    pub frames_corrupt: u64,
    /// Frames that are missing between intact ones, judging by their numbers, which count to 65,536; around a restart
    /// only those after it.
    pub frames_lost: u64,
    /// Packets passed on; in what [`receive`](super::receive()) reports at its end, those in the files.
    pub packets: u64,
    /// Packets that were to go into a file when writing it, or making it, failed and, as far as is known, did not.
    pub packets_unwritten: u64,
    /// Packets of which some frames arrived and others did not. There may be more: the frames on either side of a gap
    /// are taken for one packet's unless they cannot be.
    pub packets_incomplete: u64,
    /// Packets that arrived whole but are malformed.
    pub packets_malformed: u64,
    /// Packets of a device that records none in place, which cannot be in a trace with others.
    pub packets_refused: u64,
    /// Frames of a kind that is not known: the device is newer than this.
    pub frames_unknown: u64,
    /// Events that were recorded in place.
    pub events: u64,
    /// Events that found no place on the device, in all of its starts.
    pub events_dropped: u64,
    /// Events and tracks whose name the device had no room for, or has not sent again since this has listened.
    pub events_unnamed: u64,
    /// Events whose name is in a program that is not the one at hand, or that none is.
    pub events_unlinked: u64,
    /// Chunks of a writer that are missing between others of it: they were overwritten before they could be sent, or
    /// were in frames that are lost.
    pub chunks_missing: u64,
    /// Chunks in which the device has sent nonsense: something there has overwritten them.
    pub chunks_damaged: u64,
    /// Chunks that came before the device said who it is, and were too many to wait for that.
    pub chunks_early: u64,
    /// Nanoseconds by which times of events may be wrong, if they are the host's: besides the least time that something
    /// takes to arrive, which nobody can see.
    pub clock_error: Option<u64>,
    /// Whether it ended because the session has.
    pub session_ended: bool,
    /// Frames that the end of the line, or an interruption, cut short: at most one for each.
    pub frames_unfinished: u64,
    /// Whether the first intact frame is not a device's first, which has the number 1 and begins a packet. The number
    /// of frames before it is unknown, and none of them is counted as lost.
    pub beginning_missing: bool,
    /// How often the port was gone.
    pub interruptions: u64,
    /// Whether it is gone, or has not come yet, and is waited for.
    pub is_waiting: bool,
    /// Restarts of the device, judging by numbers. How many frames were lost before each is unknown.
    pub restarts: u64,
    /// The device's starts that packets came from, as far as they could be told apart.
    pub starts: u64,
    /// The trace files, the first start's first, or the one that everything is in: see [`receive`](super::receive()).
    /// There are fewer than starts if the trace could not be divided, or not any further.
    pub files: Vec<PathBuf>,
}

impl ReceiveReport {
    /// Returns true if all that came was passed on, and nothing was missing since the first frame.
    fn is_whole(&self) -> bool {
        let frames = [self.frames_lost, self.frames_corrupt, self.frames_unfinished];
        let packets = [self.packets_incomplete, self.packets_malformed, self.packets_unwritten];
        let events = [self.events_dropped, self.chunks_missing, self.chunks_damaged, self.chunks_early];
        frames == [0; 3]
            && packets == [0; 3]
            && events == [0; 4]
            && self.packets_refused + self.frames_unknown + self.restarts + self.interruptions == 0
    }

    /// Tells of what was recorded in place.
    fn fmt_events(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.events > 0 {
            write!(f, "; {} recorded in place", Count(self.events, "event"))?;
        }
        for (count, of, what) in [
            (self.events_dropped, "event", "dropped, as all chunks were being written"),
            (
                self.chunks_missing,
                "chunk",
                "missing: overwritten before they could be sent, or lost on the line",
            ),
            (self.chunks_damaged, "chunk", "damaged on the device"),
            (self.chunks_early, "chunk", "from before the device said who it is"),
            (self.events_unnamed, "event", "without a name, or of a track without one"),
            (
                self.events_unlinked,
                "event",
                "with a name that only the program has: --program is to be the very one",
            ),
            (self.frames_unknown, "frame", "of a kind that is not known here"),
            (
                self.packets_refused,
                "packet",
                "left out, as only what is recorded in place can be beside others",
            ),
        ] {
            if count > 0 {
                write!(f, ", {} {what}", Count(count, of))?;
            }
        }
        match self.clock_error {
            Some(error) => write!(f, "; times are the host's, to {:.3} ms", error as f64 / 1e6),
            None => Ok(()),
        }
    }

    fn ending(&self) -> &'static str {
        if self.session_ended { "; the session has ended" } else { "" }
    }

    /// Tells where the starts are.
    fn fmt_files(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.files.len() as u64;
        let names: Vec<_> = self.files.iter().map(|path| Escaped(path.display())).collect();
        match &names[..] {
            [] => return Ok(()),
            [_] => {
                f.write_str("; all of it is in one file")?;
                return match self.clock_error {
                    Some(_) => Ok(()),
                    None => f.write_str(", and times before and after a restart do not go together"),
                };
            }
            [first, last] => write!(f, "; each start is in a file of its own: {first}, {last}")?,
            [first, .., last] => {
                write!(f, "; each start is in a file of its own, {count} of them: {first} to {last}")?;
            }
        }
        let more = self.starts.saturating_sub(count);
        if more == 0 {
            return Ok(());
        }
        write!(f, ", but the last one has {more} more of them in it, and their times do not go together")
    }
}

impl fmt::Display for ReceiveReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_waiting {
            f.write_str("waiting for the port: ")?;
        }
        write!(f, "{} from {}", Count(self.packets, "packet"), Count(self.bytes, "byte"))?;
        if self.frames == 0 {
            return f.write_str(", not one intact frame in them");
        }
        let (beginning, since) = match self.beginning_missing {
            true => (", the beginning missing", " since"),
            false => ("", ""),
        };
        f.write_str(beginning)?;
        if self.is_whole() {
            write!(f, ", nothing lost on the line{since}")?;
            self.fmt_events(f)?;
            return f.write_str(self.ending());
        }
        write!(f, "; of {} ", Count(self.frames.saturating_add(self.frames_lost), "frame"))?;
        write!(f, "{} lost ({} arrived damaged), ", self.frames_lost, self.frames_corrupt)?;
        write!(f, "{} incomplete", Count(self.packets_incomplete, "packet"))?;
        if self.packets_malformed > 0 {
            write!(f, ", {} malformed", self.packets_malformed)?;
        }
        if self.packets_unwritten > 0 {
            write!(f, ", {} not written", self.packets_unwritten)?;
        }
        if self.interruptions > 0 {
            write!(f, "; the port was gone {}", Count(self.interruptions, "time"))?;
        }
        if self.restarts > 0 {
            let times = Count(self.restarts, "time");
            write!(f, "; the device restarted {times}, and what was lost then is not known")?;
            self.fmt_files(f)?;
        }
        self.fmt_events(f)?;
        f.write_str(self.ending())?;
        f.write_str(if self.frames_unfinished > 0 { "; the input ended within a frame" } else { "" })
    }
}
