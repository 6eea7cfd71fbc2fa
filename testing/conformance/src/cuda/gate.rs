//! A gate in a stream: it waits for a number in mapped host memory, which the test writes. The stand-in and a real driver
//! have the same.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{
    self, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CUdeviceptr, CUresult, CUstream,
};
use transload::device::cuda::CudaDevice;

use crate::device::Hold;

/// Does something while the device's context is current.
///
/// # Panics
///
/// If it cannot be made current.
pub fn entered<T>(device: &CudaDevice, what: impl FnOnce() -> T) -> T {
    // SAFETY: the context is there.
    check(unsafe { sys::cuCtxPushCurrent_v2(device.context()) });
    let result = what();
    let mut popped = ptr::null_mut();
    // SAFETY: the place of a context.
    check(unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) });
    result
}

fn check(result: CUresult) {
    assert_eq!(result, CUresult::CUDA_SUCCESS);
}

/// A stream that belongs to a test. A clone is another handle on the same, which is destroyed with the last one.
#[derive(Clone, Debug)]
pub struct OwnStream(Arc<Owned>);

#[derive(Debug)]
struct Owned {
    device: CudaDevice,
    raw: CUstream,
}

// SAFETY: streams may be used and destroyed on any thread.
unsafe impl Send for Owned {}
// SAFETY: as above.
unsafe impl Sync for Owned {}

impl OwnStream {
    /// A stream that does not wait for the default one.
    pub fn new(device: &CudaDevice) -> Self {
        let mut raw = ptr::null_mut();
        entered(device, || {
            // SAFETY: the place of a stream.
            check(unsafe { sys::cuStreamCreate(&raw mut raw, 1) });
        });
        Self(Arc::new(Owned { device: device.clone(), raw }))
    }

    /// The stream.
    pub fn raw(&self) -> CUstream {
        self.0.raw
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        entered(&self.device, || {
            // SAFETY: created by `new`, destroyed once. A device that was lost does not say so here.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        });
    }
}

/// A gate that holds what is put into a stream behind it.
#[derive(Debug)]
pub struct ValueGate {
    device: CudaDevice,
    stream: OwnStream,
    word: *mut u32,
    mapped: CUdeviceptr,
    /// The number that the last gate in the stream waits for.
    closed: u32,
}

// SAFETY: the memory is the gate's own, and may be reached from any thread.
unsafe impl Send for ValueGate {}

impl ValueGate {
    /// An open gate in a stream of the device.
    pub fn new(device: &CudaDevice, stream: &OwnStream) -> Self {
        let (mut word, mut mapped) = (ptr::null_mut::<c_void>(), 0);
        entered(device, || {
            let flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
            // SAFETY: the place of an address.
            check(unsafe { sys::cuMemHostAlloc(&raw mut word, 4096, flags) });
            // SAFETY: as above; the memory was allocated to be mapped.
            check(unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut mapped, word, 0) });
        });
        let gate =
            Self { device: device.clone(), stream: stream.clone(), word: word.cast(), mapped, closed: 0 };
        gate.set(0);
        gate
    }

    /// The stream that it is in.
    pub fn stream(&self) -> *mut c_void {
        self.stream.raw().cast()
    }

    fn set(&self, number: u32) {
        // SAFETY: the gate's own memory; who waits for the number reads whole words.
        unsafe { self.word.write_volatile(number) };
    }
}

impl Hold for ValueGate {
    fn close(&mut self) {
        const AT_LEAST: u32 = 0;
        self.open();
        self.closed += 1;
        entered(&self.device, || {
            // SAFETY: stream and memory are there.
            check(unsafe {
                sys::cuStreamWaitValue32_v2(self.stream.raw(), self.mapped, self.closed, AT_LEAST)
            });
        });
    }

    fn open(&mut self) {
        self.set(self.closed);
    }
}

impl Drop for ValueGate {
    /// The memory stays: the stream may still look at it.
    fn drop(&mut self) {
        self.open();
    }
}
