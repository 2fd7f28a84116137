//! Rules of a filter by which strings are overwritten.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use tracebuf::proto::fields::config::{string_filter_chain as chain, string_filter_rule as field};
use tracebuf::proto::reader::{message, messages, number};

use crate::host::{Find, Pattern};
use crate::wire::repeated;

/// Most rules of a filter, each of which takes some memory for what it looks for.
const MOST_RULES: usize = 256;
/// Kinds of strings that rules may be for.
const KINDS: u64 = 128;
/// What parts of strings are overwritten with, as far as there is room, and what with behind it.
const REDACTED: &[u8] = b"P60REDACTED";
const BEHIND: u8 = b'-';

/// Most bytes of strings that rules look at in one packet, each as often as a rule does, and of one of them.
const MOST_BYTES: usize = 32 << 20;
const LONGEST: usize = 128 << 10;
/// Nanoseconds that they may take.
const MOST_TIME: u64 = 250_000_000;

/// What looking at the strings of one packet takes. What would take longer counts as malformed: nothing is left of it, so
/// nothing is left in that should not be.
pub(super) struct Work {
    bytes: usize,
    begun: Option<u64>,
    /// It has taken too long.
    pub(super) is_late: bool,
}

impl Work {
    pub(super) const fn new(is_late: bool) -> Self {
        Self { bytes: MOST_BYTES, begun: None, is_late }
    }

    /// Before a rule looks at so many bytes; `None` if it may not.
    fn begin(&mut self, len: usize, now: impl Fn() -> u64) -> Option<()> {
        // A rule costs something for short strings, too.
        self.bytes = self.bytes.checked_sub(len.saturating_add(16))?;
        if self.begun.is_none() {
            self.begun = Some(now());
        }
        (len <= LONGEST && !self.is_late).then_some(())
    }

    /// After that; `None` if it has taken too long.
    fn end(&mut self, now: u64) -> Option<()> {
        self.is_late |= self.begun.is_some_and(|begun| now.saturating_sub(begun) > MOST_TIME);
        (!self.is_late).then_some(())
    }
}

/// What a rule does with a string that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// Overwrites the groups of a pattern that is all of the string.
    Redact,
    /// Lets a string be of which a pattern is the whole.
    Leave,
    /// Overwrites the groups of a pattern wherever it is.
    RedactEach,
}

#[derive(Debug)]
struct Rule {
    policy: Policy,
    pattern: Box<dyn Pattern>,
    /// Only for what atrace wrote, with this after the process's number.
    begin: Option<Vec<u8>>,
    name: String,
    /// A bit for each kind of string that it is for.
    kinds: u128,
}

/// Rules in their order.
#[derive(Debug)]
pub(super) struct Rules(Vec<Rule>);

impl Rules {
    /// Those of these chains, one after the other.
    pub(super) fn of(
        chains: [&[u8]; 2],
        compile: &mut impl FnMut(&str, Find) -> Result<Box<dyn Pattern>, String>,
    ) -> Result<Self, String> {
        if chains.iter().any(|chain| message(chain, chain::RULES).is_none()) {
            return Err("Trace filter malformed".to_string());
        }
        let mut rules: Vec<Rule> = Vec::new();
        for rule in chains.into_iter().flat_map(|chain| messages(chain, chain::RULES)) {
            let rule = Rule::of(rule, compile)?;
            let named = rules.iter().position(|other| !rule.name.is_empty() && other.name == rule.name);
            match named {
                Some(at) => drop(rules.splice(at..=at, [rule])),
                None if rules.len() < MOST_RULES => rules.push(rule),
                None => return Err(format!("Trace filter has more than {MOST_RULES} string rules")),
            }
        }
        Ok(Self(rules))
    }

    /// Overwrites what of a string of this kind is not to be read. `None` if it would take more than `work` has left.
    pub(super) fn apply(&self, text: &mut [u8], kind: u16, work: &mut Work) -> Option<()> {
        let is_for = |rule: &&Rule| kind < KINDS as u16 && rule.kinds & 1 << kind != 0;
        let payload = payload(text);
        let mut groups = Vec::new();
        for rule in self.0.iter().filter(is_for) {
            if let Some(begin) = &rule.begin
                && !payload.and_then(|at| text.get(at..)).is_some_and(|payload| payload.starts_with(begin))
            {
                continue;
            }
            let (mut from, mut is_found) = (0, false);
            loop {
                work.begin(text.len().saturating_sub(from), || rule.pattern.now())?;
                let end = rule.pattern.find(text, from, &mut groups);
                work.end(rule.pattern.now())?;
                let Some(end) = end else { break };
                is_found = true;
                from = end.max(from.saturating_add(1));
                if rule.policy != Policy::RedactEach || from > text.len() {
                    break;
                }
            }
            if is_found {
                if rule.policy != Policy::Leave {
                    groups.drain(..).for_each(|group| redact(text, group));
                }
                break;
            }
        }
        Some(())
    }
}

impl Rule {
    fn of(
        rule: &[u8],
        compile: &mut impl FnMut(&str, Find) -> Result<Box<dyn Pattern>, String>,
    ) -> Result<Self, String> {
        let wrong = || "Trace filter has invalid string filtering rules".to_string();
        let (policy, is_atrace) = match number(rule, field::POLICY) {
            Some(1) => (Policy::Redact, false),
            Some(2) => (Policy::Redact, true),
            Some(3) => (Policy::Leave, false),
            Some(4) => (Policy::Leave, true),
            Some(5) => (Policy::RedactEach, true),
            _ => return Err(wrong()),
        };
        let all = [field::REGEX_PATTERN, field::ATRACE_PAYLOAD_STARTS_WITH, field::NAME];
        let [pattern, begin, name] = all.map(|number| message(rule, number));
        let (Some(pattern), Some(begin), Some(name)) = (pattern, begin, name) else { return Err(wrong()) };
        let mut kinds = 0_u128;
        for kind in repeated(rule, field::SEMANTIC_TYPE) {
            if kind >= KINDS {
                return Err("Trace filter has invalid semantic types in string filtering rules".to_string());
            }
            kinds |= 1 << kind;
        }
        let find = if policy == Policy::RedactEach { Find::Anywhere } else { Find::Whole };
        let pattern = core::str::from_utf8(pattern).map_err(|_| wrong())?;
        let compiled = compile(pattern, find);
        Ok(Self {
            policy,
            pattern: compiled
                .map_err(|error| format!("Invalid pattern {pattern} in trace filter: {error}"))?,
            begin: is_atrace.then(|| begin.to_vec()),
            name: String::from_utf8_lossy(name).into_owned(),
            kinds: if kinds == 0 { 1 } else { kinds },
        })
    }
}

/// Where the text of a string of atrace's begins, which is behind the second bar: `B|12|text`.
fn payload(text: &[u8]) -> Option<usize> {
    // An end has no text.
    if text.first() == Some(&b'E') {
        return None;
    }
    let behind = text.get(2..)?.iter().position(|byte| *byte == b'|')?;
    Some(behind + 3)
}

fn redact(text: &mut [u8], group: Range<usize>) {
    let with = REDACTED.iter().chain(core::iter::repeat(&BEHIND));
    let group = text.get_mut(group).into_iter().flatten();
    group.zip(with).for_each(|(byte, with)| *byte = *with);
}
