//! Wanted categories of track events, as the configuration of a data source lists them.
//!
//! Facts from `protos/perfetto/config/data_source_config.proto` and
//! `protos/perfetto/config/track_event/track_event_config.proto`.

use tracebuf::proto::fields::ipc::data_source_config::TRACK_EVENT_CONFIG;
use tracebuf::proto::fields::ipc::track_event_config::{
    DISABLED_CATEGORIES as DISABLED, DISABLED_TAGS, ENABLED_CATEGORIES as ENABLED,
};
use tracebuf::proto::reader::{Fields, messages};

use super::ProtoBuilder;

/// Fields of a DataSourceConfig that wants these categories and no others. What is on and off by default differs
/// between Perfetto's libraries, so everything is stated.
pub(crate) fn only<'c>(enabled: impl IntoIterator<Item = &'c str>) -> ProtoBuilder {
    let config = ProtoBuilder::new().bytes(DISABLED, b"*");
    let config = config.bytes(DISABLED_TAGS, b"slow").bytes(DISABLED_TAGS, b"debug");
    let config = config.each(enabled, |config, category| config.bytes(ENABLED, category.as_bytes()));
    ProtoBuilder::new().message(TRACK_EVENT_CONFIG, &config)
}

/// The categories that are wanted; all of them unless the configuration says otherwise.
///
/// Kept as the TrackEventConfig that came: taken apart, endless lists would be many times as long in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WantedCategories(Vec<u8>);

impl WantedCategories {
    /// The categories of a DataSourceConfig. A malformed one says nothing: better to record too much than nothing.
    pub(crate) fn of(config: &[u8]) -> Self {
        // A field that comes in several parts is the sum of them.
        let lists: Vec<u8> = messages(config, TRACK_EVENT_CONFIG).flatten().copied().collect();
        let mut fields = Fields::of(&lists);
        fields.by_ref().for_each(drop);
        if fields.is_at_end() { Self(lists) } else { Self::default() }
    }

    pub(crate) fn wants(&self, category: &str) -> bool {
        type Means = fn(&str, &str) -> bool;
        const IN_TURN: [(u32, Means); 4] =
            [(ENABLED, is), (DISABLED, is), (ENABLED, matches), (DISABLED, matches)];
        let finds = IN_TURN.iter().find(|(list, means)| {
            let mut names = messages(&self.0, *list).filter_map(|name| std::str::from_utf8(name).ok());
            names.any(|name| means(name, category))
        });
        finds.is_none_or(|(list, _)| *list == ENABLED)
    }
}

fn is(name: &str, category: &str) -> bool {
    name == category
}

/// Whether a pattern matches, in which each `*` stands for whatever is in its place, or for nothing.
fn matches(pattern: &str, category: &str) -> bool {
    let Some((begin, rest)) = pattern.split_once('*') else { return pattern == category };
    let (between, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let within = category.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
    // Each part at its first place: that leaves the most for the next.
    within.and_then(|within| between.split('*').try_fold(within, after)).is_some()
}

fn after<'t>(text: &'t str, part: &str) -> Option<&'t str> {
    text.split_once(part).map(|(_, after)| after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(lists: &ProtoBuilder) -> ProtoBuilder {
        ProtoBuilder::new().bytes(1, b"track_event").number(2, 1_u32).message(TRACK_EVENT_CONFIG, lists)
    }

    fn lists(enabled: &[&str], disabled: &[&str]) -> ProtoBuilder {
        let of = |field| move |lists: ProtoBuilder, name: &&str| lists.bytes(field, name.as_bytes());
        ProtoBuilder::new().each(enabled, of(ENABLED)).each(disabled, of(DISABLED))
    }

    /// The categories among these that are wanted.
    fn wanted<'c>(config: &ProtoBuilder, of: &[&'c str]) -> Vec<&'c str> {
        let categories = WantedCategories::of(config.as_bytes());
        of.iter().copied().filter(|category| categories.wants(category)).collect()
    }

    #[test]
    fn names_decide_before_patterns_and_what_is_enabled_before_what_is_disabled() {
        const ALL: [&str; 4] = ["net", "net.send", "render", ""];
        let table: [(&[&str], &[&str], &[&str]); 14] = [
            (&[], &[], &ALL),
            (&[], &["*"], &[]),
            (&["net"], &[], &ALL),
            (&["net"], &["*"], &["net"]),
            (&["net"], &["net"], &ALL),
            (&["net*"], &["*"], &["net", "net.send"]),
            (&["net.*"], &["*"], &["net.send"]),
            (&["*"], &["*"], &ALL),
            (&["*"], &["net"], &["net.send", "render", ""]),
            (&["*"], &["net*"], &ALL),
            (&[], &["net*"], &["render", ""]),
            (&["net.send"], &["net*"], &["net.send", "render", ""]),
            (&["n*", "render"], &["net", "r*", ""], &["net.send", "render"]),
            (&["nets", "ne", "NET", "net.*.*"], &["*"], &[]),
        ];
        for (enabled, disabled, expected) in table {
            let config = config(&lists(enabled, disabled));
            assert_eq!(wanted(&config, &ALL), expected, "{enabled:?} {disabled:?}");
        }
    }

    #[test]
    fn a_star_stands_for_whatever_there_is_in_its_place() {
        let table = [
            ("*", "", true),
            ("**", "net", true),
            ("net*", "net", true),
            ("*net", "net", true),
            ("*net", "internet", true),
            ("*net", "nets", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "abbc", true),
            ("a*b*c", "acb", false),
            ("a*bc*bc", "abc", false),
            ("a*bc*bc", "abcbc", true),
            ("*é*", "café au lait", true),
            ("net", "net*", false),
            ("?et", "net", false),
        ];
        for (pattern, category, expected) in table {
            assert_eq!(matches(pattern, category), expected, "{pattern} {category}");
        }
        // A step back at each star would take for ever with this one.
        assert!(!matches(&"*a".repeat(20_000), &"a".repeat(10_000)));
    }

    #[test]
    fn tags_and_what_is_not_known_are_passed_over() {
        let rest = ProtoBuilder::new()
            .bytes(DISABLED_TAGS, b"*")
            .bytes(4, b"debug")
            .number(6, 1000_u32)
            .number(99, 1_u32);
        let fixed = rest.fields(b"\x09abcdefgh\x15abcd").number(DISABLED, 7_u32).bytes(DISABLED, b"net\xFF");
        assert_eq!(wanted(&config(&fixed), &["net", "debug"]), ["net", "debug"]);
        let both = config(&fixed.bytes(DISABLED, b"net"));
        assert_eq!(wanted(&both, &["net", "debug"]), ["debug"]);
        // A field that comes in parts, and one with its number that is of another kind.
        let parts = config(&lists(&["net"], &[])).message(TRACK_EVENT_CONFIG, &lists(&[], &["*"]));
        assert_eq!(wanted(&parts.number(TRACK_EVENT_CONFIG, 1_u32), &["net", "debug"]), ["net"]);
    }

    #[test]
    fn of_what_is_malformed_all_is_wanted() {
        let whole = lists(&["net"], &["*"]);
        for len in 0..whole.as_bytes().len() {
            let cut = ProtoBuilder::new().fields(&whole.as_bytes()[..len]);
            let both = wanted(&config(&cut), &["net", "render"]);
            // Also where only the list of enabled ones is left, because that disables nothing.
            assert_eq!(both, ["net", "render"], "{len}");
        }
        for malformed in [&b"\x0B"[..], b"\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", b"\xFF"] {
            let config = config(&whole.clone().fields(malformed));
            assert_eq!(wanted(&config, &["net", "render"]), ["net", "render"]);
        }
    }

    #[test]
    fn programs_of_this_crate_are_told_what_others_are() {
        let own = only(["net", "render.*"]);
        assert_eq!(wanted(&own, &["net", "render", "render.gpu", "debug"]), ["net", "render.gpu"]);
        assert_eq!(wanted(&only(["*"]), &["net"]), ["net"]);
    }
}
