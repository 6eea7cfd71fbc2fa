//! transload's own staging ring, with the settings that it has by default.

use transload::staging::{Consumer as Taker, DequeueError, EnqueueError, PinnedStagingBuffer, Producer};

use crate::adapter::{Adapter, InPlace, Receiver, Role, Sender, destination};

/// transload `PinnedStagingBuffer`.
#[derive(Debug)]
pub struct Staging;

/// The consumer, and where messages are copied to.
#[derive(Debug)]
pub struct Consumer<const N: usize> {
    ring: Taker,
    destination: Vec<[u8; N]>,
}

impl<const N: usize> Adapter<N> for Staging {
    const NAME: &'static str = "transload";
    const ROLE: Role = Role::Ours;
    type Sender = Producer;
    type Receiver = Consumer<N>;

    fn open(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let buffer = PinnedStagingBuffer::new(capacity, N).expect("memory for a ring");
        let (producer, ring) = buffer.split();
        (producer, Consumer { ring, destination: destination() })
    }
}

impl<const N: usize> Sender<N> for Producer {
    #[inline]
    fn send(&mut self, message: &[u8; N]) -> bool {
        accepted(self.try_enqueue(message)).is_some()
    }

    #[inline]
    fn send_batch(&mut self, messages: &[[u8; N]]) -> usize {
        accepted(self.try_enqueue_batch(messages.as_flattened())).unwrap_or(0)
    }
}

impl<const N: usize> Receiver<N> for Consumer<N> {
    #[inline]
    fn receive(&mut self, max: usize) -> &[[u8; N]] {
        let count = match self.ring.dequeue_batch(self.destination.as_flattened_mut(), max) {
            Ok(count) => count,
            // All producers of the run have ended.
            Err(DequeueError::Closed) => 0,
            Err(error) => panic!("dequeue_batch: {error}"),
        };
        &self.destination[..count]
    }
}

impl<const N: usize> InPlace<N> for Staging {
    #[inline]
    fn write(sender: &mut Self::Sender, write: impl FnOnce(&mut [u8])) -> bool {
        let Some(mut slot) = accepted(sender.try_reserve()) else { return false };
        write(&mut slot);
        slot.commit();
        true
    }

    #[inline]
    fn read(receiver: &mut Self::Receiver, max: usize, mut read: impl FnMut(&[u8])) -> usize {
        let batch = match receiver.ring.take(max) {
            Ok(batch) => batch,
            Err(DequeueError::Empty | DequeueError::Closed) => return 0,
            Err(error) => panic!("take: {error}"),
        };
        let (first, second) = batch.as_slices();
        read(first);
        read(second);
        batch.messages()
    }
}

/// `None` when the ring is full; nothing else can happen here.
#[inline]
fn accepted<T>(result: Result<T, EnqueueError>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(EnqueueError::Full) => None,
        Err(error) => panic!("the ring refuses: {error}"),
    }
}
