//! A copy that fails hands its batch back, and can be tried again.

use transload::device::{CopyError, Payload, Transfer, Upload};

use super::rig::{Rig, bring, finish, next};
use super::subject::{Gated, Run};

const SIZE: usize = 64;

/// One transfer, made to fail: the batch comes back whole, keeps its slots, and lands when it is submitted again.
pub fn a_failed_copy_hands_its_batch_back(run: &Run) {
    for place in 0..4 {
        let Gated { device, mut stream, mut gate } = run.gated(4 * SIZE, 2);
        let mut rig = Rig::new(&*device, 4, SIZE);
        rig.advance(place);
        gate.close();
        let (upload, bytes) = rig.upload(4, 0);
        let ticket = stream.submit(upload).unwrap();
        gate.fail();
        let completion = next(&mut *stream);
        assert_eq!(completion.ticket, ticket);
        let Err(CopyError::Failed { reason }) = completion.result else {
            return run.skip("its driver runs what stands behind a failed command");
        };
        assert!(!reason.is_empty());
        let Transfer::Upload(upload) = completion.transfer else { panic!("the upload comes back") };
        assert_eq!(rig.free(), 0, "its slots are still its own");
        let to = upload.device_range().start;
        let Payload::Staged(batch) = upload.into_payload() else { panic!("the batch comes back") };
        assert_eq!(batch.iter().flatten().copied().collect::<Vec<u8>>(), bytes);

        assert_eq!(stream.submit(Upload::new(&rig.region, batch, to)).unwrap(), ticket + 1);
        finish(&mut *stream);
        assert_eq!(bring(&*device, &mut *stream, 0..4 * SIZE), bytes);
        assert!(rig.is_free(4));
        assert_eq!(rig.producer.statistics().quarantined, 0);
    }
}

/// What was submitted before the failure, and what is submitted after it, is not affected. What was in flight behind it
/// says for itself how it ended, and says the truth.
pub fn failures_around_one_that_succeeds(run: &Run) {
    let Gated { device, mut stream, mut gate } = run.gated(4 * SIZE, 4);
    let mut rig = Rig::new(&*device, 16, SIZE);
    for _ in 0..50 {
        let (before, first) = rig.upload(1, 0);
        stream.submit(before).unwrap();
        finish(&mut *stream);
        gate.close();
        let mut bytes = Vec::new();
        for place in 1..4 {
            let (upload, its_bytes) = rig.upload(1, place * SIZE);
            stream.submit(upload).unwrap();
            bytes.push(its_bytes);
        }
        gate.fail();
        let results: Vec<_> = (0..3).map(|_| next(&mut *stream).result).collect();
        assert_eq!(stream.in_flight(), 0);
        assert!(results.iter().all(|result| !matches!(result, Err(CopyError::Lost { .. }))), "{results:?}");
        assert_eq!(bring(&*device, &mut *stream, 0..SIZE), first);
        for (place, (result, bytes)) in (1..4).zip(results.into_iter().zip(bytes)) {
            if result.is_ok() {
                assert_eq!(bring(&*device, &mut *stream, place * SIZE..(place + 1) * SIZE), bytes);
            }
        }
        assert!(rig.is_free(16));
    }
}
