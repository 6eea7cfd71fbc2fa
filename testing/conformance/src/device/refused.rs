//! What cannot be done is refused, handed back, and changes nothing.

use transload::device::{
    Device, DeviceError, Download, Landing, Payload, Refused, Stream, StreamOptions, Ticket, Upload,
};
use transload::memory::{Policy, Slab};
use transload::region::{Access, Region, Registration};

use super::rig::{NOW, Rig, all_of, bring, finish, next};
use super::subject::Run;

/// The batch that was refused, and why.
fn refused(result: Result<Ticket, Refused<Upload>>) -> (Payload, DeviceError) {
    let Refused { transfer, error } = result.expect_err("it must be refused");
    assert!(!error.to_string().is_empty());
    (transfer.into_payload(), error)
}

/// The batch is whole, and lands when it is submitted rightly.
fn lands(device: &dyn Device, stream: &mut dyn Stream, region: &Region, batch: Payload, bytes: &[u8]) {
    assert_eq!(stream.in_flight(), 0);
    assert!(stream.poll().is_none());
    stream.submit(Upload::new(region, batch, 0)).unwrap();
    finish(stream);
    assert!(bring(device, stream, 0..bytes.len()) == bytes);
}

/// Ranges that begin or end outside, up to the end of the address space.
pub fn what_does_not_fit_the_queue(run: &Run) {
    let device = run.device();
    let mut rig = Rig::new(&*device, 4, 64);
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 256, in_flight: 1 }).unwrap();
    let before = all_of(&*device, &mut *stream);
    let (upload, bytes) = rig.upload(2, 0);
    let mut batch = upload.into_payload();
    for to in [129, 256, 257, 1 << 40, usize::MAX - 127, usize::MAX] {
        let error;
        (batch, error) = refused(stream.submit(Upload::new(&rig.region, batch, to)));
        assert!(
            matches!(error, DeviceError::OutOfQueue { offset, available: 256, .. } if offset == to),
            "{error}"
        );
    }
    let mut landing = Landing::new(&*device, 512).unwrap();
    for range in [0..257, 256..257, 300..301, usize::MAX - 1..usize::MAX] {
        let Refused { transfer, error } =
            stream.fetch(Download::new(range.clone(), landing)).expect_err("it must be refused");
        assert!(matches!(error, DeviceError::OutOfQueue { .. }), "{range:?}: {error}");
        assert_eq!(transfer.device_range(), range);
        landing = transfer.into_landing();
    }
    assert_eq!(landing.as_slice(), [0; 512]);
    assert!(all_of(&*device, &mut *stream) == before);
    lands(&*device, &mut *stream, &rig.region, batch, &bytes);
    assert!(rig.is_free(4));
}

/// The limit counts what was submitted and not yet handed back, ended or not.
pub fn one_more_than_can_be_in_flight(run: &Run) {
    let device = run.device();
    let mut rig = Rig::new(&*device, 16, 64);
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 256, in_flight: 3 }).unwrap();
    assert_eq!((stream.in_flight_limit(), stream.queue_bytes()), (3, 256));
    for place in 0..3 {
        stream.submit(rig.upload(1, place * 64).0).unwrap();
    }
    let (upload, bytes) = rig.upload(1, 0);
    let (batch, error) = refused(stream.submit(upload));
    assert!(matches!(error, DeviceError::Busy { limit: 3 }), "{error}");
    let landing = Landing::new(&*device, 64).unwrap();
    let Refused { error, .. } = stream.fetch(Download::new(0..64, landing)).unwrap_err();
    assert!(matches!(error, DeviceError::Busy { limit: 3 }), "{error}");
    assert_eq!(stream.in_flight(), 3);
    for ticket in 0..3 {
        assert_eq!(next(&mut *stream).ticket, ticket);
    }
    assert!(stream.wait(NOW).is_none());
    lands(&*device, &mut *stream, &rig.region, batch, &bytes);
}

/// Regions of other devices, of other memory, for other uses, and of nobody.
pub fn memory_that_is_not_registered(run: &Run) {
    let (device, other) = (run.device(), run.device());
    let mut rig = Rig::new(&*device, 4, 64);
    let slab = rig.region.slab().clone();
    let another = Slab::builder(4, 64).lock(Policy::Never).build().unwrap();
    let wrong = [
        ("another device's", other.register(&slab, Access::READ).unwrap()),
        ("another slab's", device.register(&another, Access::READ).unwrap()),
        ("one for writing", device.register(&slab, Access::WRITE).unwrap()),
        ("nobody's", Region::new(slab, Access::READ_WRITE, Registration::Pinned, Box::new(()))),
    ];
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 256, in_flight: 1 }).unwrap();
    let before = all_of(&*device, &mut *stream);
    let (upload, bytes) = rig.upload(4, 0);
    let mut batch = upload.into_payload();
    for (whose, region) in wrong {
        let error;
        (batch, error) = refused(stream.submit(Upload::new(&region, batch, 0)));
        assert!(matches!(error, DeviceError::NotRegistered { .. }), "{whose}: {error}");
        assert_eq!(stream.in_flight(), 0);
    }
    assert!(all_of(&*device, &mut *stream) == before);
    lands(&*device, &mut *stream, &rig.region, batch, &bytes);
}

/// Landings of other devices, and too short ones.
pub fn landings_that_do_not_fit(run: &Run) {
    let (device, other) = (run.device(), run.device());
    let mut stream = device.open_stream(&StreamOptions { queue_bytes: 256, in_flight: 1 }).unwrap();
    let landing = Landing::new(&*other, 256).unwrap();
    let Refused { error, .. } = stream.fetch(Download::new(0..256, landing)).unwrap_err();
    assert!(matches!(error, DeviceError::NotRegistered { .. }), "{error}");
    let landing = Landing::new(&*device, 255).unwrap();
    let Refused { error, transfer } = stream.fetch(Download::new(0..256, landing)).unwrap_err();
    assert!(matches!(error, DeviceError::LandingTooSmall { needed: 256, available: 255 }), "{error}");
    stream.fetch(Download::new(1..256, transfer.into_landing())).unwrap();
    drop(next(&mut *stream).expect_download());
}

/// Zeroes, and more than there is.
pub fn options_that_no_stream_can_have(run: &Run) {
    let device = run.device();
    let open = |queue_bytes, in_flight| {
        device.open_stream(&StreamOptions { queue_bytes, in_flight }).expect_err("no such stream")
    };
    assert!(matches!(open(0, 1), DeviceError::ZeroOption { what: "queue_bytes" }));
    assert!(matches!(open(64, 0), DeviceError::ZeroOption { what: "in_flight" }));
    assert!(matches!(open(64, usize::MAX), DeviceError::TooManyInFlight { wanted: usize::MAX, .. }));
    let most = device.info().max_allocation_bytes;
    for wanted in [most.saturating_add(1), u64::MAX] {
        let error = open(usize::try_from(wanted).unwrap(), 1);
        assert!(
            matches!(error, DeviceError::QueueTooLarge { available, .. } if available == most),
            "{error}"
        );
    }
    drop(device.open_stream(&StreamOptions { queue_bytes: 1, in_flight: 1 }).unwrap());
    let in_flight = StreamOptions::MOST_IN_FLIGHT;
    drop(device.open_stream(&StreamOptions { queue_bytes: 1, in_flight }).unwrap());
}

/// Zeroes, products that overflow, and more than there is.
pub fn slabs_that_cannot_be(run: &Run) {
    let device = run.device();
    for (count, size) in [(0, 1), (1, 0), (usize::MAX, 2), (1 << 32, 1 << 32), (1, usize::MAX / 4)] {
        let error = device.allocate_slab(count, size).expect_err("no such slab");
        assert!(!error.to_string().is_empty());
    }
    assert_eq!(device.allocate_slab(3, 7).unwrap().len_bytes(), 21);
}
