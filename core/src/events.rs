//! What recorders of events have in common, for guards, hooks and interfaces that are written once.

/// Records the events of one priority, core or task.
///
/// Two implement it: a writer of what is recorded in place (`inplace::Writer`), and a tracer of whole packets
/// (`producer::track_event::Tracer`). Each has more of its own, such as arguments.
///
/// ```
/// use tracebuf::Events;
/// use tracebuf::inplace::{Recorder, Region};
///
/// /// Whatever it is recorded with.
/// fn step(events: &impl Events) {
///     events.begin("step");
///     events.count("level", 7);
///     events.end();
/// }
///
/// static TRACE: Region<16, 32, 4> = Region::zeroed();
/// step(&Recorder::new(&TRACE, || 0, 1_000).writer("main loop"));
/// ```
pub trait Events {
    /// Another track than the writer's own: a task, a device.
    type Track: Copy;

    /// The beginning of a slice.
    fn begin(&self, name: &'static str);

    /// The end of the slice that was begun last.
    fn end(&self);

    /// An instant.
    fn instant(&self, name: &'static str);

    /// A counter's value.
    fn count(&self, counter: &'static str, value: i64);

    /// The beginning of a slice on another track.
    fn begin_on(&self, track: Self::Track, name: &'static str);

    /// The end of the slice that was begun last on that track.
    fn end_on(&self, track: Self::Track);

    /// An instant on another track.
    fn instant_on(&self, track: Self::Track, name: &'static str);

    /// The task that runs from here on, on its track; `None` when none does. What runs on this core is told by one
    /// writer: each call ends what the one before it has begun.
    fn switch(&self, task: Option<Self::Track>);
}

/// Events on tracks whose names are known only when the program runs, such as an operating system's tasks.
pub trait NewTracks: Events {
    /// A track. Those with the same name and number are one. The name is copied.
    fn track(&self, name: &str, number: u32) -> Self::Track;
}
