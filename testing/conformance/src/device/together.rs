//! One slab feeds two devices at once: batches alternate between two streams, several in flight on each.

use std::collections::VecDeque;
use std::time::Duration;

use transload::device::{Download, Landing, Transfer, Upload};
use transload::memory::{Policy, Slab};
use transload::region::{Access, Region};
use transload::staging::{Consumer, PinnedStagingBuffer, Producer};

use super::rig::{Random, next};
use super::subject::{Gated, Run};

/// Bytes of a message, and slots of the ring: no power of two, and a few batches' worth.
const SIZE: usize = 924;
const SLOTS: usize = 64;
/// The most messages of a batch: as many batches as can be in flight on both devices leave some slots free.
const MOST: usize = 6;
/// Batches that are in flight on each device at most. Each has a place in the device queue, and a download behind it.
const PLACES: usize = 4;

/// Bytes of the queue of a stream that [`findings`] is given.
pub const QUEUE_BYTES: usize = PLACES * MOST * SIZE;
/// Transfers that such a stream takes at once.
pub const IN_FLIGHT: usize = 2 * PLACES;

/// All bytes arrive on both devices, and no slot comes back before the device that it was given to has read it.
pub fn one_slab_feeds_two_devices(run: &Run) {
    let findings = findings(&mut [run.gated(QUEUE_BYTES, IN_FLIGHT), run.gated(QUEUE_BYTES, IN_FLIGHT)]);
    assert!(findings.is_empty(), "{findings:?}");
}

/// What is wrong with how two streams, each of another device, treat one slab: nothing, for good ones. Here so that broken
/// streams can be shown to be found out, and so that devices of other processes can be looked at.
pub fn findings(pair: &mut [Gated; 2]) -> Vec<&'static str> {
    let mut course = Course::new(pair);
    for nth in 0..1000 {
        course.send(pair, nth % 2);
    }
    course.end_all(pair);
    // A stream that does not keep to what it is given need not keep to a gate.
    if course.findings.is_empty() {
        (0..2).for_each(|held| course.one_is_held(pair, held));
    }
    course.findings
}

/// What was sent, and where it is now.
struct Course {
    producer: Producer,
    consumer: Consumer,
    sides: [Side; 2],
    /// Bytes that are in the ring and not yet taken.
    waiting: VecDeque<u8>,
    /// Messages that one of the devices has.
    given: usize,
    random: Random,
    findings: Vec<&'static str>,
}

/// What one of the devices has.
struct Side {
    region: Region,
    spare: Vec<Landing>,
    /// The bytes of each batch in flight, in order.
    expected: VecDeque<Vec<u8>>,
    batches: usize,
}

impl Course {
    fn new(pair: &[Gated; 2]) -> Self {
        let slab = Slab::builder(SLOTS, SIZE).lock(Policy::Never).build().unwrap();
        let sides = pair.each_ref().map(|Gated { device, .. }| Side {
            region: device.register(&slab, Access::READ).unwrap(),
            spare: (0..PLACES).map(|_| Landing::new(&**device, MOST * SIZE).unwrap()).collect(),
            expected: VecDeque::new(),
            batches: 0,
        });
        let ring = PinnedStagingBuffer::builder(SLOTS, SIZE).slab(slab).build().unwrap();
        let (producer, consumer) = ring.split();
        let (waiting, findings) = (VecDeque::new(), Vec::new());
        Self { producer, consumer, sides, waiting, given: 0, random: Random(9), findings }
    }

    fn find(&mut self, finding: &'static str) {
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Writes each slot that has come back at once, as producers do.
    fn refill(&mut self) {
        let mut message = [0; SIZE];
        loop {
            self.random.fill(&mut message);
            if self.producer.try_enqueue(&message).is_err() {
                break;
            }
            self.waiting.extend(message);
        }
        if self.waiting.len() / SIZE + self.given > SLOTS {
            self.find("a slot came back before its copy");
        }
    }

    /// Sends a batch to one of the devices, and what landed back again, behind it.
    fn send(&mut self, pair: &mut [Gated; 2], side: usize) {
        while self.sides[side].expected.len() == PLACES {
            self.end_one(pair, side);
        }
        self.refill();
        while self.waiting.is_empty() {
            // The oldest batch stands before all free slots, and may be on either device.
            (0..2).for_each(|side| self.end_one(pair, side));
            self.refill();
        }
        let messages = (1 + self.random.below(MOST)).min(self.waiting.len() / SIZE);
        let bytes: Vec<u8> = self.waiting.drain(..messages * SIZE).collect();
        let batch = self.consumer.take(messages).unwrap();
        assert_eq!(batch.messages(), messages);
        self.given += messages;
        let Side { region, batches, .. } = &mut self.sides[side];
        let to = *batches % PLACES * MOST * SIZE;
        *batches += 1;
        let upload = Upload::new(region, batch, to);
        pair[side].stream.submit(upload).unwrap();
        self.refill();
        let landing = self.sides[side].spare.pop().unwrap();
        pair[side].stream.fetch(Download::new(to..to + bytes.len(), landing)).unwrap();
        self.sides[side].expected.push_back(bytes);
    }

    /// Waits for the oldest batch of a device, if there is one, and looks at what landed.
    fn end_one(&mut self, pair: &mut [Gated; 2], side: usize) {
        let Some(bytes) = self.sides[side].expected.pop_front() else { return };
        let stream = &mut *pair[side].stream;
        drop(next(stream));
        self.given -= bytes.len() / SIZE;
        match next(stream).transfer {
            Transfer::Download(download) => {
                let landing = download.into_landing();
                if landing.as_slice()[..bytes.len()] != bytes {
                    self.find("what landed is not what was submitted");
                }
                self.sides[side].spare.push(landing);
            }
            other => panic!("{other:?} instead of a download"),
        }
    }

    fn end_all(&mut self, pair: &mut [Gated; 2]) {
        for side in [0, 1] {
            while !self.sides[side].expected.is_empty() {
                self.end_one(pair, side);
            }
        }
    }

    /// While one device has not read its batch, the other goes on, and the slots of the first are written by nobody.
    fn one_is_held(&mut self, pair: &mut [Gated; 2], held: usize) {
        pair[held].gate.close();
        self.send(pair, held);
        for _ in 0..3 {
            self.send(pair, 1 - held);
            self.end_one(pair, 1 - held);
        }
        if pair[held].stream.wait(Duration::from_millis(20)).is_some() {
            self.find("a transfer has ended behind a closed gate");
        }
        self.refill();
        pair[held].gate.open();
        self.end_all(pair);
    }
}
