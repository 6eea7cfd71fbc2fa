//! Lanes whose other end is a process of its own, or a memory that says what the test likes.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::cast_possible_truncation,
    clippy::unwrap_used,
    reason = "each test file uses its part of this, counts little, and may panic"
)]

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg,
};
use transload::shared::isolated::{Consumer, Lane, Offer, Producer};

use super::hostile_kit::{LIMIT, Raw};

/// What each memory of a lane is sealed with.
pub const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL).union(SealFlags::FUTURE_WRITE);

/// Where the words are.
pub const POSITION: usize = 4096;
pub const SIGNAL: usize = POSITION + 128;
pub const ASLEEP: usize = SIGNAL + 128;
pub const LENGTHS: usize = SIGNAL + 256;
const GRAIN: usize = 64 << 10;

/// A lane, both ends in this process.
pub fn lane(slots: usize, slot_bytes: usize) -> (Producer, Lane) {
    let offer = Offer::builder(slots, slot_bytes).create().unwrap();
    let lane = Lane::from_file(offer.file_for_peer().unwrap()).unwrap();
    (offer.connect(lane.file_for_peer().unwrap()).unwrap(), lane)
}

/// A consumer of these.
pub fn consumer(lanes: impl IntoIterator<Item = Lane>) -> Consumer {
    let mut consumer = Consumer::new();
    lanes.into_iter().for_each(|lane| {
        consumer.add(lane);
    });
    consumer
}

/// The header of a memory: of a producer (1) or a consumer (2).
pub fn header(owner: u8, slots: usize, slot_bytes: usize, id: [u64; 2]) -> Vec<u64> {
    let magic = u64::from_le_bytes([b't', b'l', b'-', b'l', b'a', b'n', b'e', owner]);
    let (lengths, bytes) = if owner == 1 { (slots * 8, slots * slot_bytes) } else { (0, 0) };
    let begin = (LENGTHS + lengths).next_multiple_of(GRAIN);
    let end = (begin + bytes).next_multiple_of(GRAIN);
    let numbers = [slots, slot_bytes, GRAIN].map(|number| number as u64);
    [&[magic, 0x0102_0304_0506_0708, 1], &numbers[..], &id, &[begin as u64, end as u64]].concat()
}

/// A memory as a liar makes it: mapped for writing, with all of its pages, and then sealed.
pub fn memory(words: &[u64], len_bytes: u64, seals: SealFlags) -> (Raw, OwnedFd) {
    sparse_memory(words, len_bytes, len_bytes, seals)
}

/// The same, with only so many bytes of it there.
pub fn sparse_memory(words: &[u64], len_bytes: u64, there: u64, seals: SealFlags) -> (Raw, OwnedFd) {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("liar", flags).unwrap();
    rustix::fs::ftruncate(&file, len_bytes).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, there).unwrap();
    let raw = Raw::of(file.try_clone().unwrap());
    for (nth, &word) in words.iter().enumerate() {
        raw.word(nth * 8).store(word);
    }
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    (raw, file)
}

/// The memory of a producer that lies, and the lane that a consumer makes of it.
pub fn lying_producer(slots: usize, slot_bytes: usize) -> (Raw, Lane) {
    let words = header(1, slots, slot_bytes, [1, 2]);
    let (raw, file) = memory(&words, words[9], SEALS);
    (raw, Lane::from_file(file).unwrap())
}

/// The memory of a consumer that lies, and its producer.
pub fn lying_consumer(slots: usize, slot_bytes: usize) -> (Raw, Producer) {
    let offer = Offer::builder(slots, slot_bytes).create().unwrap();
    let id = id_of(&offer.file_for_peer().unwrap());
    let words = header(2, slots, slot_bytes, id);
    let (raw, file) = memory(&words, words[9], SEALS);
    (raw, offer.connect(file).unwrap())
}

/// The id that a memory says.
pub fn id_of(file: &OwnedFd) -> [u64; 2] {
    let mut bytes = [0; 16];
    rustix::io::pread(file, &mut bytes, 48).unwrap();
    let (low, high) = bytes.split_at(8);
    [low, high].map(|half| u64::from_le_bytes(half.try_into().unwrap()))
}

/// Two ends of a socket that carries whole messages.
pub fn socket_pair() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// What is said with a producer's memory, and with a consumer's.
pub const OFFER: &[u8] = b"TLlane\x01\x01";
pub const ANSWER: &[u8] = b"TLlane\x01\x02";

/// Sends bytes and descriptors; says whether anybody is there.
pub fn send(socket: &OwnedFd, bytes: &[u8], files: &[&OwnedFd]) -> bool {
    let mut space = vec![MaybeUninit::uninit(); 256];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    assert!(files.is_empty() || control.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).is_ok()
}

/// The descriptor that comes with the next message; nothing if none comes, and nobody is there.
pub fn receive(socket: &OwnedFd) -> Option<OwnedFd> {
    let finish = Instant::now() + LIMIT;
    while Instant::now() < finish {
        let mut space = vec![MaybeUninit::uninit(); 256];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 8];
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::AGAIN) => std::thread::sleep(Duration::from_micros(200)),
            Err(_) => return None,
            Ok(_) => {
                return control.drain().find_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
                    _ => None,
                });
            }
        }
    }
    None
}

const ROLE: &str = "TRANSLOAD_TEST_LANE_ROLE";

/// The part that this process is to play, and its socket, if it was started by [`process`].
pub fn role() -> Option<(String, OwnedFd)> {
    let value = std::env::var(ROLE).ok()?;
    let (number, role) = value.split_once(' ')?;
    // SAFETY: the parent left this descriptor open for this process, and for this one use.
    let socket = unsafe { OwnedFd::from_raw_fd(number.parse().ok()?) };
    Some((role.to_owned(), socket))
}

/// A process of its own that runs this test with a role, and the socket to it.
pub fn process(test: &str, role: &str) -> (Child, OwnedFd) {
    let (here, there) = socket_pair();
    rustix::io::fcntl_setfd(there.as_fd(), rustix::io::FdFlags::empty()).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ROLE, format!("{} {role}", there.as_raw_fd()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (child, here)
}

/// Ends a process, for good.
pub fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}
