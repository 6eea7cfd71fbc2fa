//! thingbuf's `ThingBuf`: slots that are written and read in place.
//!
//! The queue itself, not the channel built on it: the channel adds a wake-up to each message. Slots are recycled by
//! doing nothing; the default would write zeros over each slot before it is filled.

use std::sync::Arc;

use thingbuf::{Recycle, ThingBuf};

use crate::adapter::{Adapter, InPlace, Receiver, Role, Sender, destination};

/// thingbuf `ThingBuf`.
#[derive(Debug)]
pub struct Thingbuf;

/// Leaves a used slot as it is.
#[derive(Debug)]
struct AsItIs;

type Queue<const N: usize> = Arc<ThingBuf<[u8; N], AsItIs>>;

/// A handle to the queue.
#[derive(Clone, Debug)]
pub struct Producer<const N: usize>(Queue<N>);

/// A handle to the queue, and where messages are copied to.
#[derive(Debug)]
pub struct Consumer<const N: usize> {
    queue: Queue<N>,
    destination: Vec<[u8; N]>,
}

impl<const N: usize> Recycle<[u8; N]> for AsItIs {
    fn new_element(&self) -> [u8; N] {
        [0; N]
    }

    fn recycle(&self, _: &mut [u8; N]) {}
}

impl<const N: usize> Adapter<N> for Thingbuf {
    const NAME: &'static str = "thingbuf";
    const ROLE: Role = Role::Rival;
    type Sender = Producer<N>;
    type Receiver = Consumer<N>;

    fn open(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let queue = Arc::new(ThingBuf::with_recycle(capacity, AsItIs));
        (Producer(Arc::clone(&queue)), Consumer { queue, destination: destination() })
    }
}

impl<const N: usize> Sender<N> for Producer<N> {
    #[inline]
    fn send(&mut self, message: &[u8; N]) -> bool {
        self.0.push_with(|slot| slot.copy_from_slice(message)).is_ok()
    }
}

impl<const N: usize> Receiver<N> for Consumer<N> {
    #[inline]
    fn receive(&mut self, max: usize) -> &[[u8; N]] {
        let mut count = 0;
        for target in self.destination.iter_mut().take(max) {
            if self.queue.pop_with(|slot| target.copy_from_slice(slot)).is_none() {
                break;
            }
            count += 1;
        }
        &self.destination[..count]
    }
}

impl<const N: usize> InPlace<N> for Thingbuf {
    #[inline]
    fn write(sender: &mut Self::Sender, write: impl FnOnce(&mut [u8])) -> bool {
        sender.0.push_with(|slot| write(slot)).is_ok()
    }

    #[inline]
    fn read(receiver: &mut Self::Receiver, max: usize, mut read: impl FnMut(&[u8])) -> usize {
        for count in 0..max {
            if receiver.queue.pop_with(|slot| read(slot)).is_none() {
                return count;
            }
        }
        max
    }
}
