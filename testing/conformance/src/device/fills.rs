//! Fills change the words that they name, in their turn, and nothing beside them.

use transload::device::{DeviceError, Fill, StreamOptions, Transfer};

use super::rig::{Rig, all_of, bring, finish, next};
use super::subject::Run;

fn fill(stream: &mut dyn transload::device::Stream, range: std::ops::Range<usize>, word: u32) {
    let ticket = stream.fill(Fill { range: range.clone(), word }).unwrap();
    let completion = next(stream);
    assert_eq!((completion.ticket, completion.result), (ticket, Ok(())));
    let Transfer::Fill(back) = completion.transfer else { panic!("the fill comes back") };
    assert_eq!(back, Fill { range, word });
}

/// Ranges of all lengths, the empty one too.
pub fn words_are_filled_and_nothing_beside_them(run: &Run) {
    let device = run.device();
    let mut rig = Rig::new(&*device, 4, 1001);
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 4 * 1001, in_flight: 2 }).unwrap();
    let (upload, mut model) = rig.upload(4, 0);
    stream.submit(upload).unwrap();
    finish(&mut *stream);
    for (range, word) in [(0..4, 1), (4..4, 2), (8..264, 0xdead_beef), (4000..4004, u32::MAX), (0..4004, 0)] {
        fill(&mut *stream, range.clone(), word);
        model[range].as_chunks_mut::<4>().0.fill(word.to_le_bytes());
        assert!(all_of(&*device, &mut *stream) == model, "{word}");
    }
}

/// What is no whole word, or outside, is refused.
pub fn fills_that_cannot_be(run: &Run) {
    let device = run.device();
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 64, in_flight: 1 }).unwrap();
    for range in [1..5, 0..2, 2..4] {
        let refused = stream.fill(Fill { range, word: 0 }).unwrap_err();
        assert!(matches!(refused.error, DeviceError::Misaligned { .. }), "{}", refused.error);
    }
    for range in [64..68, 0..68, usize::MAX - 3..usize::MAX] {
        let refused = stream.fill(Fill { range, word: 0 }).unwrap_err();
        assert!(matches!(refused.error, DeviceError::OutOfQueue { .. }), "{}", refused.error);
    }
    fill(&mut *stream, 60..64, 7);
    assert_eq!(bring(&*device, &mut *stream, 60..64), 7_u32.to_le_bytes());
}

/// Between an upload before it and one behind it, all three in flight.
pub fn fills_take_their_turn(run: &Run) {
    let device = run.device();
    let mut rig = Rig::new(&*device, 16, 64);
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 64, in_flight: 3 }).unwrap();
    for _ in 0..200 {
        let (before, mut model) = rig.upload(1, 0);
        stream.submit(before).unwrap();
        stream.fill(Fill { range: 8..64, word: 3 }).unwrap();
        let landing = transload::device::Landing::new(&*device, 64).unwrap();
        stream.fetch(transload::device::Download::new(0..64, landing)).unwrap();
        model[8..].as_chunks_mut::<4>().0.fill(3_u32.to_le_bytes());
        drop(next(&mut *stream).expect_upload());
        assert_eq!(next(&mut *stream).result, Ok(()));
        assert_eq!(next(&mut *stream).expect_download().landing().as_slice(), model);
    }
}
