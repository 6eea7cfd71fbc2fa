//! The device: a context, and what is registered with it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use opencl3::command_queue::create_command_queue;
use opencl3::context::context::{CL_CONTEXT_DEVICES, create_context, get_context_info};
use opencl3::error_codes::{CL_INVALID_COMMAND_QUEUE, CL_INVALID_CONTEXT, CL_INVALID_MEM_OBJECT};
use opencl3::memory::{CL_MEM_READ_WRITE, create_buffer};
use opencl3::types::{cl_command_queue, cl_context, cl_device_id, cl_mem, cl_mem_flags};

use super::codes;
use super::driver;
use super::handle::{Buffer, Context, Handle, Queue};
use super::info::DeviceId;
use super::kernel;
use super::pinned::Allocation;
use super::stream::OpenClStream;
use super::suitable;
use crate::device::{Device, DeviceError, DeviceInfo, Kernel, KernelSource, Stream, StreamOptions};
use crate::memory::{Slab, Source, checked_len};
use crate::region::{Access, Region, RegisterError, Registrar, Registration};

/// An OpenCL device with a context. A clone is another handle on the same.
///
/// Streams, regions and slabs that come from it keep alive what they need of it: it may be dropped before them.
#[derive(Clone, Debug)]
pub struct OpenClDevice {
    shared: Arc<Shared>,
}

/// What streams and regions keep of the device.
#[derive(Debug)]
pub(super) struct Shared {
    info: DeviceInfo,
    device: DeviceId,
    context: Handle<Context>,
    /// Driver memory that became slabs, to be recognised when those are registered.
    allocations: Mutex<Vec<Weak<Allocation>>>,
}

/// With which device a region is registered.
#[derive(Debug)]
struct Registered(Arc<Shared>);

impl Shared {
    pub(super) fn context(&self) -> &Handle<Context> {
        &self.context
    }

    pub(super) fn device(&self) -> DeviceId {
        self.device
    }

    /// An in-order queue.
    pub(super) fn create_queue(&self) -> Result<Handle<Queue>, DeviceError> {
        // The call of OpenCL 1.0, which every later version still has. Its successor is missing in drivers of 1.2, and
        // some loaders then call a null pointer.
        // SAFETY: context and device are there, and belong together.
        let queue = unsafe { create_command_queue(self.context.raw(), self.device.0, 0) };
        let queue = queue.map_err(|code| codes::failed("clCreateCommandQueue", code))?;
        // SAFETY: the call gave us a reference to it.
        unsafe { Handle::own(queue) }
            .ok_or_else(|| codes::failed("clCreateCommandQueue", CL_INVALID_COMMAND_QUEUE))
    }

    /// A buffer without memory of the caller's.
    pub(super) fn create_buffer(
        &self,
        flags: cl_mem_flags,
        len_bytes: usize,
    ) -> Result<Handle<Buffer>, DeviceError> {
        // SAFETY: the context is there, and no host pointer is given.
        let buffer = unsafe { create_buffer(self.context.raw(), flags, len_bytes, std::ptr::null_mut()) };
        let buffer = buffer.map_err(|code| codes::failed("clCreateBuffer", code))?;
        // SAFETY: the call gave us a reference to it.
        unsafe { Handle::own(buffer) }.ok_or_else(|| codes::failed("clCreateBuffer", CL_INVALID_MEM_OBJECT))
    }

    /// Whether `region` was registered with this device.
    pub(super) fn holds(&self, region: &Region) -> bool {
        region
            .guard()
            .downcast_ref()
            .is_some_and(|other: &Registered| std::ptr::eq(&raw const *other.0, self))
    }

    /// Whether the slab is driver memory of this device.
    fn allocated(&self, slab: &Slab) -> bool {
        let allocations = self.allocations.lock().unwrap_or_else(PoisonError::into_inner);
        // The address says enough while the allocation is there, and the slab keeps it there.
        slab.placement().source == Source::Owned
            && allocations.iter().filter_map(Weak::upgrade).any(|allocation| {
                allocation.base().as_ptr() == slab.as_ptr() && allocation.len_bytes() == slab.len_bytes()
            })
    }
}

impl OpenClDevice {
    /// Opens a device by its number, with a context of its own. As [`Driver::open`](crate::device::Driver::open), with
    /// the type kept.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unavailable`], [`DeviceError::NoSuchDevice`], or what the driver says.
    pub fn open(index: usize) -> Result<Self, DeviceError> {
        let device = driver::device(index)?;
        let context = create_context(&[device.0], std::ptr::null(), None, std::ptr::null_mut());
        let context = context.map_err(|code| codes::failed("clCreateContext", code))?;
        // SAFETY: the call gave us a reference to it.
        let context = unsafe { Handle::own(context) };
        let context = context.ok_or_else(|| codes::failed("clCreateContext", CL_INVALID_CONTEXT))?;
        Ok(Self::new(device, context, index))
    }

    fn new(device: DeviceId, context: Handle<Context>, index: usize) -> Self {
        let info = device.describe(index);
        Self { shared: Arc::new(Shared { info, device, context, allocations: Mutex::default() }) }
    }

    /// Uses a context that is there already, and one of its devices. Takes a reference to the context, which is
    /// released when the last of device, streams, regions and slabs ends; yours stays yours.
    ///
    /// A part of a device (a sub-device) has no number of its own: its index is the number of devices.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsuitable`] if the context does not have the device, or what the driver says.
    ///
    /// # Safety
    ///
    /// `context` is an OpenCL context and stays there during the call; `device` is an OpenCL device. Both are of the
    /// loader that this crate uses (`libOpenCL.so.1`, or what `OPENCL_DYLIB_PATH` names).
    pub unsafe fn from_raw(context: cl_context, device: cl_device_id) -> Result<Self, DeviceError> {
        // SAFETY: by this function's contract.
        let context = unsafe { Handle::<Context>::retained(context) }?;
        let devices = get_context_info(context.raw(), CL_CONTEXT_DEVICES)
            .map_err(|code| codes::failed("clGetContextInfo", code))?;
        if !Vec::<isize>::from(devices).contains(&device.addr().cast_signed()) {
            return Err(DeviceError::Unsuitable {
                handle: "device",
                reason: "the context was made without it".to_owned(),
            });
        }
        let device = DeviceId(device);
        Ok(Self::new(device, context, driver::index_of(device)))
    }

    /// Opens a stream over a command queue that is there already and, if `buffer` is given, over a buffer that is
    /// there already: the device queue is its first `queue_bytes` bytes. Takes a reference to each, which is released
    /// when the stream ends; yours stay yours.
    ///
    /// Commands of yours may be in the queue beside the stream's: they take effect in the order in which they were
    /// enqueued, and what fails among them may make transfers behind it fail.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsuitable`] if the queue is an out-of-order queue, or of another context or device, or if the
    /// buffer is too small or cannot be written and read by the host; else as
    /// [`open_stream`](Device::open_stream).
    ///
    /// # Safety
    ///
    /// `queue` is an OpenCL command queue, `buffer` an OpenCL memory object, and both stay there during the call. While
    /// the stream exists, the buffer is not mapped, and it does not lie over host memory that a slab uses.
    pub unsafe fn open_stream_on(
        &self,
        queue: cl_command_queue,
        buffer: Option<cl_mem>,
        options: &StreamOptions,
    ) -> Result<OpenClStream, DeviceError> {
        options.check(self.shared.info.max_allocation_bytes)?;
        // SAFETY: by this function's contract.
        let queue = unsafe { Handle::<Queue>::retained(queue) }?;
        suitable::queue(&queue, &self.shared)?;
        let buffer = match buffer {
            None => self.shared.create_buffer(CL_MEM_READ_WRITE, options.queue_bytes)?,
            Some(buffer) => {
                // SAFETY: by this function's contract.
                let buffer = unsafe { Handle::<Buffer>::retained(buffer) }?;
                suitable::buffer(&buffer, &self.shared, options.queue_bytes)?;
                buffer
            }
        };
        Ok(OpenClStream::new(self.shared.clone(), queue, buffer, options))
    }

    /// The context. It stays there while the device does; call `clRetainContext` to keep it longer.
    pub fn context(&self) -> cl_context {
        self.shared.context.raw()
    }

    /// The device.
    pub fn device_id(&self) -> cl_device_id {
        self.shared.device.0
    }

    /// What can be said of transfers from a slab.
    fn registration(&self, slab: &Slab) -> Registration {
        let device = self.shared.device;
        if self.shared.allocated(slab) {
            Registration::Pinned
        } else if device.is_this_processor() {
            // It works in this process, on this memory: a copy reads the pages themselves.
            Registration::Mapped
        } else if device.shares_host_memory() {
            let reason = "the device shares the machine's memory, but OpenCL does not promise that the driver copies \
                          from the slab itself; a slab that the device allocates is pinned";
            Registration::Staged { reason: reason.to_owned() }
        } else {
            let reason = "OpenCL cannot pin memory that is there already, and the driver may copy it through memory of \
                          its own; a slab that the device allocates is pinned";
            Registration::Staged { reason: reason.to_owned() }
        }
    }
}

impl Registrar for OpenClDevice {
    /// Makes nothing known to the driver, since OpenCL has no way to: the driver is given the address with each
    /// transfer. Any address and length will do, and a slab may be registered any number of times.
    fn register(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        let access = access.local_only("OpenCL")?;
        let guard = Registered(self.shared.clone());
        Ok(Region::new(slab.clone(), access, self.registration(slab), Box::new(guard)))
    }
}

impl Device for OpenClDevice {
    fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    /// A slab in a buffer made with `CL_MEM_ALLOC_HOST_PTR`, which stays mapped until the last handle on the slab ends.
    /// Registered with this device it is `Pinned`. Its address need not be a page's: PoCL aligns it to 128 bytes.
    fn allocate_slab(&self, buffer_count: usize, buffer_size: usize) -> Result<Slab, DeviceError> {
        let len_bytes = checked_len(buffer_count, buffer_size, 1)?;
        let allocation = Arc::new(Allocation::new(&self.shared, len_bytes)?);
        let (base, owner) = (allocation.base(), Arc::downgrade(&allocation));
        // SAFETY: the memory is mapped for reading and writing, zeroed, and nobody else's; the owner keeps it there.
        let slab = unsafe { Slab::from_owner(base, buffer_count, buffer_size, Box::new(allocation)) }?;
        let mut allocations = self.shared.allocations.lock().unwrap_or_else(PoisonError::into_inner);
        allocations.retain(|allocation| allocation.strong_count() > 0);
        allocations.push(owner);
        Ok(slab)
    }

    fn open_stream(&self, options: &StreamOptions) -> Result<Box<dyn Stream>, DeviceError> {
        options.check(self.shared.info.max_allocation_bytes)?;
        let queue = self.shared.create_queue()?;
        let buffer = self.shared.create_buffer(CL_MEM_READ_WRITE, options.queue_bytes)?;
        Ok(Box::new(OpenClStream::new(self.shared.clone(), queue, buffer, options)))
    }

    /// Builds OpenCL C. It may include `transload_device.h`.
    fn build(&self, source: &KernelSource) -> Result<Kernel, DeviceError> {
        kernel::build(&self.shared, source)
    }
}
