//! A ring with the mistake that transload's ring was designed to avoid, kept as a baseline: fast, and wrong.
//!
//! A producer moves the shared tail by compare-and-swap *before* it copies its message, and the consumer takes the
//! tail's word for it that everything below is there: so it can read a slot that is still being written (a torn
//! message) or not yet written at all (a stale one). The indices are stored wrapped: a producer that was interrupted
//! between reading the tail and swapping it may succeed a whole lap later and overwrite what nobody has read. Full is
//! told from empty by leaving one slot unused.
//!
//! Here the payload is copied in atomic words of eight bytes, because a race on plain memory would be undefined
//! behaviour in Rust; a vectorised copy would be faster, so its speed is a lower bound.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use transload_core::Padded;

use crate::adapter::{Adapter, Receiver, Role, Sender, destination};

const WORD: usize = 8;

/// The ring that claims too early.
#[derive(Debug)]
pub struct EarlyClaim;

#[derive(Debug)]
struct Ring<const N: usize> {
    /// The next slot to claim; written by producers.
    tail: Padded<AtomicUsize>,
    /// The next slot to read; written by the consumer.
    head: Padded<AtomicUsize>,
    mask: usize,
    words: Vec<AtomicU64>,
}

/// A handle to the ring.
#[derive(Clone, Debug)]
pub struct Producer<const N: usize>(Arc<Ring<N>>);

/// A handle to the ring, and where messages are copied to.
#[derive(Debug)]
pub struct Consumer<const N: usize> {
    ring: Arc<Ring<N>>,
    destination: Vec<[u8; N]>,
}

impl<const N: usize> Ring<N> {
    fn new(capacity: usize) -> Self {
        assert!(capacity.is_power_of_two(), "a power of two, not {capacity}");
        let words = (0..capacity * N / WORD).map(|_| AtomicU64::new(0)).collect();
        Self { tail: Padded::default(), head: Padded::default(), mask: capacity - 1, words }
    }

    fn slot(&self, index: usize) -> &[AtomicU64] {
        &self.words[index * N / WORD..(index + 1) * N / WORD]
    }

    /// The mistake: from here on the consumer believes that the slot is filled.
    #[inline]
    fn claim(&self) -> Option<usize> {
        loop {
            let tail = self.tail.load(Ordering::Acquire);
            let next = (tail + 1) & self.mask;
            if next == self.head.load(Ordering::Acquire) {
                return None;
            }
            if self.tail.compare_exchange(tail, next, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(tail);
            }
        }
    }

    #[inline]
    fn write(&self, index: usize, message: &[u8; N]) {
        for (word, bytes) in self.slot(index).iter().zip(message.chunks_exact(WORD)) {
            word.store(crate::message::first_word(bytes), Ordering::Relaxed);
        }
    }
}

impl<const N: usize> Adapter<N> for EarlyClaim {
    const NAME: &'static str = "early-claim";
    const ROLE: Role = Role::Baseline;
    type Sender = Producer<N>;
    type Receiver = Consumer<N>;

    fn open(capacity: usize) -> (Self::Sender, Self::Receiver) {
        let ring = Arc::new(Ring::new(capacity));
        (Producer(Arc::clone(&ring)), Consumer { ring, destination: destination() })
    }
}

impl<const N: usize> Sender<N> for Producer<N> {
    #[inline]
    fn send(&mut self, message: &[u8; N]) -> bool {
        let Some(index) = self.0.claim() else { return false };
        self.0.write(index, message);
        true
    }
}

impl<const N: usize> Receiver<N> for Consumer<N> {
    #[inline]
    fn receive(&mut self, max: usize) -> &[[u8; N]] {
        let ring = &*self.ring;
        let head = ring.head.load(Ordering::Relaxed);
        let tail = ring.tail.load(Ordering::Acquire);
        let count = (tail.wrapping_sub(head) & ring.mask).min(max).min(self.destination.len());
        for (offset, message) in self.destination[..count].iter_mut().enumerate() {
            let slot = ring.slot((head + offset) & ring.mask);
            for (bytes, word) in message.chunks_exact_mut(WORD).zip(slot) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
        }
        ring.head.store((head + count) & ring.mask, Ordering::Release);
        &self.destination[..count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Check;
    use crate::message::{stamp_whole, tag};
    use crate::verify::Verifier;

    #[test]
    fn one_slot_is_lost() {
        let (mut sender, _receiver) = <EarlyClaim as Adapter<64>>::open(4);
        assert_eq!((0..5).filter(|_| sender.send(&[1; 64])).count(), 3);
    }

    /// The two ways in which it goes wrong, step by step and without luck.
    #[test]
    fn the_consumer_reads_what_is_claimed_and_not_written() {
        let (sender, mut receiver) = <EarlyClaim as Adapter<64>>::open(4);
        let ring = sender.0;
        let mut message = [0; 64];
        let mut verifier = Verifier::new(1);

        stamp_whole(&mut message, tag(0, 0));
        let slot = ring.claim().unwrap();
        verifier.see(&receiver.receive(1)[0]);
        ring.write(slot, &message);
        assert_eq!(verifier.findings(&[1]).stale, 1, "a slot that was never written is taken for a message");

        let slot = ring.claim().unwrap();
        stamp_whole(&mut message, tag(0, 1));
        let half = &message.chunks_exact(WORD).map(crate::message::first_word).collect::<Vec<_>>()[..4];
        for (word, value) in ring.slot(slot).iter().zip(half) {
            word.store(*value, Ordering::Relaxed);
        }
        verifier.see(&receiver.receive(1)[0]);
        assert_eq!(verifier.findings(&[2]).torn, 1, "a half-written slot is taken for a message");
    }

    /// Wrapped indices: a swap that was prepared a lap ago succeeds.
    #[test]
    fn a_stale_swap_succeeds_after_a_lap() {
        let (mut sender, mut receiver) = <EarlyClaim as Adapter<64>>::open(4);
        let stale = sender.0.tail.load(Ordering::Acquire);
        for _ in 0..4 {
            assert!(sender.send(&[1; 64]));
            assert_eq!(receiver.receive(1).len(), 1);
        }
        let swap =
            sender.0.tail.compare_exchange(stale, (stale + 1) & 3, Ordering::AcqRel, Ordering::Relaxed);
        assert!(swap.is_ok());
    }
}
