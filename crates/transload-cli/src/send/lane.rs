//! One connection, and the sends that are under way on it.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};

use transload::pool::{BufferPool, Lease};
use transload::proactor::{Handle, IoError, PendingSend, Shutdown, Socket, ZeroCopy};

use super::stop::Stop;
use crate::address::Address;
use crate::failure::Failure;

/// What all connections share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) handle: Handle,
    pub(super) pool: BufferPool,
    pub(super) to: Address,
    pub(super) zero_copy: ZeroCopy,
    pub(super) stop: Stop,
    /// Messages whose last byte the kernel has taken.
    pub(super) messages: Cell<u64>,
    pub(super) sends: Cell<u64>,
}

/// One connection.
///
/// Its sends are looked after whenever it waits for anything: a send that is over holds its buffer until then, and
/// whoever waits for a buffer may wait for just that one.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) common: Rc<Common>,
    socket: Socket,
    flying: VecDeque<Flight>,
    /// The most sends at once: its share of the pool, so that a slow peer leaves the others theirs.
    most: usize,
    is_broken: bool,
}

/// A send under way.
#[derive(Debug)]
struct Flight {
    send: PendingSend,
    /// How many messages end in it.
    messages: u64,
}

impl Lane {
    pub(super) fn new(common: Rc<Common>, socket: Socket, most: usize) -> Self {
        Self { common, socket, flying: VecDeque::new(), most: most.max(1), is_broken: false }
    }

    /// A buffer to fill, when there is one; none when it is time to stop.
    pub(super) async fn lease(&mut self) -> Option<Lease> {
        let common = self.common.clone();
        self.lease_until(common.stop.comes()).await
    }

    /// A buffer to fill, also when it is time to stop: for what was begun before.
    pub(super) async fn lease_at_any_time(&mut self) -> Option<Lease> {
        self.lease_until(pending()).await
    }

    async fn lease_until(&mut self, stopped: impl Future<Output = ()>) -> Option<Lease> {
        let common = self.common.clone();
        let mut stopped = pin!(stopped);
        let mut acquired = pin!(common.pool.acquire());
        poll_fn(|context| {
            self.look_after_sends(context);
            if self.is_broken || stopped.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            if self.flying.len() >= self.most {
                return Poll::Pending;
            }
            // A pool is closed by nobody here.
            acquired.as_mut().poll(context).map(Result::ok)
        })
        .await
    }

    /// Awaits something else meanwhile.
    pub(super) async fn beside<F: Future + Unpin>(&mut self, mut other: F) -> F::Output {
        poll_fn(|context| {
            self.look_after_sends(context);
            Pin::new(&mut other).poll(context)
        })
        .await
    }

    /// Sends what a lease holds, behind what was sent before.
    pub(super) fn send(&mut self, lease: Lease, messages: u64) {
        if self.is_broken || lease.is_empty() {
            return;
        }
        let common = &self.common;
        common.sends.set(common.sends.get() + 1);
        let send = common.handle.send_with(&self.socket, lease, common.zero_copy);
        self.flying.push_back(Flight { send, messages });
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Awaits the sends that are under way, and tells the peer that nothing follows.
    pub(super) async fn finish(mut self) {
        poll_fn(|context| {
            self.look_after_sends(context);
            if self.flying.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        if !self.is_broken {
            // A peer that has gone meanwhile has all the same got what it wanted.
            let _ = self.common.handle.shutdown(&self.socket, Shutdown::Write).await;
        }
    }

    /// Takes the outcome of each send that is over. They end in the order in which they were submitted.
    fn look_after_sends(&mut self, context: &mut Context<'_>) {
        while let Some(flight) = self.flying.front_mut() {
            let Poll::Ready(sent) = Pin::new(&mut flight.send).poll(context) else { return };
            let messages = flight.messages;
            // The buffer goes home by itself as soon as the kernel has let go of it.
            self.flying.pop_front();
            match sent.result {
                Ok(_) => self.common.messages.set(self.common.messages.get() + messages),
                Err(error) => {
                    self.is_broken = true;
                    self.flying.clear();
                    self.common.stop.fail(gone(&self.common.to, error));
                }
            }
        }
    }
}

fn gone(to: &Address, error: IoError) -> Failure {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    let failure = |what: &str| Failure::new("peer", format!("{to} {what} ({error})"));
    match error.kind() {
        BrokenPipe | ConnectionReset => failure("has closed the connection").fix(
            "look at what the receiver says; it may have read enough, or refused what it read: --framing and --message-size are to be the same on both sides",
        ),
        _ => failure("takes nothing more"),
    }
}
