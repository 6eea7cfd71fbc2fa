//! What was sent lands byte for byte, in order, wherever it should.

use std::collections::VecDeque;

use transload::device::{Download, Landing, StreamOptions, Transfer};

use super::rig::{Random, Rig, all_of, bring, finish, next};
use super::subject::Run;

/// Message sizes around those that processors and devices like.
const SIZES: [usize; 12] = [1, 3, 5, 24, 56, 63, 64, 65, 924, 4095, 4096, 4097];

/// Batches of all sizes, at all kinds of offsets; bytes beside them stay as they are.
pub fn every_size_lands_byte_for_byte(run: &Run) {
    const MESSAGES: usize = 11;
    let device = run.device();
    for size in SIZES {
        let mut rig = Rig::new(&*device, 16, size);
        let queue_bytes = MESSAGES * size + 5000;
        let mut stream = device.open_stream(&StreamOptions { queue_bytes, in_flight: 1 }).unwrap();
        let mut model = all_of(&*device, &mut *stream);
        for to in [0, 1, 7, 63, 64, 4095, 5000] {
            let (upload, bytes) = rig.upload(MESSAGES, to);
            assert_eq!(upload.device_range(), to..to + bytes.len());
            stream.submit(upload).unwrap();
            finish(&mut *stream);
            model[to..to + bytes.len()].copy_from_slice(&bytes);
            assert!(all_of(&*device, &mut *stream) == model, "messages of {size} bytes at {to}");
        }
    }
}

/// Messages that are larger than any driver copies at once by the way, at aligned and at odd places.
pub fn messages_of_a_mebibyte_land_whole(run: &Run) {
    const SIZE: usize = 1 << 20;
    let device = run.device();
    let mut rig = Rig::new(&*device, 2, SIZE);
    let options = StreamOptions { queue_bytes: 2 * SIZE + 1, in_flight: 2 };
    let mut stream = device.open_stream(&options).unwrap();
    for to in [0, 1, 0] {
        rig.advance(1);
        let (upload, bytes) = rig.upload(2, to);
        stream.submit(upload).unwrap();
        finish(&mut *stream);
        assert!(bring(&*device, &mut *stream, to..to + 2 * SIZE) == bytes, "at {to}");
    }
}

/// A batch whose end lies before its start in the ring.
pub fn a_batch_that_wraps_lands_whole(run: &Run) {
    let device = run.device();
    for size in SIZES {
        let mut stream = device.open_stream(&StreamOptions { queue_bytes: 8 * size, in_flight: 1 }).unwrap();
        for before_wrap in 1..8 {
            let mut rig = Rig::new(&*device, 8, size);
            rig.advance(8 - before_wrap);
            let (upload, bytes) = rig.upload(8, 0);
            let pieces: Vec<_> = upload.pieces().map(|(_, len_bytes)| len_bytes).collect();
            assert_eq!(pieces, [before_wrap * size, (8 - before_wrap) * size]);
            stream.submit(upload).unwrap();
            finish(&mut *stream);
            assert!(all_of(&*device, &mut *stream) == bytes, "{size} bytes, {before_wrap} before the wrap");
        }
    }
}

/// As many transfers in flight as there can be; the later of two to the same place wins.
pub fn several_are_in_flight_and_end_in_order(run: &Run) {
    const SIZE: usize = 64;
    let device = run.device();
    let mut rig = Rig::new(&*device, 64, SIZE);
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 8 * SIZE, in_flight: 8 }).unwrap();
    for round in 0..100 {
        let mut model = all_of(&*device, &mut *stream);
        let first = stream.submit(rig.upload(2, 0).0).unwrap();
        for place in 1..8 {
            let to = (place - 1) * SIZE;
            let (upload, bytes) = rig.upload(2, to);
            model[to..to + bytes.len()].copy_from_slice(&bytes);
            assert_eq!(stream.submit(upload).unwrap(), first + place as u64);
        }
        assert!((1..=8).contains(&stream.in_flight()));
        for number in 0..8 {
            let completion = next(&mut *stream);
            assert_eq!(completion.ticket, first + number, "round {round}");
            assert_eq!(completion.expect_upload().messages(), 2);
        }
        assert!(stream.poll().is_none());
        assert!(all_of(&*device, &mut *stream) == model, "round {round}");
    }
}

/// Ten thousand batches of random length, at random places, with downloads between them, four in flight.
pub fn random_batches_match_a_model(run: &Run) {
    const SIZE: usize = 24;
    const QUEUE: usize = 4096;
    let device = run.device();
    let mut random = Random(1);
    let mut rig = Rig::new(&*device, 64, SIZE);
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: QUEUE, in_flight: 4 }).unwrap();
    let mut model = all_of(&*device, &mut *stream);
    let mut spare: Vec<_> = (0..4).map(|_| Landing::new(&*device, QUEUE).unwrap()).collect();
    // What each transfer in flight is to be: nothing for an upload, the expected bytes for a download.
    let mut expected: VecDeque<(u64, Option<Vec<u8>>)> = VecDeque::new();
    let (mut batches, mut lent) = (0, 0);
    while batches < 10_000 || !expected.is_empty() {
        let full = stream.in_flight() == stream.in_flight_limit();
        if full || batches == 10_000 || random.below(3) == 0 {
            let done = if full || batches == 10_000 { Some(next(&mut *stream)) } else { stream.poll() };
            let Some(done) = done else { continue };
            let (ticket, bytes) = expected.pop_front().unwrap();
            assert_eq!(done.ticket, ticket);
            assert_eq!(done.result, Ok(()));
            match (done.transfer, bytes) {
                (Transfer::Upload(upload), None) => lent -= upload.messages(),
                (Transfer::Download(download), Some(bytes)) => {
                    let landing = download.into_landing();
                    assert!(landing.as_slice()[..bytes.len()] == bytes, "after {batches} batches");
                    spare.push(landing);
                }
                other => panic!("{other:?} instead of what was submitted"),
            }
        } else if random.below(4) == 0 && !spare.is_empty() {
            let start = random.below(QUEUE);
            let end = start + random.below(QUEUE - start + 1);
            let ticket = stream.fetch(Download::new(start..end, spare.pop().unwrap())).unwrap();
            expected.push_back((ticket, Some(model[start..end].to_vec())));
        } else {
            let messages = (1 + random.below(20)).min(64 - lent);
            if messages == 0 {
                continue;
            }
            let to = random.below(QUEUE - messages * SIZE + 1);
            let (upload, bytes) = rig.upload(messages, to);
            model[to..to + bytes.len()].copy_from_slice(&bytes);
            expected.push_back((stream.submit(upload).unwrap(), None));
            batches += 1;
            lent += messages;
        }
    }
    assert!(all_of(&*device, &mut *stream) == model);
    assert_eq!(rig.producer.statistics().quarantined, 0);
}
