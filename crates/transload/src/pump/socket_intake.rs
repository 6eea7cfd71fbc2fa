//! From a socket straight into slots.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::{Errno, ioctl_fionread};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recv, recvmsg};

use super::{Intake, LENGTH_BYTES, SlotLayout};
use crate::staging::{BatchReservation, EnqueueError};

/// The most bytes of one receive. Each costs the kernel some microseconds beside the copy, for locks and for telling the
/// peer that there is room again, so they should be large; but the pump waits for its end.
const ROUND_BYTES: usize = 1 << 20;

/// The most pieces of memory of one receive: the kernel's `UIO_MAXIOV`, of which one is for a tail.
const MOST_PIECES: usize = 1023;

/// Where what is turned away is read into, at least so many bytes at once.
const REFUSED_BYTES: usize = 64 << 10;

/// Receives from sockets straight into the slots of a pump's ring: one per thread, for any number of connections.
///
/// What is already there is asked for, as many slots are reserved, and the kernel copies into them without blocking.
/// So no reservation ever waits for a peer. With [`SlotLayout::Dense`] the beginning of a message whose rest has not
/// come yet is kept in the connection's [`Remainder`], and is copied into its slot when it has: those are the only
/// bytes that are copied twice, and they are counted.
///
/// ```
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
/// use transload::device::{Driver, host};
/// use transload::pump::{Drained, Intake, OnFull, Pump, PumpOptions, Remainder, SlotLayout, SocketIntake};
/// use transload::staging::PinnedStagingBuffer;
///
/// let device = host::Host.open(0)?;
/// let (producer, consumer) = PinnedStagingBuffer::new(1024, 4)?.split();
/// let pump = Pump::open(&*device, consumer, PumpOptions::default())?;
/// let mut sockets = SocketIntake::new(Intake::new(producer, OnFull::Block, &pump)?, SlotLayout::Dense);
/// let running = pump.spawn()?;
///
/// let (mut peer, connection) = UnixStream::pair()?;
/// peer.write_all(b"one.two.th")?;
/// let mut remainder = Remainder::default();
/// let drained = sockets.receive(&connection, &mut remainder, usize::MAX, |message| {
///     assert!(message.ends_with(b"."));
/// })?;
/// assert_eq!(drained, Drained::Bytes { received: 10, messages: 2, staged: 0 });
/// assert_eq!(remainder.len(), 2);
///
/// drop(sockets);
/// assert_eq!(running.join().delivered, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SocketIntake {
    intake: Intake,
    layout: SlotLayout,
    /// Empty between two calls: kept for its allocation.
    pieces: Vec<IoSliceMut<'static>>,
    /// What has come behind the last whole message, on its way into a remainder.
    tail: Vec<u8>,
    /// Where what is turned away is read into. Empty until then.
    refused: Vec<u8>,
}

/// The beginning of a message whose rest has not come yet: one per connection, shorter than a message.
#[derive(Clone, Debug, Default)]
pub struct Remainder {
    bytes: Vec<u8>,
    /// The last call found bytes. If the next finds none, it need not ask whether the peer has ended.
    flows: bool,
}

/// What a call has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drained {
    /// Bytes. There may be more.
    Bytes {
        /// How many were received.
        received: usize,
        /// How many messages they completed, those that were turned away included.
        messages: usize,
        /// How many bytes were copied once more on their way into slots.
        staged: usize,
    },
    /// Nothing is there now.
    Nothing,
    /// The peer will send no more. A remainder stays one.
    End,
}

/// Why nothing more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SocketIntakeError {
    /// The ring is closed.
    #[error("the staging ring is closed")]
    Closed,
    /// The connection is broken.
    #[error("receive: {}", std::io::Error::from_raw_os_error(*.code))]
    Os {
        /// The number of the error (`errno`).
        code: i32,
    },
}

/// What is in a socket.
enum There {
    Bytes(usize),
    Nothing,
    End,
}

impl Remainder {
    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the connection stands between two messages.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn replace(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.bytes.extend_from_slice(bytes);
    }
}

impl SocketIntake {
    /// Receives for this intake.
    ///
    /// # Panics
    ///
    /// If the slots have no room for a payload in this layout.
    pub fn new(intake: Intake, layout: SlotLayout) -> Self {
        assert!(
            layout.payload_bytes(intake.message_size()) > 0,
            "slots of {} bytes have no room behind a length of {LENGTH_BYTES} bytes",
            intake.message_size()
        );
        Self { intake, layout, pieces: Vec::new(), tail: Vec::new(), refused: Vec::new() }
    }

    /// The intake.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Receives what is already there, as far as one call can: never waits for the peer. `note` sees each slot before
    /// it is on its way.
    ///
    /// An end, and a broken connection, may be told a call later than they are there: ask again when the socket is
    /// readable, as one with either always is.
    ///
    /// With a policy that waits for room it may wait for that, as [`Intake::reserve`] does. With one that does not, the
    /// messages for which there is no room are read, counted and forgotten.
    ///
    /// # Errors
    ///
    /// [`SocketIntakeError`]; what was received before is on its way.
    pub fn receive(
        &mut self,
        socket: impl AsFd,
        remainder: &mut Remainder,
        max_messages: usize,
        note: impl FnMut(&[u8]),
    ) -> Result<Drained, SocketIntakeError> {
        let socket = socket.as_fd();
        let flowed = std::mem::take(&mut remainder.flows);
        let there = match there(socket, flowed)? {
            There::Bytes(there) => there,
            There::Nothing => return Ok(Drained::Nothing),
            There::End => return Ok(Drained::End),
        };
        let received = match self.layout {
            SlotLayout::Dense => self.receive_dense(socket, there, remainder, max_messages, note),
            SlotLayout::Prefixed => self.receive_prefixed(socket, there, max_messages, note),
        };
        match received {
            // Urgent data of a Unix socket is counted, and never received here: behind it the end is found only so.
            Ok(Drained::Bytes { received: 0, .. }) => Ok(Drained::End),
            // Somebody else took it.
            Err(SocketIntakeError::Os { code: AGAIN }) => Ok(Drained::Nothing),
            other => {
                remainder.flows = true;
                other
            }
        }
    }

    /// How many messages one call takes at most.
    fn most_messages(&self, max_messages: usize) -> usize {
        (ROUND_BYTES / self.intake.message_size()).max(1).min(max_messages)
    }

    fn receive_prefixed(
        &mut self,
        socket: BorrowedFd<'_>,
        there: usize,
        max_messages: usize,
        mut note: impl FnMut(&[u8]),
    ) -> Result<Drained, SocketIntakeError> {
        let slot_bytes = self.intake.message_size();
        let payload_bytes = self.layout.payload_bytes(slot_bytes);
        let wanted = there.div_ceil(payload_bytes).min(MOST_PIECES).min(self.most_messages(max_messages));
        if wanted == 0 {
            return Ok(Drained::Nothing);
        }
        let Some(mut slots) = self.intake.reserve(wanted)? else {
            return self.turn_away_any(socket, wanted * payload_bytes);
        };
        let mut pieces = recycled(std::mem::take(&mut self.pieces));
        let mut left = there;
        for slot in each(&mut slots, slot_bytes) {
            let part = left.min(payload_bytes);
            pieces.push(IoSliceMut::new(&mut slot[LENGTH_BYTES..LENGTH_BYTES + part]));
            left -= part;
        }
        let received = receive(socket, &mut pieces);
        self.pieces = recycled(pieces);
        let received = received?;
        let messages = received.div_ceil(payload_bytes);
        let mut left = received;
        for slot in each(&mut slots, slot_bytes).take(messages) {
            let part = left.min(payload_bytes);
            self.layout.complete(slot, part);
            note(slot);
            left -= part;
        }
        slots.commit_prefix(messages);
        Ok(Drained::Bytes { received, messages, staged: 0 })
    }

    fn receive_dense(
        &mut self,
        socket: BorrowedFd<'_>,
        there: usize,
        remainder: &mut Remainder,
        max_messages: usize,
        mut note: impl FnMut(&[u8]),
    ) -> Result<Drained, SocketIntakeError> {
        let size = self.intake.message_size();
        let held = remainder.len();
        let whole = (held + there) / size;
        if whole == 0 {
            remainder.bytes.resize(held + there, 0);
            let received = receive(socket, &mut [IoSliceMut::new(&mut remainder.bytes[held..])]);
            remainder.bytes.truncate(held + received.unwrap_or(0));
            return Ok(Drained::Bytes { received: received?, messages: 0, staged: 0 });
        }
        let wanted = whole.min(self.most_messages(max_messages));
        if wanted == 0 {
            return Ok(Drained::Nothing);
        }
        let Some(mut slots) = self.intake.reserve(wanted)? else {
            return self.turn_away_whole(socket, remainder, wanted);
        };
        let reserved = slots.len();
        let tail_bytes = if reserved == whole { (held + there) % size } else { 0 };
        self.tail.clear();
        self.tail.resize(tail_bytes, 0);
        let (first, second) = slots.as_mut_slices();
        let (beginning, first) = first.split_at_mut(held);
        beginning.copy_from_slice(&remainder.bytes);
        let mut pieces = [first, second, &mut self.tail[..]].map(IoSliceMut::new);
        let received = receive(socket, &mut pieces)?;
        let all = held + received;
        let messages = (all / size).min(reserved);
        let left = all - messages * size;
        let mut staged = held;
        if messages == reserved {
            remainder.replace(&self.tail[..left]);
        } else {
            // Less has come than was there. It happens at a mark of urgent data, or between two processes' bytes.
            let part = each(&mut slots, size).nth(messages).and_then(|slot| slot.get(..left));
            remainder.replace(part.unwrap_or_default());
            staged += left;
        }
        each(&mut slots, size).take(messages).for_each(|slot| note(slot));
        slots.commit_prefix(messages);
        Ok(Drained::Bytes { received, messages, staged })
    }

    /// Reads bytes of which any number is a message, and forgets them.
    fn turn_away_any(&mut self, socket: BorrowedFd<'_>, bytes: usize) -> Result<Drained, SocketIntakeError> {
        let payload_bytes = self.layout.payload_bytes(self.intake.message_size());
        self.refused.resize(REFUSED_BYTES.max(payload_bytes), 0);
        // As many messages as there would have been.
        let bytes = bytes.min(self.refused.len() / payload_bytes * payload_bytes);
        let received = receive(socket, &mut [IoSliceMut::new(&mut self.refused[..bytes])])?;
        let messages = received.div_ceil(payload_bytes);
        self.intake.turn_away(messages);
        Ok(Drained::Bytes { received, messages, staged: 0 })
    }

    /// Reads whole messages and forgets them.
    fn turn_away_whole(
        &mut self,
        socket: BorrowedFd<'_>,
        remainder: &mut Remainder,
        messages: usize,
    ) -> Result<Drained, SocketIntakeError> {
        let (size, held) = (self.intake.message_size(), remainder.len());
        self.refused.resize(REFUSED_BYTES.max(size), 0);
        let bytes = messages.min(self.refused.len() / size) * size - held;
        let received = receive(socket, &mut [IoSliceMut::new(&mut self.refused[..bytes])])?;
        let (messages, left) = ((held + received) / size, (held + received) % size);
        if messages == 0 {
            remainder.bytes.extend_from_slice(&self.refused[..received]);
        } else {
            remainder.replace(&self.refused[received - left..received]);
        }
        self.intake.turn_away(messages);
        Ok(Drained::Bytes { received, messages, staged: 0 })
    }
}

/// The slots of a reservation, one by one.
fn each<'a>(
    slots: &'a mut BatchReservation<'_>,
    slot_bytes: usize,
) -> impl Iterator<Item = &'a mut [u8]> + use<'a> {
    let (first, second) = slots.as_mut_slices();
    first.chunks_exact_mut(slot_bytes).chain(second.chunks_exact_mut(slot_bytes))
}

/// The same allocation, for pieces of other memory: an empty vector that is collected in place keeps its allocation.
fn recycled<'a>(mut pieces: Vec<IoSliceMut<'_>>) -> Vec<IoSliceMut<'a>> {
    pieces.clear();
    pieces.into_iter().map(|_| IoSliceMut::new(&mut [])).collect()
}

const AGAIN: i32 = Errno::AGAIN.raw_os_error();

/// What is there, without taking it. If bytes `flowed` just now, an end is left for the next call to find.
fn there(socket: BorrowedFd<'_>, flowed: bool) -> Result<There, SocketIntakeError> {
    loop {
        let bytes = ioctl_fionread(socket)?;
        if bytes > 0 {
            return Ok(There::Bytes(usize::try_from(bytes).unwrap_or(usize::MAX)));
        }
        if flowed {
            return Ok(There::Nothing);
        }
        match recv(socket, &mut [0_u8; 1][..], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, 0)) => return Ok(There::End),
            // Something has come since. Or it lies behind a mark of urgent data, up to which bytes are counted, and
            // which is passed by a receive only.
            Ok(_) => {
                let bytes = usize::try_from(ioctl_fionread(socket)?).unwrap_or(usize::MAX);
                return Ok(There::Bytes(bytes.max(1)));
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(There::Nothing),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Receives into these pieces what is there, without blocking.
fn receive(socket: BorrowedFd<'_>, pieces: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    loop {
        match recvmsg(socket, pieces, &mut RecvAncillaryBuffer::default(), RecvFlags::DONTWAIT) {
            Err(Errno::INTR) => {}
            received => return received.map(|received| received.bytes),
        }
    }
}

impl From<Errno> for SocketIntakeError {
    fn from(errno: Errno) -> Self {
        Self::Os { code: errno.raw_os_error() }
    }
}

impl From<EnqueueError> for SocketIntakeError {
    /// An intake says nothing else.
    fn from(_: EnqueueError) -> Self {
        Self::Closed
    }
}
