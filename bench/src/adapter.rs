//! The traits that every queue is driven through. All calls are static: no queue pays for an indirect call.

use serde::Serialize;

/// What an adapter stands for in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The library that this program measures.
    Ours,
    /// A library that ours is to beat.
    Rival,
    /// Shown beside the others and never counted: it loses or tears messages, or does less than they do.
    Baseline,
}

/// A bounded queue of messages of `N` bytes, with many producers and one consumer.
pub trait Adapter<const N: usize>: 'static {
    /// The column's heading.
    const NAME: &'static str;
    /// Whether it counts, and for whom.
    const ROLE: Role;
    /// Its sending half.
    type Sender: Sender<N>;
    /// Its receiving half.
    type Receiver: Receiver<N>;

    /// Makes a queue with room for `capacity` messages.
    fn open(capacity: usize) -> (Self::Sender, Self::Receiver);
}

/// A producer's half; each producer has a clone of it.
pub trait Sender<const N: usize>: Clone + Send + 'static {
    /// Copies one message in; `false` when the queue is full.
    fn send(&mut self, message: &[u8; N]) -> bool;

    /// Copies messages in, in order, and returns how many there was room for. A queue without a batch form sends one
    /// after the other.
    #[inline]
    fn send_batch(&mut self, messages: &[[u8; N]]) -> usize {
        for (sent, message) in messages.iter().enumerate() {
            if !self.send(message) {
                return sent;
            }
        }
        messages.len()
    }
}

/// The consumer's half. It owns the memory that messages are copied out to.
pub trait Receiver<const N: usize>: Send + 'static {
    /// Copies out up to `max` messages, at most [`BATCH`](crate::BATCH), and shows them; none when the queue is empty.
    /// A queue whose only batch form takes everything may show more.
    fn receive(&mut self, max: usize) -> &[[u8; N]];
}

/// A queue whose messages can be written and read where they lie.
pub trait InPlace<const N: usize>: Adapter<N> {
    /// Writes one message in its slot and publishes it; `false`, without a call of `write`, when the queue is full.
    fn write(sender: &mut Self::Sender, write: impl FnOnce(&mut [u8])) -> bool;

    /// Shows up to `max` messages in their slots, in one or more runs of whole messages, then frees them. Returns how
    /// many there were.
    fn read(receiver: &mut Self::Receiver, max: usize, read: impl FnMut(&[u8])) -> usize;
}

/// The memory that a receiver copies a batch to.
pub(crate) fn destination<const N: usize>() -> Vec<[u8; N]> {
    vec![[0; N]; crate::BATCH]
}

/// Fills the destination with what `next` yields, up to `max` messages: the batch form of queues that have none.
#[inline]
pub(crate) fn fill<const N: usize>(
    destination: &mut [[u8; N]],
    max: usize,
    mut next: impl FnMut() -> Option<[u8; N]>,
) -> &[[u8; N]] {
    let mut count = 0;
    for slot in destination.iter_mut().take(max) {
        let Some(message) = next() else { break };
        *slot = message;
        count += 1;
    }
    &destination[..count]
}
