//! Memory of any address and length is registered, or refused in words.

use std::ptr::NonNull;

use transload::device::{DeviceError, StreamOptions};
use transload::memory::Slab;
use transload::region::{Access, RegisterError, Registration};

use super::rig::{Rig, bring, finish};
use super::subject::Run;

const OPTIONS: StreamOptions = StreamOptions { queue_bytes: 1 << 20, in_flight: 4 };

/// Memory of the test's own, leaked: a device that is never done may keep it.
fn memory(len_bytes: usize) -> NonNull<u8> {
    NonNull::from(vec![0_u8; len_bytes].leak()).cast()
}

/// A place in it.
fn at(base: NonNull<u8>, offset: usize) -> NonNull<u8> {
    NonNull::new(base.as_ptr().wrapping_add(offset)).unwrap()
}

/// Slabs that begin and end anywhere: whatever the device says of them, their bytes arrive.
pub fn any_address_and_length_will_do(run: &Run) {
    let device = run.device();
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    for offset in [0, 1, 8, 64, 4095, 4096] {
        for (capacity, size) in [(2, 1), (4, 3), (8, 1000), (16, 4096), (4, 4097)] {
            let base = memory(offset + capacity * size);
            // SAFETY: the memory is initialised, as long as that, there for ever and nobody else's.
            let slab = unsafe { Slab::wrap(at(base, offset), capacity, size) }.unwrap();
            let direct = device.register_pinned(&slab, Access::READ);
            let region = device.register(&slab, Access::READ).unwrap();
            match (region.registration(), direct) {
                (Registration::Pinned | Registration::Mapped, direct) => drop(direct.unwrap()),
                (slower, direct) => {
                    let error =
                        RegisterError::NotDirect { len_bytes: capacity * size, registration: slower.clone() };
                    assert_eq!(direct.unwrap_err(), error);
                }
            }
            drop(region);
            let mut rig = Rig::over(&*device, slab, capacity, size);
            rig.advance(1);
            let (upload, bytes) = rig.upload(capacity, 7);
            stream.submit(upload).unwrap();
            finish(&mut *stream);
            assert!(bring(&*device, &mut *stream, 7..7 + bytes.len()) == bytes, "{size} bytes at {offset}");
        }
    }
}

/// Two slabs that overlap: the second is registered, or refused with both ranges in the words; and nothing of that is
/// left when the first has gone.
pub fn slabs_that_overlap(run: &Run) {
    const SIZE: usize = 4096;
    let device = run.device();
    let base = memory(13 * SIZE);
    let base = at(base, base.align_offset(SIZE));
    for (first, second) in [(0..8, 4..12), (4..12, 0..8), (0..8, 2..4), (2..4, 0..8), (0..8, 0..4)] {
        let slab = |range: &std::ops::Range<usize>| {
            // SAFETY: within the memory, which is initialised, there for ever and the test's. No slab here hands its bytes
            // out while another does.
            unsafe { Slab::wrap(at(base, range.start * SIZE), range.len(), SIZE) }.unwrap()
        };
        let (one, other) = (slab(&first), slab(&second));
        let region = device.register(&one, Access::READ).unwrap();
        if let Err(refused) = device.register_pinned(&other, Access::READ) {
            let words = refused.to_string();
            for pointer in [one.as_ptr(), other.as_ptr()] {
                assert!(words.contains(&format!("{pointer:p}")), "{words}");
            }
        }
        drop((region, one));
        let mut stream = device.open_stream(&OPTIONS).unwrap();
        let mut rig = Rig::over(&*device, other, second.len(), SIZE);
        let (upload, bytes) = rig.upload(second.len(), 0);
        stream.submit(upload).unwrap();
        finish(&mut *stream);
        assert!(bring(&*device, &mut *stream, 0..bytes.len()) == bytes, "{second:?} behind {first:?}");
    }
}

/// A region of one device is none of another's.
pub fn a_region_of_another_device_is_refused(run: &Run) {
    let (device, other) = (run.device(), run.device());
    let mut rig = Rig::new(&*other, 8, 64);
    let mut stream = device.open_stream(&OPTIONS).unwrap();
    let refused = stream.submit(rig.upload(8, 0).0).unwrap_err();
    assert!(matches!(refused.error, DeviceError::NotRegistered { .. }), "{}", refused.error);
}
