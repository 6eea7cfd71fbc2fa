//! Whether native handles of the user's fit.

use std::ptr;

use cudarc::driver::sys::{
    CUcontext, CUdeviceptr, CUmemorytype, CUpointer_attribute as Attribute, CUstream, CUstreamCaptureStatus,
};

use super::context::{Context, Current};
use crate::device::DeviceError;

/// A stream is suitable if it is of the device's context, and does what it is given.
pub(super) fn stream(cuda: &Current<'_>, context: &Context, stream: CUstream) -> Result<(), DeviceError> {
    let refuse = |reason: String| Err(DeviceError::Unsuitable { handle: "stream", reason });
    let mut of: CUcontext = ptr::null_mut();
    // SAFETY: the place of a context; the stream is there, by the caller's contract, or a name of a default stream.
    if let Err(failure) = unsafe { cuda.stream_context(stream, &raw mut of) } {
        return refuse(failure.to_string());
    }
    if of != context.raw() {
        return refuse("it is of another context than the device".to_owned());
    }
    let mut status = 0;
    // SAFETY: the place of a status; the stream is there.
    match unsafe { cuda.stream_is_capturing(stream, &raw mut status) } {
        Err(failure) => refuse(failure.to_string()),
        Ok(()) if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE as u32 => {
            refuse("it is being captured into a graph: end the capture first".to_owned())
        }
        Ok(()) => Ok(()),
    }
}

/// Memory is suitable if it is the device's, large enough, and begins where kernels may expect a queue to begin.
pub(super) fn memory(
    cuda: &Current<'_>,
    context: &Context,
    pointer: CUdeviceptr,
    needed: usize,
) -> Result<(), DeviceError> {
    const MULTIPLE: u64 = 256;
    let refuse = |reason: String| Err(DeviceError::Unsuitable { handle: "device memory", reason });
    let ask = |value: *mut std::ffi::c_void, attribute| {
        // SAFETY: the caller gives the place of what the attribute is; the address is looked up, not read.
        unsafe { cuda.pointer_attribute(value, attribute, pointer) }
    };
    let (mut kind, mut of, mut start, mut len_bytes) = (0_u32, ptr::null_mut(), 0_u64, 0_usize);
    let (kind_place, of_place): (*mut u32, *mut CUcontext) = (&raw mut kind, &raw mut of);
    let told = ask(kind_place.cast(), Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
        .and_then(|()| ask(of_place.cast(), Attribute::CU_POINTER_ATTRIBUTE_CONTEXT))
        .and_then(|()| ask((&raw mut start).cast(), Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR))
        .and_then(|()| ask((&raw mut len_bytes).cast(), Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE));
    if let Err(failure) = told {
        return refuse(failure.to_string());
    }
    if kind != CUmemorytype::CU_MEMORYTYPE_DEVICE as u32 {
        return refuse("it is no memory of a device".to_owned());
    }
    if of != context.raw() {
        return refuse("it is of another context than the device".to_owned());
    }
    let available = (start + len_bytes as u64).saturating_sub(pointer);
    if available < needed as u64 {
        return refuse(format!("it has {available} bytes, and the stream is to have {needed}"));
    }
    if !pointer.is_multiple_of(MULTIPLE) {
        return refuse(format!("it does not begin at a multiple of {MULTIPLE}"));
    }
    Ok(())
}
