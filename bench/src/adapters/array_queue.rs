//! crossbeam's `ArrayQueue`: many producers, many consumers, one message a call.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use crate::adapter::{Adapter, Receiver, Role, Sender, destination, fill};

/// crossbeam-queue `ArrayQueue`.
#[derive(Debug)]
pub struct Crossbeam;

/// A handle to the queue.
#[derive(Clone, Debug)]
pub struct Producer<const N: usize>(Arc<ArrayQueue<[u8; N]>>);

/// A handle to the queue, and where messages are copied to.
#[derive(Debug)]
pub struct Consumer<const N: usize> {
    queue: Arc<ArrayQueue<[u8; N]>>,
    destination: Vec<[u8; N]>,
}

impl<const N: usize> Adapter<N> for Crossbeam {
    const NAME: &'static str = "ArrayQueue";
    const ROLE: Role = Role::Rival;
    type Sender = Producer<N>;
    type Receiver = Consumer<N>;

    fn open(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let queue = Arc::new(ArrayQueue::new(capacity));
        (Producer(Arc::clone(&queue)), Consumer { queue, destination: destination() })
    }
}

impl<const N: usize> Sender<N> for Producer<N> {
    #[inline]
    fn send(&mut self, message: &[u8; N]) -> bool {
        self.0.push(*message).is_ok()
    }
}

impl<const N: usize> Receiver<N> for Consumer<N> {
    #[inline]
    fn receive(&mut self, max: usize) -> &[[u8; N]] {
        fill(&mut self.destination, max, || self.queue.pop())
    }
}
