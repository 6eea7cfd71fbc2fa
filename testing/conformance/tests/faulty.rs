//! The device that fails where it is told to.

use transload::device::{
    CopyError, Device, DeviceError, Download, Landing, StreamOptions, Transfer, host::HostDevice,
};
use transload::memory::{Policy, Slab};
use transload::region::{Access, Registrar};
use transload_conformance::device::{Rig, bring, finish, next};
use transload_conformance::faulty::{Call, Faults, Faulty};

const OPTIONS: StreamOptions = StreamOptions { queue_bytes: 256, in_flight: 4 };

fn faulty() -> (Faulty, Faults) {
    let faults = Faults::new();
    (Faulty::new(Box::new(HostDevice::new()), faults.clone()), faults)
}

#[test]
fn without_faults_it_is_the_device_that_it_wraps() {
    let (device, faults) = faulty();
    let mut rig = Rig::new(&device, 4, 64);
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    let (upload, bytes) = rig.upload(4, 0);
    stream.submit(upload).unwrap();
    finish(&mut *stream);
    assert_eq!(bring(&device, &mut *stream, 0..256), bytes);
    assert_eq!(faults.completions(), 2);
    assert_eq!(faults.count(Call::Submit), 1);
}

#[test]
fn the_nth_call_of_each_kind_is_refused_and_no_other() {
    let (device, faults) = faulty();
    for call in [Call::Register, Call::AllocateSlab, Call::OpenStream, Call::Submit, Call::Fetch] {
        faults.refuse(call, 1);
    }
    let slab = Slab::builder(4, 64).lock(Policy::Never).build().unwrap();
    let works = [(); 3].map(|()| device.register(&slab, Access::READ).is_ok());
    assert_eq!(works, [true, false, true]);
    assert_eq!([(); 3].map(|()| device.allocate_slab(1, 1).is_ok()), [true, false, true]);
    assert_eq!([(); 3].map(|()| device.open_stream(&OPTIONS).is_ok()), [true, false, true]);

    let mut rig = Rig::over(&device, slab, 4, 64);
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    stream.submit(rig.upload(1, 0).0).unwrap();
    let refused = stream.submit(rig.upload(1, 0).0).unwrap_err();
    assert!(matches!(refused.error, DeviceError::Driver { .. }), "{}", refused.error);
    assert_eq!(stream.submit(refused.transfer).unwrap(), 1);
    let landing = Landing::new(&device, 64).unwrap();
    stream.fetch(Download::new(0..64, landing)).unwrap();
    let refused = stream.fetch(Download::new(0..64, Landing::new(&device, 64).unwrap())).unwrap_err();
    assert_eq!(stream.fetch(refused.transfer).unwrap(), 3);
    for ticket in 0..4 {
        assert_eq!(next(&mut *stream).ticket, ticket);
    }
}

#[test]
fn a_failed_completion_hands_the_transfer_back() {
    let (device, faults) = faulty();
    faults.fail(1);
    let mut rig = Rig::new(&device, 4, 64);
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    for _ in 0..3 {
        stream.submit(rig.upload(1, 0).0).unwrap();
    }
    drop(next(&mut *stream).expect_upload());
    let failed = next(&mut *stream);
    assert!(matches!(failed.result, Err(CopyError::Failed { .. })));
    let Transfer::Upload(upload) = failed.transfer else { panic!("it comes back") };
    stream.submit(upload).unwrap();
    drop(next(&mut *stream).expect_upload());
    finish(&mut *stream);
    assert!(rig.is_free(4));
}

#[test]
fn a_lost_completion_quarantines_and_ends_the_stream() {
    let (device, faults) = faulty();
    faults.lose(1);
    let mut rig = Rig::new(&device, 8, 64);
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    for messages in 1..4 {
        stream.submit(rig.upload(messages, 0).0).unwrap();
    }
    drop(next(&mut *stream).expect_upload());
    let lost = next(&mut *stream);
    assert!(matches!(lost.result, Err(CopyError::Lost { .. })));
    assert!(matches!(lost.transfer, Transfer::Quarantined { messages: 2 }));
    finish(&mut *stream);
    let refused = stream.submit(rig.upload(1, 0).0).unwrap_err();
    assert!(matches!(refused.error, DeviceError::Lost { .. }), "{}", refused.error);
    drop(refused);
    assert_eq!(rig.producer.statistics().quarantined, 2);
    assert_eq!(rig.producer.capacity(), 6);
}
