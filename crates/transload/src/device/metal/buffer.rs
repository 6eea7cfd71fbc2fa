//! Buffers: memory of the device, and host memory that it reaches.

use std::ptr::NonNull;

use objc2::rc::Retained;
use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLBuffer, MTLDevice, MTLResourceOptions};

use super::codes;
use crate::device::DeviceError;

/// A reference to a buffer. A clone is another one on the same; Metal ends the buffer with the last, and command buffers
/// hold references of their own until they have ended (I2).
#[derive(Clone, Debug)]
pub(super) struct Buffer(Retained<ProtocolObject<dyn MTLBuffer>>);

// SAFETY: Apple documents that buffers may be used from any thread; references to them are counted atomically. What is in
// one is reached by raw pointers and by commands only, under rules of their own (I1).
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Memory that only the device reaches.
    pub(super) fn private(
        device: &ProtocolObject<dyn MTLDevice>,
        len_bytes: usize,
    ) -> Result<Self, DeviceError> {
        Self::new(device, len_bytes, MTLResourceOptions::StorageModePrivate)
    }

    /// Memory that host and device reach.
    pub(super) fn shared(
        device: &ProtocolObject<dyn MTLDevice>,
        len_bytes: usize,
    ) -> Result<Self, DeviceError> {
        Self::new(device, len_bytes, MTLResourceOptions::StorageModeShared)
    }

    fn new(
        device: &ProtocolObject<dyn MTLDevice>,
        len_bytes: usize,
        options: MTLResourceOptions,
    ) -> Result<Self, DeviceError> {
        let buffer = device.newBufferWithLength_options(len_bytes, options);
        buffer.map(Self).ok_or_else(|| codes::nil("newBufferWithLength:options:"))
    }

    /// Makes host memory a buffer as it is. `None` if Metal refuses.
    ///
    /// # Safety
    ///
    /// `base` is the beginning of a page, `len_bytes` of whole pages; they are mapped readable and writable until the
    /// buffer and all commands that name it have ended.
    pub(super) unsafe fn over(
        device: &ProtocolObject<dyn MTLDevice>,
        base: NonNull<u8>,
        len_bytes: usize,
    ) -> Option<Self> {
        let options = MTLResourceOptions::StorageModeShared;
        // SAFETY: by this function's contract. Without a deallocator Metal leaves the memory alone when the buffer ends.
        let buffer = unsafe {
            device.newBufferWithBytesNoCopy_length_options_deallocator(base.cast(), len_bytes, options, None)
        };
        buffer.map(Self)
    }

    /// Where the host finds the memory of a shared buffer: valid while a reference to it exists.
    pub(super) fn contents(&self) -> NonNull<u8> {
        self.0.contents().cast()
    }

    pub(super) fn native(&self) -> &ProtocolObject<dyn MTLBuffer> {
        &self.0
    }
}
