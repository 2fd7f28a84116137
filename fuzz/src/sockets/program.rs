//! A program at the other end of a socket.

use crate::input::Input;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, send,
    sendmsg, socket_with,
};
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tracebuf::producer::{ChunkPatch, ChunkToMove, Request};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Own,
    Perfetto,
}

const PAGE: u64 = 4096;

// Methods of Perfetto's `ProducerPort`, as the service numbers them.
const INITIALIZE: u64 = 1;
const REGISTER: u64 = 2;
const COMMIT: u64 = 4;
const LISTEN: u64 = 5;
const REGISTER_WRITER: u64 = 6;
const UNREGISTER_WRITER: u64 = 7;

pub(super) struct Program {
    protocol: Protocol,
    socket: OwnedFd,
    memory: Option<File>,
    is_over: bool,
    requests: u64,
    chunks: u32,
}

impl Program {
    pub(super) fn come(protocol: Protocol, path: &Path) -> Self {
        let kind = match protocol {
            Protocol::Own => SocketType::SEQPACKET,
            Protocol::Perfetto => SocketType::STREAM,
        };
        let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("a socket");
        connect(&socket, &SocketAddrUnix::new(path).expect("a short path")).expect("somebody listens");
        Self { protocol, socket, memory: None, is_over: false, requests: 0, chunks: 0 }
    }

    /// Sends what it takes to be given memory, and waits for that, at most for `patience`.
    pub(super) fn get_ready(&mut self, patience: Duration) {
        if self.protocol == Protocol::Perfetto {
            let bind = number(Vec::new(), 2, 1);
            self.frame(&bytes(bind, 3, &bytes(Vec::new(), 1, b"ProducerPort")));
            self.invoke(INITIALIZE, &number(Vec::new(), 9, 3), true);
            self.invoke(LISTEN, &[], true);
            let descriptor = number(number(bytes(Vec::new(), 1, b"theirs"), 2, 1), 3, 1);
            self.invoke(REGISTER, &bytes(Vec::new(), 1, &descriptor), true);
        }
        let deadline = Instant::now() + patience;
        while self.memory.is_none() && !self.is_over && Instant::now() < deadline {
            let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
            let timeout = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            let _ = poll(&mut ready, Some(&timeout));
            self.hear();
        }
    }

    /// Takes what has come, and any file with it.
    pub(super) fn hear(&mut self) {
        let (mut bytes, mut room) = ([0; 65536], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        loop {
            let mut control = RecvAncillaryBuffer::new(&mut room);
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            let heard = recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
            for message in control.drain() {
                let RecvAncillaryMessage::ScmRights(files) = message else { continue };
                self.memory = files.last().map(File::from).or(self.memory.take());
            }
            match heard {
                Ok(heard) if heard.bytes > 0 => {}
                Err(rustix::io::Errno::AGAIN) => return,
                _ => {
                    self.is_over = true;
                    return;
                }
            }
        }
    }

    /// Sends bytes as they are.
    pub(super) fn send(&self, bytes: &[u8]) {
        // The service may have closed the connection.
        let _ = send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }

    /// Sends bytes as they are, with files that nobody asked for.
    pub(super) fn send_with_files(&self, input: &mut Input<'_>) {
        let file = memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("a file");
        let count = usize::from(input.byte()) % 5;
        let files: Vec<BorrowedFd<'_>> = std::iter::repeat_n(file.as_fd(), count).collect();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = sendmsg(&self.socket, &[IoSlice::new(input.bytes(64))], &mut control, flags);
    }

    /// Changes the shared memory.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) {
        if let Some(memory) = &self.memory {
            memory.write_all_at(bytes, at % (4 * PAGE - 16)).expect("within it");
        }
    }

    /// Writes a page's only chunk roughly as an honest writer leaves it, and reports it.
    pub(super) fn write_chunk(&mut self, input: &mut Input<'_>) {
        let (page, writer, how) = (u64::from(input.byte() % 4), u16::from(input.byte() % 4), input.byte());
        let target = u16::from(how >> 7);
        let packet = input.bytes(32);
        let size = packet.len() as u8;
        // Its number, its writer, the number of packets, and flags.
        let header = [
            &self.chunks.to_le_bytes()[..],
            &writer.to_le_bytes(),
            &(u16::from(how & 3) | u16::from(how >> 2 & 7) << 10).to_le_bytes(),
            &[size],
            packet,
        ];
        self.chunks = self.chunks.wrapping_add(1 + u32::from(how >> 5 & 3));
        self.write(page * PAGE + 8, &header.concat());
        // One chunk, complete or being written.
        let state = if how & 0x20 == 0 { 3 } else { 1 };
        self.write(page * PAGE, &(1_u32 << 28 | state).to_le_bytes());
        if how & 0x40 == 0 {
            self.say(&Request::Register { writer_id: writer, target });
        }
        self.say(&Request::Move(ChunkToMove { page: page as u32, chunk: 0, target }));
    }

    /// Sends it in the protocol's form.
    pub(super) fn say(&mut self, request: &Request) {
        if self.protocol == Protocol::Own {
            return self.send(&request.to_bytes());
        }
        let buffer = |target: u16| u64::from(target) + 1;
        match *request {
            Request::Register { writer_id, target } => {
                let arguments = number(number(Vec::new(), 1, writer_id.into()), 2, buffer(target));
                self.invoke(REGISTER_WRITER, &arguments, false);
            }
            Request::Unregister { writer_id } => {
                self.invoke(UNREGISTER_WRITER, &number(Vec::new(), 1, writer_id.into()), false);
            }
            Request::Move(ChunkToMove { page, chunk, target }) => {
                let chunk = number(number(Vec::new(), 1, page.into()), 2, chunk.into());
                let chunk = number(chunk, 3, buffer(target));
                self.invoke(COMMIT, &bytes(Vec::new(), 1, &chunk), true);
            }
            Request::Patch { writer_id, target, patch: ChunkPatch { chunk_id, offset, data }, has_more } => {
                let patch = bytes(number(Vec::new(), 1, offset.into()), 2, &data);
                let chunk = number(number(Vec::new(), 1, buffer(target)), 2, writer_id.into());
                let chunk = number(bytes(number(chunk, 3, chunk_id.into()), 4, &patch), 5, has_more.into());
                self.invoke(COMMIT, &bytes(Vec::new(), 2, &chunk), false);
            }
            Request::Flush(flush) => self.invoke(COMMIT, &number(Vec::new(), 3, flush.into()), false),
        }
    }

    /// Sends anything in the protocol's form: a record of any kind, or a call with any arguments.
    pub(super) fn call(&mut self, input: &mut Input<'_>) {
        if self.protocol == Protocol::Own {
            let mut record = [0; 16];
            record[0] = input.byte();
            record[4] = input.byte();
            record[8] = input.byte();
            return self.send(&record.repeat(1 + usize::from(input.byte()) % 300));
        }
        let (method, how) = (u64::from(input.byte() % 16), input.byte());
        let mut arguments = Vec::new();
        for _ in 0..how % 8 {
            let (field, kind) = (u32::from(input.byte() % 16), input.byte());
            arguments = match kind % 4 {
                0 => number(arguments, field, input.u32().into()),
                1 => number(arguments, field, input.byte().into()),
                // A nested message.
                2 => bytes(arguments, field, &number(Vec::new(), 1, input.byte().into())),
                _ => bytes(arguments, field, input.bytes(usize::from(kind / 4))),
            };
        }
        self.invoke(method, &arguments, how >= 128);
    }

    fn invoke(&mut self, method: u64, arguments: &[u8], wants_reply: bool) {
        self.requests += 1;
        let invoke = bytes(number(number(Vec::new(), 1, 1), 2, method), 3, arguments);
        let invoke = number(invoke, 4, (!wants_reply).into());
        self.frame(&bytes(number(Vec::new(), 2, self.requests), 5, &invoke));
    }

    fn frame(&self, frame: &[u8]) {
        self.send(&[&(frame.len() as u32).to_le_bytes(), frame].concat());
    }
}

fn varint(mut message: Vec<u8>, mut value: u64) -> Vec<u8> {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
    message
}

fn number(message: Vec<u8>, field: u32, value: u64) -> Vec<u8> {
    varint(varint(message, u64::from(field) << 3), value)
}

fn bytes(message: Vec<u8>, field: u32, bytes: &[u8]) -> Vec<u8> {
    let mut message = varint(varint(message, u64::from(field) << 3 | 2), bytes.len() as u64);
    message.extend_from_slice(bytes);
    message
}
