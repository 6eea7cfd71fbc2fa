//! Downloads that land in the slots of a ring, where its consumer finds them.

use std::thread;
use std::time::Duration;

use transload::device::{Device, DeviceError, Download, Landing, QueueLayout, Stream, StreamOptions};
use transload::region::{Access, Region};
use transload::staging::{Consumer, PinnedStagingBuffer, Producer};

use super::rig::{NOW, Random, Rig, bring, finish, next};
use super::subject::{Gated, Run};
use crate::watchdog;

/// A ring whose memory is registered to be written.
fn ring(device: &dyn Device, slots: usize, size: usize) -> (Region, Producer, Consumer) {
    let (producer, consumer) = PinnedStagingBuffer::new(slots, size).unwrap().split();
    (device.register(producer.slab(), Access::WRITE).unwrap(), producer, consumer)
}

/// Fetches into all slots that there are, at most so many, and commits them. Gives how many.
fn fetch(stream: &mut dyn Stream, region: &Region, producer: &Producer, from: usize, most: usize) -> usize {
    let (first, behind_wrap) = producer.try_reserve_owned(most).unwrap();
    let (mut from, mut count) = (from, 0);
    let mut in_flight = 0;
    for slots in [Some(first), behind_wrap].into_iter().flatten() {
        let len_bytes = slots.len_bytes();
        count += slots.len();
        let landing = Landing::over(region, slots).unwrap();
        assert_eq!(landing.len_bytes(), len_bytes);
        stream.fetch(Download::new(from..from + len_bytes, landing)).unwrap();
        (from, in_flight) = (from + len_bytes, in_flight + 1);
    }
    for _ in 0..in_flight {
        next(stream).expect_download().into_landing().into_slots().unwrap().commit();
    }
    count
}

/// Runs of slots anywhere in the ring, those that wrap too: what stands there is what was on the device, and what stands
/// beside is what was there.
pub fn ranges_land_in_slots_byte_for_byte(run: &Run) {
    let device = run.device();
    for size in [1, 3, 24, 924, 4096] {
        let mut rig = Rig::new(&*device, 16, size);
        let options = StreamOptions { queue_bytes: 16 * size, in_flight: 2 };
        let mut stream = device.open_stream(&options).unwrap();
        let (upload, bytes) = rig.upload(16, 0);
        stream.submit(upload).unwrap();
        finish(&mut *stream);
        let (region, producer, mut consumer) = ring(&*device, 8, size);
        let mut random = Random(size as u64);
        for _ in 0..60 {
            let first = random.below(9);
            // A message of another producer's before and behind.
            let before = producer.try_enqueue(&vec![0xee; size]).is_ok();
            let count = fetch(&mut *stream, &region, &producer, first * size, 1 + random.below(7));
            let behind = producer.try_enqueue(&vec![0xdd; size]).is_ok();
            let mut back = vec![0; 8 * size];
            let mut copied = 0;
            while let Ok(messages @ 1..) = consumer.dequeue_batch(&mut back[copied * size..], 8 - copied) {
                copied += messages;
                if copied == 8 {
                    break;
                }
            }
            let expected = [
                &vec![0xee; if before { size } else { 0 }],
                &bytes[first * size..(first + count) * size],
                &vec![0xdd; if behind { size } else { 0 }][..],
            ]
            .concat();
            assert_eq!(copied * size, expected.len());
            assert!(
                back[..copied * size] == expected,
                "{count} messages of {size} bytes from the {first}-th"
            );
        }
    }
}

/// A stream is dropped with downloads into slots in flight, and the gate stays closed: nobody is given the slots while a
/// copy may come.
pub fn slots_of_a_device_that_never_is_done(run: &Run) {
    const SIZE: usize = 64;
    let Gated { device, mut stream, mut gate } = run.gated(8 * SIZE, 4);
    let (region, producer, mut consumer) = ring(&*device, 8, SIZE);
    gate.close();
    let (slots, _) = producer.try_reserve_owned(3).unwrap();
    stream.fetch(Download::new(0..3 * SIZE, Landing::over(&region, slots).unwrap())).unwrap();
    assert!(stream.wait(NOW).is_none());
    drop(stream);
    let mut accepted = 0;
    while producer.try_enqueue(&[0xee; SIZE]).is_ok() {
        accepted += 1;
    }
    assert_eq!(accepted, 5, "the slots are not free");
    let quarantined = producer.statistics().quarantined;
    assert!(quarantined == 0 || quarantined == 3, "all of them or none: {quarantined}");
    drop((region, device));
    gate.open();
    let mut back = [0; 8 * SIZE];
    let came = watchdog::until(|| matches!(consumer.dequeue_batch(&mut back, 8), Ok(5)));
    assert!(came, "what stands behind them does not come");
    assert_eq!(back[..5 * SIZE], [0xee; 5 * SIZE]);
    assert_eq!(producer.statistics().skipped, 3 - quarantined as u64);
    drop((producer, consumer));
    // What the driver does now, it does to memory that is still there.
    thread::sleep(Duration::from_millis(50));
}

/// Slots of memory that is registered elsewhere, or not to be written.
pub fn slots_that_are_not_registered(run: &Run) {
    let device = run.device();
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 64, in_flight: 1 }).unwrap();
    let (region, _, _) = ring(&*device, 4, 16);
    let (_, producer, mut consumer) = ring(&*device, 4, 16);
    let refused = Landing::over(&region, producer.try_reserve_owned(1).unwrap().0);
    assert!(matches!(refused, Err(DeviceError::NotRegistered { .. })), "{refused:?}");
    let read_only = device.register(producer.slab(), Access::READ).unwrap();
    let landing = Landing::over(&read_only, producer.try_reserve_owned(2).unwrap().0).unwrap();
    let refused = stream.fetch(Download::new(0..32, landing)).unwrap_err();
    assert!(matches!(refused.error, DeviceError::NotRegistered { .. }), "{refused:?}");
    drop(refused);
    assert_eq!(consumer.clear(), 0);
    assert_eq!(producer.statistics().skipped, 3, "given up, stepped over and counted");
}

/// A queue is made of memory that is full of other things, and of no more than it needs.
pub fn a_queue_is_made_within_its_bounds(run: &Run) {
    let device = run.device();
    let layout = QueueLayout::new(64, 24).unwrap();
    let bytes = 256 + layout.len_bytes() + 64;
    let mut rig = Rig::new(&*device, 2, bytes);
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: bytes, in_flight: 2 }).unwrap();
    let (upload, before) = rig.upload(1, 0);
    stream.submit(upload).unwrap();
    finish(&mut *stream);
    layout.make(&mut *stream, 256).unwrap();
    let [slots, _] = layout.slots(0, 64);
    let slots = 256 + slots.start..256 + slots.end;
    let after = bring(&*device, &mut *stream, 0..bytes);
    assert!(after[..256] == before[..256] && after[slots.start..] == before[slots.start..]);
    let words = layout.words().map(u32::to_le_bytes);
    assert_eq!(after[256..272].as_chunks::<4>().0, words);
    assert!(after[272..slots.start].iter().all(|byte| *byte == 0));
    let refused = layout.make(&mut *stream, 128);
    assert!(matches!(refused, Err(DeviceError::Misaligned { offset: 128, multiple: 256 })), "{refused:?}");
    let refused = layout.make(&mut *stream, 512 * 1024);
    assert!(matches!(refused, Err(DeviceError::OutOfQueue { .. })), "{refused:?}");
}
