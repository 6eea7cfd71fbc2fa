//! How an adapter is driven in a run: by single calls, by batches, or in place.

use std::hint::black_box;
use std::marker::PhantomData;

use serde::Serialize;

use crate::BATCH;
use crate::adapter::{Adapter, InPlace, Receiver, Sender};
use crate::check::Check;
use crate::message::tag;
use crate::trial::{Drain, Feed, Outcome, Plan, run};

/// How the producers' side calls the queue. The consumer's side always takes batches of up to [`BATCH`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Call {
    /// One message a call.
    Single,
    /// [`BATCH`] messages a call, where the queue has such a call.
    Batch,
}

/// Sends message after message, copied in.
#[derive(Debug)]
struct Singles<S, C, const N: usize> {
    sender: S,
    producer: usize,
    message: Box<[u8; N]>,
    /// The message is stamped and was refused: it is offered again as it is.
    pending: bool,
    check: PhantomData<fn(C)>,
}

impl<S: Sender<N>, C: Check, const N: usize> Feed for Singles<S, C, N> {
    #[inline]
    fn offer(&mut self, sequence: u64) -> usize {
        if !self.pending {
            C::stamp(&mut self.message[..], tag(self.producer, sequence));
        }
        let sent = self.sender.send(black_box(&self.message));
        self.pending = !sent;
        usize::from(sent)
    }
}

/// Sends batch after batch, copied in.
#[derive(Debug)]
struct Batches<S, C, const N: usize> {
    sender: S,
    producer: usize,
    messages: Vec<[u8; N]>,
    /// How many of the batch the queue took; the rest is offered again.
    taken: usize,
    check: PhantomData<fn(C)>,
}

impl<S: Sender<N>, C: Check, const N: usize> Feed for Batches<S, C, N> {
    #[inline]
    fn offer(&mut self, sequence: u64) -> usize {
        if self.taken == self.messages.len() {
            for (message, sequence) in self.messages.iter_mut().zip(sequence..) {
                C::stamp(message, tag(self.producer, sequence));
            }
            self.taken = 0;
        }
        let sent = self.sender.send_batch(black_box(&self.messages[self.taken..]));
        self.taken += sent;
        sent
    }
}

/// Receives batches, copied out, and looks at each message.
#[derive(Debug)]
struct Copies<R, C, const N: usize> {
    receiver: R,
    check: C,
}

impl<R: Receiver<N>, C: Check, const N: usize> Drain for Copies<R, C, N> {
    #[inline]
    fn take(&mut self) -> usize {
        // The black box forbids the compiler to copy only those bytes that the check looks at.
        let messages = black_box(self.receiver.receive(BATCH));
        for message in messages {
            self.check.see(message);
        }
        messages.len()
    }
}

/// Writes message after message in its slot: one copy from the source.
#[derive(Debug)]
struct Writes<A: Adapter<N>, C, const N: usize> {
    sender: A::Sender,
    producer: usize,
    message: Box<[u8; N]>,
    check: PhantomData<fn(C)>,
}

impl<A: InPlace<N>, C: Check, const N: usize> Feed for Writes<A, C, N> {
    #[inline]
    fn offer(&mut self, sequence: u64) -> usize {
        let Self { sender, producer, message, .. } = self;
        let sent = A::write(sender, |slot| {
            C::stamp(&mut message[..], tag(*producer, sequence));
            slot.copy_from_slice(&black_box(&**message)[..]);
        });
        usize::from(sent)
    }
}

/// Takes batches and looks at each message in its slot.
#[derive(Debug)]
struct Reads<A: Adapter<N>, C, const N: usize> {
    receiver: A::Receiver,
    check: C,
}

impl<A: InPlace<N>, C: Check, const N: usize> Drain for Reads<A, C, N> {
    #[inline]
    fn take(&mut self) -> usize {
        let Self { receiver, check } = self;
        A::read(receiver, BATCH, |run| {
            for message in run.chunks_exact(N) {
                check.see(message);
            }
        })
    }
}

/// Runs a new queue with messages copied in and out.
pub fn copying<A: Adapter<N>, C: Check, const N: usize>(
    plan: Plan,
    capacity: usize,
    producers: usize,
    call: Call,
    check: C,
) -> (Outcome<()>, C) {
    let (sender, receiver) = A::open(capacity);
    let drain = Copies { receiver, check };
    let senders = vec![sender; producers].into_iter().enumerate();
    let outcome = match call {
        Call::Single => {
            let feed = |(producer, sender)| Singles {
                sender,
                producer,
                message: Box::new([0; N]),
                pending: false,
                check: PhantomData::<fn(C)>,
            };
            run(plan, senders.map(feed).collect(), drain)
        }
        Call::Batch => {
            let feed = |(producer, sender)| Batches {
                sender,
                producer,
                messages: vec![[0; N]; BATCH],
                taken: BATCH,
                check: PhantomData::<fn(C)>,
            };
            run(plan, senders.map(feed).collect(), drain)
        }
    };
    split(outcome, |drain: Copies<_, C, N>| drain.check)
}

/// Runs a new queue with messages written and read in place, by one producer.
pub fn in_place<A: InPlace<N>, C: Check, const N: usize>(
    plan: Plan,
    capacity: usize,
    check: C,
) -> (Outcome<()>, C) {
    let (sender, receiver) = A::open(capacity);
    let feed = Writes::<A, C, N> { sender, producer: 0, message: Box::new([0; N]), check: PhantomData };
    let outcome = run(plan, vec![feed], Reads::<A, C, N> { receiver, check });
    split(outcome, |drain| drain.check)
}

/// Parts what the consumer counted from the rest, and closes the queue.
fn split<D, C>(outcome: Outcome<D>, check: impl FnOnce(D) -> C) -> (Outcome<()>, C) {
    let Outcome { sent, timed, elapsed, drain, overdue } = outcome;
    (Outcome { sent, timed, elapsed, drain: (), overdue }, check(drain))
}
