//! Whether native handles of the user's fit.

use opencl3::command_queue::{
    CL_QUEUE_CONTEXT, CL_QUEUE_DEVICE, CL_QUEUE_ON_DEVICE, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE,
    CL_QUEUE_PROPERTIES, get_command_queue_info,
};
use opencl3::memory::{
    CL_MEM_CONTEXT, CL_MEM_FLAGS, CL_MEM_HOST_NO_ACCESS, CL_MEM_HOST_READ_ONLY, CL_MEM_HOST_WRITE_ONLY,
    CL_MEM_OBJECT_BUFFER, CL_MEM_SIZE, CL_MEM_TYPE, get_mem_object_info,
};
use opencl3::types::cl_ulong;

use super::codes;
use super::device::Shared;
use super::handle::{Buffer, Handle, Queue};
use crate::device::DeviceError;

/// A queue is suitable if it runs the device's commands in order.
pub(super) fn queue(queue: &Handle<Queue>, device: &Shared) -> Result<(), DeviceError> {
    let ask = |what| {
        get_command_queue_info(queue.raw(), what).map_err(|code| codes::failed("clGetCommandQueueInfo", code))
    };
    let refuse =
        |reason: &str| Err(DeviceError::Unsuitable { handle: "command queue", reason: reason.to_owned() });
    if isize::from(ask(CL_QUEUE_CONTEXT)?) != device.context().raw().addr().cast_signed() {
        return refuse("it is of another context than the device");
    }
    if isize::from(ask(CL_QUEUE_DEVICE)?) != device.device().0.addr().cast_signed() {
        return refuse("it is of another device");
    }
    let properties = cl_ulong::from(ask(CL_QUEUE_PROPERTIES)?);
    if properties & CL_QUEUE_ON_DEVICE as cl_ulong != 0 {
        return refuse("it takes commands from the device, and not from the host");
    }
    if properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE as cl_ulong != 0 {
        return refuse(
            "it runs commands out of order: make it without CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE",
        );
    }
    Ok(())
}

/// A buffer is suitable if it is large enough, and open to the host both ways.
pub(super) fn buffer(buffer: &Handle<Buffer>, device: &Shared, needed: usize) -> Result<(), DeviceError> {
    let ask = |what| {
        get_mem_object_info(buffer.raw(), what).map_err(|code| codes::failed("clGetMemObjectInfo", code))
    };
    let refuse = |reason: String| Err(DeviceError::Unsuitable { handle: "buffer", reason });
    if isize::from(ask(CL_MEM_CONTEXT)?) != device.context().raw().addr().cast_signed() {
        return refuse("it is of another context than the device".to_owned());
    }
    if u32::from(ask(CL_MEM_TYPE)?) != CL_MEM_OBJECT_BUFFER {
        return refuse("it is an image or a pipe".to_owned());
    }
    let available = usize::from(ask(CL_MEM_SIZE)?);
    if available < needed {
        return refuse(format!("it has {available} bytes, and the stream is to have {needed}"));
    }
    let closed = CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY;
    if cl_ulong::from(ask(CL_MEM_FLAGS)?) & closed != 0 {
        return refuse(
            "it is closed to reads or writes of the host: make it without CL_MEM_HOST_*".to_owned(),
        );
    }
    Ok(())
}
