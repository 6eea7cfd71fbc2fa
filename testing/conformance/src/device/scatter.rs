//! Messages in buffers that processes share land like others, wherever the buffers are.

use std::time::Duration;

use transload::device::{CopyError, Device, Payload, Refused, StreamOptions, Transfer, Upload};
use transload::region::{Access, Region};
use transload::shared::{SharedBatch, SharedConsumer, SharedLease, SharedPool, SharedRegion};

use super::rig::{Random, all_of, bring, finish, next};
use super::subject::{Gated, Run};
use crate::watchdog;

/// A region that is registered with a device, and both ends of its ring.
#[derive(Debug)]
pub struct SharedRig {
    /// The registration.
    pub region: Region,
    /// Who sends.
    pub pool: SharedPool,
    /// The end that messages come out of.
    pub consumer: SharedConsumer,
    random: Random,
}

impl SharedRig {
    /// A region whose ring can name all buffers.
    pub fn new(device: &dyn Device, buffers: usize, buffer_size: usize) -> Self {
        let shared = SharedRegion::builder(buffers, buffer_size).members(2).create().unwrap();
        let pool = SharedPool::join(&shared, "a test").unwrap();
        Self {
            region: shared.register(device, Access::READ).unwrap(),
            consumer: pool.ring().consumer().unwrap(),
            pool,
            random: Random(buffer_size as u64),
        }
    }

    /// Sends messages of random bytes that fill the buffers, as many as `order` has numbers, out of the buffers that come
    /// in that order; and gives the bytes.
    pub fn send(&mut self, order: &[usize]) -> Vec<u8> {
        let mut leases: Vec<_> = order.iter().map(|_| Some(self.pool.try_acquire().unwrap())).collect();
        leases.sort_by_key(|lease| lease.as_ref().map(SharedLease::index));
        let size = self.pool.buffer_size();
        let mut bytes = vec![0; order.len() * size];
        self.random.fill(&mut bytes);
        for (message, &place) in bytes.chunks_exact(size).zip(order) {
            let mut lease = leases[place].take().expect("each once");
            lease.write_at(0, message).unwrap();
            self.pool.ring().try_send(lease, size).unwrap();
        }
        bytes
    }

    /// Takes exactly so many messages.
    pub fn take(&mut self, messages: usize) -> SharedBatch {
        let batch = self.consumer.take(messages).unwrap();
        assert_eq!(batch.messages(), messages);
        batch
    }

    /// As [`send`](SharedRig::send), and gives the messages as an upload.
    pub fn upload(&mut self, order: &[usize], to: usize) -> (Upload, Vec<u8>) {
        let bytes = self.send(order);
        let batch = self.take(order.len());
        (Upload::new(&self.region, batch, to), bytes)
    }

    /// Buffers that are free.
    pub fn free(&self) -> usize {
        self.pool.statistics().free
    }

    /// How many buffers each state has: owned by this member, lent by it.
    fn held(&self) -> (usize, usize) {
        let own = self.pool.holders().into_iter().find(|holder| holder.member == self.pool.member());
        own.map_or((0, 0), |holder| (holder.owned, holder.lent))
    }
}

/// Orders of eight buffers, and how many pieces of memory their bytes are then in.
const ORDERS: [([usize; 8], usize); 5] = [
    ([0, 1, 2, 3, 4, 5, 6, 7], 1),
    ([7, 6, 5, 4, 3, 2, 1, 0], 8),
    ([4, 5, 6, 7, 0, 1, 2, 3], 2),
    ([0, 2, 1, 3, 4, 5, 7, 6], 6),
    ([1, 2, 0, 5, 3, 4, 7, 6], 6),
];

/// Buffers in any order; what lies behind each other is one piece. Bytes beside them stay as they are.
pub fn buffers_in_any_order_land_whole(run: &Run) {
    let device = run.device();
    for size in [1, 3, 24, 64, 4095, 20_000] {
        let mut rig = SharedRig::new(&*device, 8, size);
        let queue_bytes = 8 * size + 1000;
        let mut stream = device.open_stream(&StreamOptions { queue_bytes, in_flight: 2 }).unwrap();
        let mut model = all_of(&*device, &mut *stream);
        for (to, (order, pieces)) in [0, 1, 63, 999, 1000].into_iter().zip(ORDERS) {
            let (upload, bytes) = rig.upload(&order, to);
            let lengths: Vec<_> = upload.pieces().map(|(_, len_bytes)| len_bytes).collect();
            assert_eq!((lengths.len(), lengths.iter().sum::<usize>()), (pieces, bytes.len()), "{order:?}");
            assert_eq!(upload.device_range(), to..to + bytes.len());
            stream.submit(upload).unwrap();
            finish(&mut *stream);
            model[to..to + bytes.len()].copy_from_slice(&bytes);
            assert!(all_of(&*device, &mut *stream) == model, "buffers of {size} bytes, {order:?}");
        }
        assert_eq!(rig.free(), 8);
    }
}

/// Thousands of batches of random length and order, several in flight.
pub fn random_buffers_match_a_model(run: &Run) {
    const SIZE: usize = 40;
    let device = run.device();
    let mut random = Random(3);
    let mut rig = SharedRig::new(&*device, 64, SIZE);
    let options = StreamOptions { queue_bytes: 4096, in_flight: 4 };
    let mut stream = device.open_stream(&options).unwrap();
    let mut model = all_of(&*device, &mut *stream);
    for _ in 0..2000 {
        while stream.in_flight() == 4 || stream.in_flight() > 0 && random.below(3) == 0 {
            drop(next(&mut *stream).expect_upload());
        }
        let messages = 1 + random.below(16);
        let mut order: Vec<usize> = (0..messages).collect();
        for place in (1..messages).rev() {
            order.swap(place, random.below(place + 1));
        }
        let (upload, bytes) = rig.upload(&order, random.below(4096 - messages * SIZE + 1));
        model[upload.device_range()].copy_from_slice(&bytes);
        stream.submit(upload).unwrap();
    }
    while stream.in_flight() > 0 {
        drop(next(&mut *stream).expect_upload());
    }
    assert!(all_of(&*device, &mut *stream) == model);
    let statistics = rig.pool.statistics();
    assert_eq!((statistics.free, statistics.quarantined), (64, 0));
}

/// While the gate is closed no buffer is free; when it opens, what lands is what was submitted.
pub fn no_buffer_is_reused_before_its_copy(run: &Run) {
    let findings = reuse(&mut run.gated(8 * 64, 4));
    assert!(findings.is_empty(), "{findings:?}");
}

/// What is wrong with how a stream treats the buffers of a batch: nothing, for a good one. Here so that broken streams
/// can be shown to be found out.
pub fn reuse(gated: &mut Gated) -> Vec<&'static str> {
    let mut findings = Vec::new();
    let mut rig = SharedRig::new(&*gated.device, 8, 64);
    gated.gate.close();
    let (upload, bytes) = rig.upload(&ORDERS[4].0, 0);
    let stays = gated.stream.dies_with_process();
    gated.stream.submit(upload).unwrap();
    if gated.stream.wait(Duration::from_millis(20)).is_some() {
        findings.push("a transfer has ended behind a closed gate");
    }
    // Others are told of buffers that the device may read after the death of this process.
    if rig.held() != if stays { (8, 0) } else { (0, 8) } {
        findings.push("its buffers are not marked as they should be");
    }
    // A buffer that has come back is taken at once, as by any member.
    if let Ok(mut lease) = rig.pool.try_acquire() {
        findings.push("a buffer came back before its copy");
        lease.write_at(0, &[0xee; 64]).unwrap();
    }
    gated.gate.open();
    drop(next(&mut *gated.stream));
    if bring(&*gated.device, &mut *gated.stream, 0..bytes.len()) != bytes {
        findings.push("what landed is not what was submitted");
    }
    if rig.free() != 8 {
        findings.push("the buffers did not come back");
    }
    findings
}

/// One transfer, made to fail: the batch comes back whole, keeps its buffers, and lands when it is submitted again.
pub fn a_failed_copy_hands_its_buffers_back(run: &Run) {
    let Gated { device, mut stream, mut gate } = run.gated(8 * 64, 2);
    let mut rig = SharedRig::new(&*device, 8, 64);
    gate.close();
    let (upload, bytes) = rig.upload(&ORDERS[4].0, 0);
    stream.submit(upload).unwrap();
    gate.fail();
    let completion = next(&mut *stream);
    let Err(CopyError::Failed { .. }) = completion.result else {
        return run.skip("its driver runs what stands behind a failed command");
    };
    let Transfer::Upload(upload) = completion.transfer else { panic!("the upload comes back") };
    assert_eq!(rig.free(), 0, "its buffers are still its own");
    let Payload::Shared(batch) = upload.into_payload() else { panic!("the batch comes back") };
    let mut again = vec![0; bytes.len()];
    for (message, bytes) in batch.iter().zip(again.chunks_exact_mut(64)) {
        batch.read(&message, bytes).unwrap();
    }
    assert!(again == bytes);
    stream.submit(Upload::new(&rig.region, batch, 0)).unwrap();
    finish(&mut *stream);
    assert!(bring(&*device, &mut *stream, 0..bytes.len()) == bytes);
    let statistics = rig.pool.statistics();
    assert_eq!((statistics.free, statistics.quarantined), (8, 0));
}

/// A stream is dropped with a transfer in flight, and the gate stays closed: no buffer is ever used again while a copy may
/// come.
pub fn buffers_of_a_device_that_never_is_done(run: &Run) {
    let Gated { device, mut stream, mut gate } = run.gated(8 * 64, 2);
    let mut rig = SharedRig::new(&*device, 8, 64);
    gate.close();
    stream.submit(rig.upload(&[2, 0, 1], 0).0).unwrap();
    drop(stream);
    let quarantined = rig.pool.statistics().quarantined;
    assert!(quarantined == 0 || quarantined == 3, "all of the batch or nothing: {quarantined}");
    assert_eq!(rig.free(), 5, "the others are still of use");
    gate.open();
    // Held by the device for as long as it took, or for ever.
    assert!(watchdog::until(|| rig.free() == 8 - quarantined));
}

/// Of another region's memory.
pub fn buffers_that_are_not_registered(run: &Run) {
    let device = run.device();
    let (mut rig, other) = (SharedRig::new(&*device, 4, 64), SharedRig::new(&*device, 4, 64));
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 256, in_flight: 1 }).unwrap();
    let bytes = rig.send(&[1, 0]);
    let batch = rig.take(2);
    let Refused { transfer, error } =
        stream.submit(Upload::new(&other.region, batch, 0)).expect_err("it must be refused");
    assert!(error.to_string().contains("not registered"), "{error}");
    assert_eq!(rig.held(), (2, 0), "nobody else has them");
    stream.submit(Upload::new(&rig.region, transfer.into_payload(), 0)).unwrap();
    finish(&mut *stream);
    assert!(bring(&*device, &mut *stream, 0..bytes.len()) == bytes);
}
