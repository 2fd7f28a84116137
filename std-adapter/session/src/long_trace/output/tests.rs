//! Writes that fail, files that are cut, syncs.

use std::cell::Cell;
use std::thread::LocalKey;

use super::*;
use crate::long_trace::backlog::backlog;
use crate::long_trace::past::Past;
use tracebuf_std::system::{NULL_DEVICE, for_one_writer};

thread_local! {
    /// Calls that are still to succeed, and then those that are to fail.
    static WRITES: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
    static CUTS: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

fn fails(calls: &'static LocalKey<Cell<(u32, u32)>>) -> bool {
    let (well, ill) = calls.get();
    calls.set(if well > 0 { (well - 1, ill) } else { (0, ill.saturating_sub(1)) });
    well == 0 && ill > 0
}

/// Something that takes everything.
fn nowhere() -> File {
    std::fs::OpenOptions::new().write(true).open(NULL_DEVICE).expect("a file")
}

fn output(file: File) -> Output {
    let id = tracebuf_std::system::id_of(&file).expect("an id");
    Output::new(Opened { file, lock: None, id, folder: None }, None, Arc::default())
}

fn run(output: &mut Output, messages: impl IntoIterator<Item = Message>) {
    let (sender, receiver) = backlog(usize::MAX, 1 << 20, Past::default(), output.progress.clone());
    messages.into_iter().for_each(|message| assert!(sender.send(message)));
    drop(sender);
    output.run(&receiver);
}

#[test]
fn a_sync_that_failed_is_told_to_the_end_though_what_comes_after_it_succeeds() {
    let mut output = output(nowhere());
    // Like a disk that fails once: the system reports it once.
    output.sync_data = |_| Err(io::Error::other("Input/output error"));
    let progress = output.progress.clone();
    let said = |output: &mut Output, message| {
        run(output, [message]);
        progress.status().error
    };
    let failed = Some("cannot sync: Input/output error".to_owned());
    assert_eq!(said(&mut output, Message::Sync), failed);
    output.sync_data = |_| Ok(());
    assert_eq!(said(&mut output, Message::Piece(Piece::default())), failed);
    assert_eq!(said(&mut output, Message::Sync), failed);
}

#[test]
fn what_cannot_be_cut_off_at_once_is_cut_off_before_anything_comes_behind_it() {
    let path = std::env::temp_dir().join(format!("tracebuf-torn-{}", std::process::id()));
    let file = for_one_writer().create_new(true).open(&path).expect("a file");
    let mut output = output(file);
    // Like a disk that is full after half of a piece, and then cannot be reached for a while.
    output.write = |mut file, bytes| match fails(&WRITES) {
        true => Err(io::Error::other("no room")),
        false => file.write(&bytes[..bytes.len().div_ceil(2)]),
    };
    output.cut = |file, len| match fails(&CUTS) {
        true => Err(io::Error::other("not reached")),
        false => super::cut(file, len),
    };
    // A packet, whatever is in it.
    let packet = |text: &str| [&[0x0A, text.len() as u8], text.as_bytes()].concat();
    let piece = |text: &str| Message::Piece(Piece { bytes: packet(text), packets: 1 });
    let progress = output.progress.clone();
    run(&mut output, [piece("first")]);
    WRITES.set((1, 1));
    CUTS.set((0, 3));
    run(&mut output, [piece("second"), piece("third")]);
    assert_eq!((WRITES.get(), CUTS.get()), ((0, 0), (0, 0)), "all has failed that was to");
    assert_eq!(std::fs::read(&path).expect("packets"), ["first", "second", "third"].map(packet).concat());
    let status = progress.status();
    assert_eq!((status.bytes, status.error), (22, None));
    // At the end this is not waited for.
    progress.finishing.store(true, Ordering::Relaxed);
    WRITES.set((1, 1));
    CUTS.set((0, 1));
    run(&mut output, [piece("fourth"), piece("fifth")]);
    let status = progress.status();
    assert_eq!((status.bytes, status.bytes_given_up), (22, 15));
    let error = "no room; a piece that went in in part cannot be cut off: not reached";
    assert_eq!(status.error.as_deref(), Some(error));
    std::fs::remove_file(path).expect("it is there");
}

#[test]
fn a_sync_is_one_of_the_file_and_the_first_one_of_its_folder_too() {
    thread_local!(static SYNCED: Cell<(u32, u32)> = const { Cell::new((0, 0)) });
    let mut output = output(nowhere());
    output.unsynced_folder = Some(std::env::temp_dir());
    output.sync_data = |_| {
        SYNCED.set((SYNCED.get().0 + 1, SYNCED.get().1));
        Ok(())
    };
    output.sync_folder = |folder| {
        assert_eq!(folder, std::env::temp_dir());
        SYNCED.set((SYNCED.get().0, SYNCED.get().1 + 1));
        Ok(())
    };
    let piece = || Message::Piece(Piece { bytes: vec![0x0A, 2, 0x40, 5], packets: 1 });
    run(&mut output, [piece(), piece()]);
    assert_eq!((SYNCED.get(), output.progress.status().syncs), ((0, 0), 0));
    run(&mut output, [Message::Sync, piece(), Message::Sync]);
    assert_eq!((SYNCED.get(), output.progress.status().syncs), ((2, 1), 2));
}
