//! The attempts in flight, and all that the kernel may touch for them.

use std::os::fd::{AsRawFd, RawFd};

use io_uring::types::Fd;
use rustix::net::SocketAddrAny;

use crate::pool::Lease;
use crate::proactor::backend::{Group, Piece};
use crate::proactor::file::File;
use crate::proactor::key::Key;
use crate::proactor::socket::Socket;

/// What the kernel hands back: which request, or what else it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Request(Ticket),
    /// A wish that this request may end.
    Cancel(Ticket),
    /// The alarm was rung.
    Alarm,
}

/// A place in the table, and which request there. One key has several requests while notifications of earlier sends are
/// still to come, so it cannot stand for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    index: u32,
    /// 30 bits.
    generation: u32,
}

const GENERATION_MASK: u32 = (1 << 30) - 1;
const CANCEL: u64 = 1 << 62;
const ALARM: u64 = 1 << 63;

impl Token {
    pub(super) fn to_bits(self) -> u64 {
        let bits = |ticket: Ticket| u64::from(ticket.generation) << 32 | u64::from(ticket.index);
        match self {
            Self::Request(ticket) => bits(ticket),
            Self::Cancel(ticket) => CANCEL | bits(ticket),
            Self::Alarm => ALARM,
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "each half is 32 bits")]
    pub(super) fn from_bits(bits: u64) -> Self {
        let ticket = Ticket { index: bits as u32, generation: (bits >> 32) as u32 & GENERATION_MASK };
        if bits & ALARM != 0 {
            Self::Alarm
        } else if bits & CANCEL != 0 {
            Self::Cancel(ticket)
        } else {
            Self::Request(ticket)
        }
    }
}

/// How the kernel's completions of a request are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// How many bytes, or an error.
    Plain,
    /// Which events there are, or an error.
    Readable,
    /// How many bytes or an error, then that memory has been let go of.
    ZeroCopy,
    /// A descriptor, or an error.
    Accept,
    /// The kernel receives again and again, and chooses the buffers.
    Choosing(Group),
    /// Waits until there is something to receive into a buffer of the group.
    Awaiting(Group),
    /// Receives into a buffer of the group.
    Receiving(Group),
}

/// Keeps a descriptor open.
#[derive(Debug)]
pub(super) enum Open {
    Nothing,
    Socket(Socket),
    File(File),
}

/// What the kernel reads besides the bytes themselves.
pub(super) struct Details {
    pub(super) header: libc::msghdr,
    pub(super) parts: Vec<libc::iovec>,
    pub(super) address: Option<SocketAddrAny>,
}

/// One attempt in flight.
pub(super) struct Request {
    generation: u32,
    pub(super) key: Key,
    pub(super) kind: Kind,
    /// Whether it is to end.
    pub(super) cancelled: bool,
    pub(super) open: Open,
    fd: RawFd,
    /// Made when it is first needed, and kept for later requests in this place.
    details: Option<Box<Details>>,
    /// What bytes are being received into.
    pub(super) lease: Option<Lease>,
    is_free: bool,
}

impl Request {
    pub(super) fn fd(&self) -> Fd {
        Fd(self.fd)
    }

    pub(super) fn details(&mut self) -> &mut Details {
        self.details.get_or_insert_with(|| {
            // SAFETY: a header of zeros is one without parts, name and control data.
            let header = unsafe { std::mem::zeroed() };
            Box::new(Details { header, parts: Vec::new(), address: None })
        })
    }

    /// The pieces, as a list for the kernel, which stays in place until the request is over.
    pub(super) fn list(&mut self, pieces: &[Piece]) -> (*const libc::iovec, u32) {
        let details = self.details();
        details.parts.clear();
        details.parts.extend(
            pieces
                .iter()
                .map(|piece| libc::iovec { iov_base: piece.address.cast(), iov_len: piece.len_bytes }),
        );
        (details.parts.as_ptr(), u32::try_from(pieces.len()).unwrap_or(u32::MAX))
    }

    /// The pieces, as a message for the kernel, which stays in place until the request is over.
    pub(super) fn message(&mut self, pieces: &[Piece]) -> *mut libc::msghdr {
        self.list(pieces);
        let details = self.details();
        details.header.msg_iov = details.parts.as_mut_ptr();
        details.header.msg_iovlen = details.parts.len();
        &raw mut details.header
    }
}

/// All requests.
#[derive(Default)]
pub(super) struct Requests {
    table: Vec<Request>,
    free: Vec<u32>,
    /// By a key's place: the request that a cancellation is about.
    by_key: Vec<Option<Ticket>>,
    /// Completions of no request: a fault of ours, or of the kernel's.
    pub(super) strays: u64,
    /// Notifications that may come although the results before them said that nothing would follow.
    pub(super) unannounced: u64,
}

impl Requests {
    pub(super) fn insert(&mut self, key: Key, kind: Kind, open: Open) -> (Ticket, &mut Request) {
        let fd = match &open {
            Open::Nothing => -1,
            Open::Socket(socket) => socket.as_raw_fd(),
            Open::File(file) => file.as_raw_fd(),
        };
        let index = self.free.pop().unwrap_or_else(|| {
            let index = u32::try_from(self.table.len()).unwrap_or(u32::MAX);
            self.table.push(Request {
                generation: 0,
                key,
                kind,
                cancelled: false,
                open: Open::Nothing,
                fd: -1,
                details: None,
                lease: None,
                is_free: true,
            });
            index
        });
        let request = &mut self.table[index as usize];
        (request.key, request.kind, request.cancelled) = (key, kind, false);
        (request.open, request.fd, request.is_free) = (open, fd, false);
        let ticket = Ticket { index, generation: request.generation };
        let place = key.index as usize;
        if self.by_key.len() <= place {
            self.by_key.resize(place + 1, None);
        }
        self.by_key[place] = Some(ticket);
        (ticket, &mut self.table[index as usize])
    }

    /// The request, if it is still in flight.
    pub(super) fn of(&mut self, ticket: Ticket) -> Option<&mut Request> {
        self.table
            .get_mut(ticket.index as usize)
            .filter(|request| !request.is_free && request.generation == ticket.generation)
    }

    /// The request of this key that may be cancelled.
    pub(super) fn of_key(&mut self, key: Key) -> Option<(Ticket, &mut Request)> {
        let ticket = (*self.by_key.get(key.index as usize)?)?;
        self.of(ticket).filter(|request| request.key == key).map(|request| (ticket, request))
    }

    /// Whether the result of the request is still to come.
    pub(super) fn awaits_result(&mut self, ticket: Ticket) -> bool {
        let key = self.of(ticket).map(|request| request.key);
        key.is_some_and(|key| self.by_key[key.index as usize] == Some(ticket))
    }

    /// Only the notification is still to come: the key may be used again.
    pub(super) fn let_go_of_key(&mut self, ticket: Ticket) {
        let Some(key) = self.of(ticket).map(|request| request.key) else { return };
        let known = &mut self.by_key[key.index as usize];
        if *known == Some(ticket) {
            *known = None;
        }
    }

    /// Whether a notification of no request is one of those that may come; that is then one less.
    pub(super) fn takes_unannounced(&mut self) -> bool {
        let left = self.unannounced.checked_sub(1);
        self.unannounced = left.unwrap_or(0);
        left.is_some()
    }

    /// The request is over.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        self.let_go_of_key(ticket);
        let Some(request) = self.of(ticket) else { return };
        request.generation = (request.generation + 1) & GENERATION_MASK;
        request.is_free = true;
        request.open = Open::Nothing;
        request.lease = None;
        self.free.push(ticket.index);
    }

    pub(super) fn in_flight(&self) -> usize {
        self.table.len() - self.free.len()
    }

    /// All that are in flight.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        let in_flight = (0..).zip(&self.table).filter(|(_, request)| !request.is_free);
        in_flight.map(|(index, request)| Ticket { index, generation: request.generation }).collect()
    }

    /// Keeps all that the kernel may still touch for ever. The kernel keeps descriptors open by itself.
    pub(super) fn leak(&mut self) {
        for request in &mut self.table {
            request.open = Open::Nothing;
        }
        let _never_dropped = std::mem::ManuallyDrop::new(std::mem::take(self));
    }
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").field("in_flight", &self.in_flight()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_they_were() {
        let ticket = Ticket { index: u32::MAX, generation: GENERATION_MASK };
        for token in [Token::Request(ticket), Token::Cancel(ticket), Token::Alarm] {
            assert_eq!(Token::from_bits(token.to_bits()), token);
        }
    }

    #[test]
    fn a_late_completion_meets_no_later_request() {
        let mut requests = Requests::default();
        let key = Key { index: 3, generation: 7 };
        let first = requests.insert(key, Kind::Plain, Open::Nothing).0;
        requests.remove(first);
        let second = requests.insert(key, Kind::Plain, Open::Nothing).0;
        assert!(requests.of(first).is_none());
        assert!(requests.of(second).is_some());
        assert_eq!(requests.in_flight(), 1);
    }

    #[test]
    fn one_key_has_two_requests_while_a_notification_is_to_come() {
        let mut requests = Requests::default();
        let key = Key { index: 0, generation: 0 };
        let first = requests.insert(key, Kind::ZeroCopy, Open::Nothing).0;
        requests.let_go_of_key(first);
        assert!(requests.of_key(key).is_none());
        let second = requests.insert(key, Kind::ZeroCopy, Open::Nothing).0;
        requests.remove(first);
        assert_eq!(requests.of_key(key).map(|(ticket, _)| ticket), Some(second));
    }
}
