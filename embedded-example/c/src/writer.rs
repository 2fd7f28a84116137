//! Writers and tracks, which lie in the caller's memory, and their events.

use crate::recorder::{NOT_YET, OK, TWICE, Ticks, Trace, WRONG, Writer, recorder};
use crate::text::{Name, text};
use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::ptr::{addr_of, addr_of_mut};
use tracebuf_embedded::inplace::{Details, TrackId};

/// What the header has as `opaque` words: zeros until something is made there.
#[repr(C)]
struct Place<T> {
    mark: u32,
    made: MaybeUninit<T>,
}

/// Something is made there: not what memory is likely to hold by chance, and compared by one instruction.
const MADE: u32 = 0xC5C5_C5C5;

#[cfg(target_pointer_width = "32")]
const _: () = assert!(
    size_of::<Place<Writer>>() == 32 && size_of::<Place<TrackId>>() == 8,
    "tracebuf.h: opaque words of tracebuf_writer and tracebuf_track"
);

/// What was made there.
///
/// # Safety
/// The place is null, or aligned memory of that size, which nobody changes meanwhile.
unsafe fn made<'p, T>(place: *const Place<T>) -> Option<&'p T> {
    if place.is_null() {
        return None;
    }
    // SAFETY: the caller's promise; with the mark, a value was written, to where it is aligned.
    unsafe { (addr_of!((*place).mark).read() == MADE).then(|| (*place).made.assume_init_ref()) }
}

/// Makes something in a place.
///
/// # Safety
/// As [`made`]; and nobody else uses it.
unsafe fn make<T>(place: *mut Place<T>, new: impl FnOnce() -> Option<T>) -> i32 {
    if place.is_null() || !place.is_aligned() {
        return WRONG;
    }
    // SAFETY: the caller's promise.
    if unsafe { made(place) }.is_some() {
        return TWICE;
    }
    let Some(new) = new() else { return NOT_YET };
    // SAFETY: the caller's promise.
    unsafe {
        addr_of_mut!((*place).made).write(MaybeUninit::new(new));
        addr_of_mut!((*place).mark).write(MADE);
    }
    OK
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_writer_init(writer: *mut Place<Writer>, name: *const c_char) -> i32 {
    // SAFETY: the caller's promises.
    unsafe { make(writer, || Some(recorder()?.writer(text(name)))) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_writer_end(writer: *mut Place<Writer>) {
    // SAFETY: the caller's promise; without the mark it is not used again.
    unsafe {
        if made(writer).is_some() {
            addr_of_mut!((*writer).mark).write(0);
            (*writer).made.assume_init_drop();
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tracebuf_track_init(
    track: *mut Place<TrackId>,
    name: *const c_char,
    number: u32,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe { make(track, || Some(recorder()?.track(text(name), number))) }
}

/// Functions that record something with a writer, if it is one. The caller's promises are those of the header: a writer
/// is used by one priority, pointers are null or lead to what their types say, and names never change.
macro_rules! events {
    ($($name:ident($writer:ident $(, $argument:ident: $type:ty)*) $event:block)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(writer: *const Place<Writer> $(, $argument: $type)*) {
            // SAFETY: the caller's promises.
            unsafe {
                let Some($writer) = made(writer) else { return };
                $event
            }
        }
    )*};
}

events! {
    tracebuf_begin(writer, name: *const c_char) {
        writer.named(Name::new(name)).begin();
    }

    tracebuf_end(writer) {
        writer.named(Name::new(core::ptr::null())).end();
    }

    tracebuf_instant(writer, name: *const c_char) {
        writer.named(Name::new(name)).instant();
    }

    tracebuf_count(writer, counter: *const c_char, value: i32) {
        writer.named(Name::new(counter)).count(value);
    }

    tracebuf_count_i64(writer, counter: *const c_char, value: i64) {
        writer.named(Name::new(counter)).count_i64(value);
    }

    tracebuf_count_f32(writer, counter: *const c_char, value: f32) {
        writer.named(Name::new(counter)).measure(value);
    }

    tracebuf_log(writer, priority: u32, tag: *const c_char, line: *const c_char) {
        writer.log(u8::try_from(priority).unwrap_or(u8::MAX), text(tag), text(line));
    }

    tracebuf_begin_with(writer, name: *const c_char, details: *const EventDetails) {
        writer.begin_with(text(name), |to| add(details, to));
    }

    tracebuf_instant_with(writer, name: *const c_char, details: *const EventDetails) {
        writer.instant_with(text(name), |to| add(details, to));
    }

    tracebuf_begin_on(writer, track: *const Place<TrackId>, name: *const c_char) {
        if let Some(track) = made(track) {
            writer.on(*track).begin(text(name));
        }
    }

    tracebuf_end_on(writer, track: *const Place<TrackId>) {
        if let Some(track) = made(track) {
            writer.on(*track).end();
        }
    }

    tracebuf_instant_on(writer, track: *const Place<TrackId>, name: *const c_char) {
        if let Some(track) = made(track) {
            writer.on(*track).instant(text(name));
        }
    }
}

/// A `tracebuf_arg`.
#[repr(C)]
struct Argument {
    name: *const c_char,
    text: *const c_char,
    number: i32,
}

/// A `tracebuf_details`.
#[repr(C)]
struct EventDetails {
    flow: u32,
    arguments: [Argument; 2],
}

/// Adds the caller's details to an event's.
///
/// # Safety
/// Null, or details whose names never change.
unsafe fn add(details: *const EventDetails, to: &mut Details<'_, 'static, Trace, Ticks>) {
    if details.is_null() || !details.is_aligned() {
        return;
    }
    // SAFETY: the caller's promise.
    let details = unsafe { &*details };
    if details.flow != 0 {
        to.flow(details.flow);
    }
    for argument in details.arguments.iter().filter(|argument| !argument.name.is_null()) {
        // SAFETY: the caller's promise.
        let (name, value) = unsafe { (text(argument.name), text(argument.text)) };
        match argument.text.is_null() {
            true => to.arg(name, argument.number),
            false => to.arg_text(name, value),
        };
    }
}
