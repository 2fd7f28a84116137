//! Arrows between the slices of a span, and from spans that it follows.

use tracing::Dispatch;

use crate::trace::{Field, fields, message, number};
use crate::{FLOW, both, counts};

#[test]
fn a_span_that_wanders_between_threads_is_a_slice_on_each_and_one_flow() {
    let work = |dispatch: &Dispatch| {
        let span = tracing::info_span!("task");
        let next = tracing::info_span!("next");
        next.follows_from(&span);
        span.in_scope(|| ());
        let (dispatch, again) = (dispatch.clone(), span.clone());
        let poll = move || tracing::dispatcher::with_default(&dispatch, || again.in_scope(|| ()));
        std::thread::spawn(poll).join().expect("a thread");
        next.in_scope(|| ());
    };
    both("flows", true, work, |trace| {
        let mut flows = Vec::new();
        for packet in trace.packets() {
            let Some(event) = message(packet, 11).filter(|event| number(event, 9) == Some(1)) else {
                continue;
            };
            let of_event = fields(event).into_iter().filter_map(|field| match field {
                Field::Number(47, flow) => Some(flow),
                _ => None,
            });
            flows.push((number(packet, 10), of_event.collect::<Vec<_>>()));
        }
        let task: Vec<_> = flows.iter().filter(|(_, flows)| flows.len() == 1).collect();
        assert_eq!(task.len(), 2, "{flows:?}");
        assert_eq!(task[0].1, task[1].1, "one flow");
        assert_ne!(task[0].0, task[1].0, "two threads");
        let next = flows.iter().find(|(_, flows)| flows.len() == 2).expect("what follows");
        assert_eq!(next.1[1], task[0].1[0]);
    });
}

#[test]
fn of_a_span_s_slices_the_first_is_where_the_flow_of_one_that_it_follows_goes() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("task");
        span.in_scope(|| ());
        let next = tracing::info_span!("next");
        next.follows_from(&span);
        next.in_scope(|| ());
        next.in_scope(|| ());
    };
    both("follows", true, work, |trace| assert_eq!(counts(trace, 1, FLOW), [1, 2, 1]));
}

#[test]
fn a_span_that_is_followed_twice_or_by_itself_is_one_arrow_and_none() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("task");
        span.in_scope(|| ());
        let next = tracing::info_span!("next");
        for followed in [&span, &next, &span] {
            next.follows_from(followed);
        }
        next.in_scope(|| ());
        next.follows_from(&span);
        next.in_scope(|| ());
    };
    both("twice", true, work, |trace| assert_eq!(counts(trace, 1, FLOW), [1, 2, 2]));
}

#[test]
fn of_many_spans_that_one_follows_the_newest_64_go_to_its_next_slice() {
    let work = |_: &Dispatch| {
        let span = tracing::info_span!("worker");
        for _ in 0..100 {
            let request = tracing::info_span!("request");
            span.follows_from(&request);
        }
        let last = tracing::info_span!("last");
        last.in_scope(|| ());
        span.follows_from(&last);
        span.in_scope(|| ());
        span.in_scope(|| ());
    };
    both("newest", true, work, |trace| {
        assert_eq!(counts(trace, 1, FLOW), [1, 65, 1]);
        let begins = trace.packets().filter_map(|packet| message(packet, 11));
        let begins: Vec<_> = begins.filter(|event| number(event, 9) == Some(1)).map(fields).collect();
        let last =
            |begin: &[Field<'_>]| match begin.iter().rfind(|field| matches!(field, Field::Number(FLOW, _))) {
                Some(Field::Number(_, flow)) => Some(*flow),
                _ => None,
            };
        assert_eq!(last(&begins[0]), last(&begins[1]), "the newest");
    });
}
