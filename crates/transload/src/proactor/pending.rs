//! Operations as futures.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::buffers::{Incoming, Outgoing};
use super::error::{IoError, ProactorError};
use super::key::Key;
use super::operation::Operation;
use super::receive_pool::ReceivePool;
use super::shared::{Command, Shared};
use super::socket::Socket;
use super::table::Entry;
use crate::region::{Region, RegisterError};

/// What an operation has brought about besides a number.
#[derive(Debug)]
pub(super) enum Extra {
    Region(Result<Region, RegisterError>),
    Pool(Result<ReceivePool, ProactorError>),
}

/// The interest in an operation's outcome. When it goes, the operation is cancelled, and its memory comes back when the
/// kernel has let go.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) shared: Arc<Shared>,
    pub(super) key: Key,
}

impl Ticket {
    pub(super) fn new(shared: Arc<Shared>, key: Key) -> Self {
        Self { shared, key }
    }

    /// Looks at the operation; leaves the waker there if there is nothing to be had yet.
    pub(super) fn poll_with<T>(
        &self,
        context: &mut Context<'_>,
        mut look: impl FnMut(&mut Entry) -> Option<T>,
    ) -> Poll<T> {
        let mut fresh = None;
        loop {
            let mut state = self.shared.lock();
            // It is there as long as the ticket is.
            let Some(entry) = state.entry(self.key) else { return Poll::Pending };
            if let Some(found) = look(entry) {
                return Poll::Ready(found);
            }
            let is_known = entry.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
            if is_known || fresh.is_some() {
                let replaced = if is_known { fresh } else { std::mem::replace(&mut entry.waker, fresh) };
                drop(state);
                drop(replaced);
                return Poll::Pending;
            }
            // Cloned when the lock is not held, since a waker may do anything; then looked at once more.
            drop(state);
            fresh = Some(context.waker().clone());
        }
    }

    /// Takes the operation out when it is over and the kernel has let go of it, and the ticket with it.
    ///
    /// # Panics
    ///
    /// When there is no ticket: a future is polled after it was ready.
    fn poll_free(ticket: &mut Option<Self>, context: &mut Context<'_>) -> Poll<Entry> {
        #[expect(clippy::expect_used, reason = "stated under Panics")]
        let held = ticket.as_ref().expect("polled after it was ready");
        if held.poll_with(context, |entry| entry.is_free().then_some(())).is_pending() {
            return Poll::Pending;
        }
        let entry = ticket.take().and_then(|ticket| ticket.shared.lock().table.remove(ticket.key));
        entry.map_or(Poll::Pending, Poll::Ready)
    }

    fn cancel(&self) {
        self.shared.command(Command::Cancel(self.key));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.abandon(self.key);
    }
}

/// What an operation's future gives.
pub trait Output: Sized + sealed::Of {}

pub(super) mod sealed {
    use super::Entry;

    /// Made of an operation that is over.
    pub trait Of: Sized {
        #[doc(hidden)]
        #[expect(private_interfaces, reason = "sealed: nobody else can name or call it")]
        fn of(entry: Entry) -> Self;
    }
}

/// An operation, as a future.
///
/// It has been submitted already and goes on while the proactor is polled, whoever awaits it.
///
/// # Cancellation
///
/// Dropping it asks for cancellation; the kernel may finish the operation all the same. Its memory stays with the
/// proactor until the kernel has let go, and then goes back where it came from. To have the memory back, call
/// [`cancel`](Pending::cancel) and go on awaiting.
#[must_use = "dropping it cancels the operation"]
pub struct Pending<T> {
    ticket: Option<Ticket>,
    output: PhantomData<fn() -> T>,
}

impl<T> Pending<T> {
    pub(super) fn new(ticket: Ticket) -> Self {
        Self { ticket: Some(ticket), output: PhantomData }
    }

    /// Asks for the operation to end soon. It does so with [`IoError::Cancelled`], or as it would have ended.
    pub fn cancel(&self) {
        if let Some(ticket) = &self.ticket {
            ticket.cancel();
        }
    }
}

impl<T: Output> Future for Pending<T> {
    type Output = T;

    /// # Panics
    ///
    /// When polled after it was ready, as futures may.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Ticket::poll_free(&mut self.ticket, context).map(T::of)
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("key", &self.ticket.as_ref().map(|ticket| ticket.key)).finish()
    }
}

/// The outcome of an operation that is over.
fn outcome(entry: &mut Entry) -> Result<usize, IoError> {
    let cancelled = IoError::Cancelled { operation: entry.operation.name() };
    entry.outcome.take().unwrap_or(Err(cancelled))
}

/// What a receive, read or write has done, and its memory.
#[derive(Debug)]
#[non_exhaustive]
pub struct Transferred<B> {
    /// How many bytes. Of a receive: 0 is the end of the stream. Of a read: fewer than asked for only at the end of the
    /// file.
    pub result: Result<usize, IoError>,
    /// The memory.
    pub buffers: B,
}

impl sealed::Of for Result<(), IoError> {
    #[expect(private_interfaces, reason = "sealed: nobody else can name or call it")]
    fn of(mut entry: Entry) -> Self {
        outcome(&mut entry).map(|_| ())
    }
}
impl Output for Result<(), IoError> {}

impl sealed::Of for Result<Socket, IoError> {
    #[expect(private_interfaces, reason = "sealed: nobody else can name or call it")]
    fn of(mut entry: Entry) -> Self {
        let result = outcome(&mut entry);
        match entry.operation {
            Operation::Connect { socket, .. } => result.map(|_| socket),
            other => Err(IoError::Cancelled { operation: other.name() }),
        }
    }
}
impl Output for Result<Socket, IoError> {}

impl sealed::Of for Transferred<Incoming> {
    #[expect(private_interfaces, reason = "sealed: nobody else can name or call it")]
    fn of(mut entry: Entry) -> Self {
        let result = outcome(&mut entry);
        let buffers = match entry.operation {
            Operation::Receive { buffers, .. } | Operation::ReadAt { buffers, .. } => buffers,
            _ => Vec::new().into(),
        };
        Self { result, buffers }
    }
}
impl Output for Transferred<Incoming> {}

impl sealed::Of for Transferred<Outgoing> {
    #[expect(private_interfaces, reason = "sealed: nobody else can name or call it")]
    fn of(mut entry: Entry) -> Self {
        let result = outcome(&mut entry);
        let buffers = match entry.operation {
            Operation::WriteAt { buffers, .. } => buffers,
            _ => Outgoing::from(Vec::new()),
        };
        Self { result, buffers }
    }
}
impl Output for Transferred<Outgoing> {}

impl sealed::Of for Result<Region, RegisterError> {
    #[expect(private_interfaces, reason = "sealed: nobody else can name or call it")]
    fn of(entry: Entry) -> Self {
        match (entry.extra, entry.operation) {
            (Some(Extra::Region(region)), _) => region,
            (_, Operation::Register { slab, .. }) => Err(RegisterError::Refused {
                registrar: "the proactor".to_owned(),
                len_bytes: slab.len_bytes(),
                reason: "it has been shut down".to_owned(),
            }),
            (_, other) => Err(RegisterError::Refused {
                registrar: "the proactor".to_owned(),
                len_bytes: 0,
                reason: format!("{} registers nothing", other.name()),
            }),
        }
    }
}
impl Output for Result<Region, RegisterError> {}

impl sealed::Of for Result<ReceivePool, ProactorError> {
    #[expect(private_interfaces, reason = "sealed: nobody else can name or call it")]
    fn of(entry: Entry) -> Self {
        match entry.extra {
            Some(Extra::Pool(pool)) => pool,
            _ => Err(ProactorError::ShutDown),
        }
    }
}
impl Output for Result<ReceivePool, ProactorError> {}

/// A send, as a future: ready when the kernel has taken all bytes, or failed to.
///
/// # Cancellation
///
/// As [`Pending`]. Some of the bytes may have been sent already, so that what is sent next on the socket follows a
/// torso: close it.
#[must_use = "dropping it cancels the send"]
#[derive(Debug)]
pub struct PendingSend {
    ticket: Option<Ticket>,
}

impl PendingSend {
    pub(super) fn new(ticket: Ticket) -> Self {
        Self { ticket: Some(ticket) }
    }

    /// Asks for the send to end soon.
    pub fn cancel(&self) {
        if let Some(ticket) = &self.ticket {
            ticket.cancel();
        }
    }
}

impl Future for PendingSend {
    type Output = Sent;

    /// # Panics
    ///
    /// When polled after it was ready, as futures may.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Sent> {
        #[expect(clippy::expect_used, reason = "stated under Panics")]
        let ticket = self.ticket.as_ref().expect("polled after it was ready");
        let found = ticket.poll_with(context, |entry| entry.outcome.map(|result| (result, entry.done_bytes)));
        let Poll::Ready((result, bytes)) = found else { return Poll::Pending };
        Poll::Ready(Sent { result, bytes, returning: Returning { ticket: self.ticket.take() } })
    }
}

/// A send that is over; its memory may still be the kernel's.
#[must_use = "its result says whether the bytes were sent"]
#[derive(Debug)]
#[non_exhaustive]
pub struct Sent {
    /// How many bytes were sent: all of them, or an error.
    pub result: Result<usize, IoError>,
    /// How many bytes were sent, also before an error.
    pub bytes: usize,
    returning: Returning,
}

impl Sent {
    /// The memory, when the kernel has let go of it: at once after a copy; after a zero-copy send, when the peer has
    /// acknowledged the bytes.
    ///
    /// Whoever does not need the memory back drops this: the buffers go home by themselves, at the same moment.
    pub fn returned(self) -> Returning {
        self.returning
    }
}

/// The memory of a send, on its way back.
#[derive(Debug)]
pub struct Returning {
    ticket: Option<Ticket>,
}

/// The memory of a send, and how it went.
#[derive(Debug)]
#[non_exhaustive]
pub struct Returned {
    /// The memory.
    pub buffers: Outgoing,
    /// In how many parts it was sent without a copy.
    pub zero_copied: u32,
    /// In how many parts it should have been, and the kernel copied.
    pub copied: u32,
}

impl Future for Returning {
    type Output = Returned;

    /// # Panics
    ///
    /// When polled after it was ready, as futures may.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Returned> {
        Ticket::poll_free(&mut self.ticket, context).map(|entry| {
            let buffers = match entry.operation {
                Operation::Send { buffers, .. } | Operation::Sent { buffers, .. } => buffers,
                _ => Outgoing::from(Vec::new()),
            };
            Returned { buffers, zero_copied: entry.zero_copied, copied: entry.copied }
        })
    }
}
