//! What the kernel's completions mean.

use std::os::fd::{FromRawFd, OwnedFd};

use io_uring::squeue::Entry;
use rustix::io::Errno;

use super::entries;
use super::groups::Groups;
use super::requests::{Kind, Open, Requests, Ticket, Token};
use super::ring::{Reaped, Ring};
use crate::proactor::backend::{Completion, Event, Group};

/// In the result of a notification: the kernel has copied after all (`IORING_NOTIF_USAGE_ZC_COPIED`).
const COPIED: u32 = 1 << 31;

/// What is changed by a completion.
pub(super) struct Completions<'a> {
    pub(super) ring: &'a mut Ring,
    pub(super) requests: &'a mut Requests,
    pub(super) groups: &'a mut Groups,
    pub(super) out: &'a mut Vec<Completion>,
}

impl Completions<'_> {
    /// Reads one completion of a request.
    pub(super) fn read(&mut self, ticket: Ticket, one: Reaped) {
        let Some(request) = self.requests.of(ticket) else {
            if !(one.is_notification() && self.requests.takes_unannounced()) {
                self.requests.strays += 1;
                tracing::warn!(?ticket, ?one, "a completion of no request");
            }
            return;
        };
        let (kind, more) = (request.kind, one.more());
        match kind {
            Kind::Plain => self.post(ticket, Event::Done(result(one)), more),
            Kind::Readable => self.post(ticket, Event::Done(result(one).map(|_| 0)), more),
            Kind::ZeroCopy => self.sent(ticket, one),
            Kind::Accept => {
                let event = match result(one) {
                    // SAFETY: a new descriptor, whose number nobody else has.
                    Ok(_) => Event::Accepted(unsafe { OwnedFd::from_raw_fd(one.result) }),
                    Err(errno) => Event::Done(Err(errno)),
                };
                self.post(ticket, event, more);
            }
            Kind::Choosing(group) => self.chosen(ticket, group, one),
            Kind::Awaiting(group) => self.awaited(ticket, group, one),
            Kind::Receiving(group) => self.received(ticket, group, one),
        }
    }

    fn sent(&mut self, ticket: Ticket, one: Reaped) {
        if one.is_notification() {
            let copied = one.result.cast_unsigned() & COPIED != 0;
            self.post(ticket, Event::Notified { copied }, one.more());
        } else {
            self.post(ticket, Event::Done(result(one)), one.more());
            if one.more() {
                self.requests.let_go_of_key(ticket);
                // What has been sent is in the kernel's hands, with the socket: a close need not wait for the peer.
                if let Some(request) = self.requests.of(ticket) {
                    request.open = Open::Nothing;
                }
            } else {
                // Cancelled before it began, as whoever follows a failed send in a chain: it has touched no memory, and
                // its result says that nothing follows. Linux notifies all the same.
                self.requests.unannounced += u64::from(result(one) == Err(Errno::CANCELED));
            }
        }
    }

    /// The kernel has received into a buffer that it chose, or has stopped.
    fn chosen(&mut self, ticket: Ticket, group: Group, one: Reaped) {
        // Whatever the result, a buffer that the kernel took out of its ring is ours again.
        let lease = one.buffer().and_then(|buffer| self.groups.take(group, buffer));
        let starved = result(one) == Err(Errno::NOBUFS) && !one.more();
        if starved && self.goes_on(ticket, group) {
            return;
        }
        let event = match (result(one), lease) {
            (Ok(bytes @ 1..), Some(mut lease)) => {
                lease.resize(bytes);
                Event::Data(lease)
            }
            (Ok(1..), None) => {
                tracing::error!(group, ?one, "bytes were received into a buffer that was not lent");
                Event::Done(Err(Errno::IO))
            }
            (Ok(0), _) => Event::Done(Ok(0)),
            (Err(Errno::NOBUFS), _) => Event::Starved,
            (Err(errno), _) => Event::Done(Err(errno)),
        };
        self.post(ticket, event, one.more());
    }

    /// Receives again after the kernel has run out of buffers, if some have come back meanwhile: nobody would say so once
    /// more.
    fn goes_on(&mut self, ticket: Ticket, group: Group) -> bool {
        let Some(request) = self.requests.of(ticket).filter(|request| !request.cancelled) else {
            return false;
        };
        let entry = entries::receive_many(request.fd(), group);
        let has_buffers = self.groups.refill(group);
        if has_buffers {
            self.go_on(ticket, entry);
        }
        has_buffers
    }

    /// There is something to receive, and now a buffer is taken for it.
    fn awaited(&mut self, ticket: Ticket, group: Group, one: Reaped) {
        let Some(request) = self.requests.of(ticket) else { return };
        let cancelled = request.cancelled;
        if let Err(errno) = result(one) {
            return self.post(ticket, Event::Done(Err(errno)), false);
        }
        if cancelled {
            return self.post(ticket, Event::Done(Err(Errno::CANCELED)), false);
        }
        let Some(lease) = self.groups.acquire(group) else {
            return self.post(ticket, Event::Starved, false);
        };
        let (address, capacity) = (lease.as_ptr(), lease.capacity());
        let Some(request) = self.requests.of(ticket) else { return };
        request.lease = Some(lease);
        request.kind = Kind::Receiving(group);
        let entry = entries::receive_now(request.fd(), address, capacity);
        self.go_on(ticket, entry);
    }

    /// Something, or nothing, was received into the buffer that was taken.
    fn received(&mut self, ticket: Ticket, group: Group, one: Reaped) {
        let Some(request) = self.requests.of(ticket) else { return };
        let (cancelled, lease) = (request.cancelled, request.lease.take());
        request.kind = Kind::Awaiting(group);
        let entry = entries::readable(request.fd());
        match (result(one), lease) {
            (Ok(bytes @ 1..), Some(mut lease)) => {
                lease.resize(bytes);
                self.post(ticket, Event::Data(lease), !cancelled);
            }
            (Ok(_), _) => return self.post(ticket, Event::Done(Ok(0)), false),
            (Err(Errno::AGAIN), _) if cancelled => {
                return self.post(ticket, Event::Done(Err(Errno::CANCELED)), false);
            }
            // Somebody else has received it.
            (Err(Errno::AGAIN), _) => {}
            (Err(errno), _) => return self.post(ticket, Event::Done(Err(errno)), false),
        }
        if !cancelled {
            self.go_on(ticket, entry);
        }
    }

    /// The next step of a request.
    fn go_on(&mut self, ticket: Ticket, entry: Entry) {
        let entry = entry.user_data(Token::Request(ticket).to_bits());
        // SAFETY: what it points to is the lease that the request keeps until the completion (I2, I6).
        unsafe { self.ring.push_aside(&entry) };
    }

    /// Hands an event out; without `more` the request is over.
    fn post(&mut self, ticket: Ticket, event: Event, more: bool) {
        let Some(request) = self.requests.of(ticket) else { return };
        self.out.push(Completion { key: request.key, event, more });
        if !more {
            self.requests.remove(ticket);
        }
    }
}

/// A count, or an error.
fn result(one: Reaped) -> Result<usize, Errno> {
    usize::try_from(one.result).map_err(|_| Errno::from_raw_os_error(one.result.wrapping_neg()))
}
