//! The names of events without a message.

use super::*;

#[test]
fn an_event_is_named_by_its_message_its_own_name_its_error_or_its_target_and_never_by_its_place() {
    let error = std::io::Error::other("  connection lost\nto the server");
    let long = "é".repeat(100);
    let work = |_: &Dispatch| {
        // As `#[instrument(err)]` does.
        tracing::error!(error = %error);
        tracing::error!(err = ?error.kind(), queue = 5);
        tracing::error!(error = &error as &dyn std::error::Error, "a message");
        tracing::error!(name: "a name", error = %error);
        tracing::info!(name: "event of ours", queue = 5);
        tracing::info!(target: "shop::db", queue = 5);
        tracing::info!(target: "shop", error = 7, err = "");
        tracing::info!(err = &*long);
    };
    both("event names", false, work, |trace| {
        let names = [
            "connection lost",
            "Other",
            "a message",
            "a name",
            "event of ours",
            "shop::db",
            "shop",
            &"é".repeat(60),
        ];
        assert_eq!(trace.story(), names.map(|name| format!("!{name}")).join(" "));
        for text in ["to the server", &*long, "queue", "event_names.rs"] {
            assert!(trace.contains(text), "{text}");
        }
        assert!(!trace.contains("event std-adapter"), "no name is a place");
    });
}

#[test]
fn the_place_of_an_event_without_a_message_is_its_source_location() {
    const LOCATION_IID: u32 = 34;
    const LOCATION: u32 = 33;
    let work = |_: &Dispatch| {
        tracing::info!(queue = 5);
        tracing::info!("a message");
        tracing::info!(name: "a name", queue = 5);
    };
    both("event places", false, work, |trace| {
        let places: Vec<_> = [LOCATION_IID, LOCATION]
            .map(|field| counts(trace, 3, field))
            .into_iter()
            .reduce(|one, other| one.iter().zip(other).map(|(one, other)| one + other).collect())
            .expect("two");
        assert_eq!(places, [1, 0, 0]);
    });
}
