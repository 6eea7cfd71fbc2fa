//! Ranges come back byte for byte, after what was submitted before them.

use transload::device::{Download, Landing, StreamOptions};

use super::rig::{Rig, bring, finish, next};
use super::subject::Run;

/// All kinds of ranges, the empty one too. A landing keeps its bytes behind the range.
pub fn ranges_come_back_byte_for_byte(run: &Run) {
    let device = run.device();
    let mut rig = Rig::new(&*device, 4, 4097);
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 4 * 4097, in_flight: 2 }).unwrap();
    let (upload, bytes) = rig.upload(4, 0);
    stream.submit(upload).unwrap();
    finish(&mut *stream);
    for range in [0..1, 0..4 * 4097, 1..2, 63..129, 4095..8193, 4 * 4097 - 1..4 * 4097, 0..0, 17..17] {
        assert!(bring(&*device, &mut *stream, range.clone()) == bytes[range.clone()], "{range:?}");
    }
    let end = 4 * 4097;
    assert_eq!(bring(&*device, &mut *stream, end..end), []);

    let landing = Landing::new(&*device, 100).unwrap();
    stream.fetch(Download::new(10..20, landing)).unwrap();
    let landing = next(&mut *stream).expect_download().into_landing();
    assert_eq!(landing.as_slice()[..10], bytes[10..20]);
    assert_eq!(landing.as_slice()[10..], [0; 90], "bytes behind the range are not written");
    // The same landing again.
    stream.fetch(Download::new(500..600, landing)).unwrap();
    let landing = next(&mut *stream).expect_download().into_landing();
    assert_eq!(landing.as_slice(), &bytes[500..600]);
}

/// A download is in flight together with the upload that it is to see.
pub fn a_download_comes_after_the_uploads_before_it(run: &Run) {
    let device = run.device();
    let mut rig = Rig::new(&*device, 16, 64);
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 64, in_flight: 3 }).unwrap();
    for _ in 0..200 {
        let (before, bytes) = rig.upload(1, 0);
        let (after, _) = rig.upload(1, 0);
        stream.submit(before).unwrap();
        stream.fetch(Download::new(0..64, Landing::new(&*device, 64).unwrap())).unwrap();
        stream.submit(after).unwrap();
        drop(next(&mut *stream).expect_upload());
        assert_eq!(next(&mut *stream).expect_download().landing().as_slice(), bytes);
        finish(&mut *stream);
    }
}
