//! The device: what streams and regions keep of it.

use std::sync::Arc;

use objc2::runtime::ProtocolObject;
use objc2_metal::{MTLCommandQueue, MTLDevice};

use super::buffer::Buffer;
use super::codes;
use super::commands::{Queue, SharedEvent};
use super::driver;
use super::imported::Imported;
use super::info::{NativeDevice, describe};
use super::rules;
use super::stream::MetalStream;
use crate::device::{Device, DeviceError, DeviceInfo, Stream, StreamOptions};
use crate::memory::Slab;
use crate::region::{Access, Region, RegisterError, Registrar};

/// How many command buffers a queue has that was made without a number. With more than it has, making one would wait.
const USUAL_COMMAND_BUFFERS: usize = 64;

/// A device of Metal. A clone is another handle on the same.
///
/// Streams, regions and slabs that come from it keep alive what they need of it: it may be dropped before them.
#[derive(Clone, Debug)]
pub struct MetalDevice {
    shared: Arc<Shared>,
}

/// What streams and regions keep of the device.
#[derive(Debug)]
pub(super) struct Shared {
    info: DeviceInfo,
    native: NativeDevice,
}

impl Shared {
    pub(super) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    pub(super) fn native(&self) -> &ProtocolObject<dyn MTLDevice> {
        &self.native
    }

    /// Whether device and host have the same memory.
    pub(super) fn is_unified(&self) -> bool {
        self.native.hasUnifiedMemory()
    }

    fn create_queue(&self, in_flight: usize) -> Result<Queue, DeviceError> {
        let most = in_flight.max(USUAL_COMMAND_BUFFERS);
        let queue = self.native.newCommandQueueWithMaxCommandBufferCount(most);
        queue.ok_or_else(|| codes::nil("newCommandQueueWithMaxCommandBufferCount:"))
    }

    pub(super) fn create_event(&self) -> Result<SharedEvent, DeviceError> {
        self.native.newSharedEvent().ok_or_else(|| codes::nil("newSharedEvent"))
    }

    /// The memory of a device queue, with room for the last word, which downloads read whole.
    pub(super) fn create_device_queue(&self, queue_bytes: usize) -> Result<Buffer, DeviceError> {
        Buffer::private(&self.native, rules::words_around(&(0..queue_bytes)).end)
    }
}

impl MetalDevice {
    /// Opens a device by its number. As [`Driver::open`](crate::device::Driver::open), with the type kept.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unavailable`], [`DeviceError::NoSuchDevice`].
    pub fn open(index: usize) -> Result<Self, DeviceError> {
        Ok(Self::new(driver::device(index)?, index))
    }

    /// Uses a device of Metal that is there already: it keeps the reference that it is given. One that Metal does not list
    /// has no number of its own: its index is the number of devices.
    pub fn from_native(device: NativeDevice) -> Self {
        let index = driver::index_of(&device);
        Self::new(device, index)
    }

    fn new(native: NativeDevice, index: usize) -> Self {
        let info = describe(&native, index);
        Self { shared: Arc::new(Shared { info, native }) }
    }

    /// Opens a stream over a command queue that is there already: it keeps the reference that it is given.
    ///
    /// Command buffers of yours may be in the queue beside the stream's: they take effect in the order in which they were
    /// enqueued. While the queue has as many in flight as it was made for (64 unless it was told otherwise), starting a
    /// transfer waits; make it for as many as you use and [`in_flight`](StreamOptions::in_flight) together.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsuitable`] if the queue is of another device; else as [`open_stream`](Device::open_stream).
    pub fn open_stream_on(&self, queue: Queue, options: &StreamOptions) -> Result<MetalStream, DeviceError> {
        options.check(self.shared.info.max_allocation_bytes)?;
        if queue.device().registryID() != self.shared.native.registryID() {
            let reason = "it is of another device".to_owned();
            return Err(DeviceError::Unsuitable { handle: "command queue", reason });
        }
        MetalStream::open(self.shared.clone(), queue, options)
    }

    /// The device. Retain it to keep it longer than this.
    pub fn native(&self) -> &ProtocolObject<dyn MTLDevice> {
        &self.shared.native
    }
}

impl Registrar for MetalDevice {
    /// Makes the pages of the slab a buffer, where they are whole pages of the system: then the region is `Mapped`, or
    /// `Pinned` where the device has memory of its own. Other memory is `Staged`, with the reason. A slab may be registered
    /// any number of times.
    fn register(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        let access = access.local_only("Metal")?;
        let (guard, registration) = Imported::new(self.shared.clone(), slab);
        Ok(Region::new(slab.clone(), access, registration, Box::new(guard)))
    }
}

impl Device for MetalDevice {
    fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    /// An ordinary slab: its pages are whole, and Metal takes them as they are.
    fn allocate_slab(&self, buffer_count: usize, buffer_size: usize) -> Result<Slab, DeviceError> {
        Ok(Slab::new(buffer_count, buffer_size)?)
    }

    fn open_stream(&self, options: &StreamOptions) -> Result<Box<dyn Stream>, DeviceError> {
        options.check(self.shared.info.max_allocation_bytes)?;
        let queue = self.shared.create_queue(options.in_flight)?;
        Ok(Box::new(MetalStream::open(self.shared.clone(), queue, options)?))
    }
}
