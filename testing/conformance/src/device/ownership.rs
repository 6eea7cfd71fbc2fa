//! No slot is written again before its copy has ended.

use std::thread;
use std::time::Duration;

use transload::staging::EnqueueError;

use super::rig::{NOW, Rig, all_of, next};
use super::subject::{Gated, Run};
use crate::watchdog;

const SIZE: usize = 64;
const SLOTS: usize = 8;

/// While the gate is closed, the ring is full; when it opens, what lands is what was submitted.
pub fn no_slot_is_reused_before_its_copy(run: &Run) {
    for place in 0..SLOTS {
        let mut gated = run.gated(SLOTS * SIZE, 4);
        let findings = reuse(&mut gated, place);
        assert!(findings.is_empty(), "{findings:?}");
    }
}

/// What is wrong with how a stream treats the slots of two batches, the first of which begins at a slot of the ring:
/// nothing, for a good one. Here so that broken streams can be shown to be found out.
pub fn reuse(gated: &mut Gated, place: usize) -> Vec<&'static str> {
    let mut findings = Vec::new();
    let mut rig = Rig::new(&*gated.device, SLOTS, SIZE);
    rig.advance(place);
    gated.gate.close();
    let (first, mut bytes) = rig.upload(SLOTS / 2, 0);
    let (second, more) = rig.upload(SLOTS / 2, SLOTS / 2 * SIZE);
    bytes.extend(more);
    gated.stream.submit(first).unwrap();
    gated.stream.submit(second).unwrap();
    if gated.stream.wait(Duration::from_millis(20)).is_some() {
        findings.push("a transfer has ended behind a closed gate");
    }
    // A slot that has come back is taken at once, as by any producer.
    if rig.producer.try_enqueue(&[0xee; SIZE]) != Err(EnqueueError::Full) {
        findings.push("a slot came back before its copy");
    }
    gated.gate.open();
    for _ in 0..2 {
        drop(next(&mut *gated.stream));
    }
    if all_of(&*gated.device, &mut *gated.stream) != bytes {
        findings.push("what landed is not what was submitted");
    }
    if !watchdog::until(|| rig.producer.try_enqueue(&[0xff; SIZE]).is_ok()) {
        findings.push("the slots did not come back");
    }
    findings
}

/// A stream is dropped with transfers in flight, and the gate opens a little later: all slots come back.
pub fn dropped_before_the_device_is_done(run: &Run) {
    let Gated { device, mut stream, mut gate } = run.gated(SLOTS * SIZE, 4);
    let mut rig = Rig::new(&*device, SLOTS, SIZE);
    rig.advance(3);
    gate.close();
    for _ in 0..2 {
        stream.submit(rig.upload(SLOTS / 2, 0).0).unwrap();
    }
    let opener = thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        gate.open();
        gate
    });
    drop(stream);
    assert!(watchdog::until(|| rig.is_free(SLOTS)), "the slots come back");
    assert_eq!(rig.producer.statistics().quarantined, 0);
    rig.advance(SLOTS);
    drop(opener.join().unwrap());
}

/// A stream is dropped with transfers in flight, and the gate stays closed: the drop ends, and no slot is ever used
/// again while a copy may come. It comes when everything that can be dropped was.
pub fn dropped_and_the_device_never_is_done(run: &Run) {
    let Gated { device, mut stream, mut gate } = run.gated(SLOTS * SIZE, 4);
    let mut rig = Rig::new(&*device, SLOTS, SIZE);
    rig.advance(3);
    gate.close();
    let in_flight = SLOTS / 2;
    stream.submit(rig.upload(in_flight, 0).0).unwrap();
    let landing = transload::device::Landing::new(&*device, SIZE).unwrap();
    stream.fetch(transload::device::Download::new(0..SIZE, landing)).unwrap();
    assert!(stream.wait(NOW).is_none());
    drop(stream);

    // The other slots are still of use, those in flight are not.
    let mut accepted = 0;
    while rig.producer.try_enqueue(&[0xee; SIZE]).is_ok() {
        accepted += 1;
    }
    assert_eq!(accepted, SLOTS - in_flight);
    let quarantined = rig.producer.statistics().quarantined;
    assert!(quarantined == 0 || quarantined == in_flight, "all of the batch or nothing: {quarantined}");
    if quarantined == in_flight {
        assert_eq!(rig.producer.capacity(), SLOTS - in_flight);
    }
    let Rig { region, producer, consumer, .. } = rig;
    drop((consumer, region, device));
    gate.open();
    // Held by the device for as long as it took, or for ever.
    let back = || producer.len() + in_flight <= SLOTS && !producer.is_full();
    assert!(quarantined == in_flight || watchdog::until(back));
    assert_eq!(producer.statistics().quarantined, quarantined);
    drop(producer);
    // What the driver does now, it does to memory that is still there.
    thread::sleep(Duration::from_millis(50));
}
