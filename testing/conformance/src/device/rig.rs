//! A ring, a region, and bytes that are all different.

use std::time::Duration;

use transload::device::{Completion, Device, Download, Landing, Stream, Upload};
use transload::memory::{Policy, Slab};
use transload::region::{Access, Region};
use transload::staging::{Batch, Consumer, PinnedStagingBuffer, Producer};

use crate::watchdog;

/// A ring registered with a device, and both its ends.
#[derive(Debug)]
pub struct Rig {
    /// The registration.
    pub region: Region,
    /// The end that messages go into.
    pub producer: Producer,
    /// The end that they come out of.
    pub consumer: Consumer,
    random: Random,
}

impl Rig {
    /// A ring with a slab of its own.
    pub fn new(device: &dyn Device, capacity: usize, message_size: usize) -> Self {
        let slab = Slab::builder(capacity, message_size).lock(Policy::Never).build().unwrap();
        Self::over(device, slab, capacity, message_size)
    }

    /// A ring over a slab.
    pub fn over(device: &dyn Device, slab: Slab, capacity: usize, message_size: usize) -> Self {
        let region = device.register(&slab, Access::READ).unwrap();
        let ring = PinnedStagingBuffer::builder(capacity, message_size).slab(slab).build().unwrap();
        let (producer, consumer) = ring.split();
        Self { region, producer, consumer, random: Random(message_size as u64) }
    }

    /// Enqueues so many messages of random bytes, and gives the bytes.
    pub fn send(&mut self, messages: usize) -> Vec<u8> {
        let mut bytes = vec![0; messages * self.producer.message_size()];
        self.random.fill(&mut bytes);
        let accepted = self.producer.try_enqueue_batch(&bytes).unwrap();
        assert_eq!(accepted, messages, "the ring has room");
        bytes
    }

    /// Takes exactly so many messages.
    pub fn take(&mut self, messages: usize) -> Batch {
        let batch = self.consumer.take(messages).unwrap();
        assert_eq!(batch.messages(), messages);
        batch
    }

    /// Sends so many messages, and gives them as an upload, and their bytes.
    pub fn upload(&mut self, messages: usize, to: usize) -> (Upload, Vec<u8>) {
        let bytes = self.send(messages);
        let batch = self.take(messages);
        (Upload::new(&self.region, batch, to), bytes)
    }

    /// Moves the ring on by so many slots, without a device.
    pub fn advance(&mut self, messages: usize) {
        if messages > 0 {
            self.send(messages);
            drop(self.take(messages));
        }
    }

    /// How many slots a producer could fill now. They are skipped.
    pub fn free(&self) -> usize {
        self.producer.try_reserve_batch(self.producer.capacity()).map_or(0, |slots| slots.len())
    }

    /// Whether so many slots are free, and all that was sent has been taken. The free ones are skipped.
    pub fn is_free(&mut self, slots: usize) -> bool {
        let is_free = self.free() == slots;
        assert_eq!(self.consumer.clear(), 0);
        is_free
    }
}

/// The next completion, waited for.
pub fn next(stream: &mut dyn Stream) -> Completion {
    stream.wait(watchdog::PATIENCE).expect("a transfer in flight ends")
}

/// Waits for the only upload in flight, and gives its slots back.
pub fn finish(stream: &mut dyn Stream) {
    drop(next(stream).expect_upload());
    assert_eq!(stream.in_flight(), 0);
}

/// The bytes of a range of the device queue. Nothing else is in flight.
pub fn bring(device: &dyn Device, stream: &mut dyn Stream, from: std::ops::Range<usize>) -> Vec<u8> {
    let landing = Landing::new(device, from.len().max(1)).unwrap();
    let (ticket, len_bytes) = (stream.fetch(Download::new(from.clone(), landing)).unwrap(), from.len());
    let completion = next(stream);
    assert_eq!(completion.ticket, ticket);
    completion.expect_download().into_landing().as_slice()[..len_bytes].to_vec()
}

/// All bytes of the device queue.
pub fn all_of(device: &dyn Device, stream: &mut dyn Stream) -> Vec<u8> {
    let end = stream.queue_bytes();
    bring(device, stream, 0..end)
}

/// Numbers that look random, the same in each run (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another.
    #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }

    /// Random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.number().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}

/// No wait at all.
pub(super) const NOW: Duration = Duration::ZERO;
