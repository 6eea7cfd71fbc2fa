//! The device: a context, and what is registered with it.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute as Attribute, CUdeviceptr, CUstream};

use super::codes::Failure;
use super::context::{Context, Current};
use super::driver;
use super::info;
use super::kernel;
use super::measure::{self, Bench};
use super::memory::{Handle, Memory, Queue};
use super::pinned::Allocation;
use super::ranges::{self, Hold, Outcome, Request};
use super::stream::CudaStream;
use super::suitable;
use crate::device::{Backend, Device, DeviceError, DeviceInfo, Kernel, KernelSource, Stream, StreamOptions};
use crate::memory::{Slab, checked_len};
use crate::region::{Access, Region, RegisterError, Registrar, Registration};

/// Settings of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CudaOptions {
    /// The most bytes that are registered by one call, in whole pages; larger slabs are registered in pieces. 1 GiB, unless
    /// it is set: some systems refuse more at once (in containers, and under WSL).
    pub piece_bytes: usize,
}

impl Default for CudaOptions {
    fn default() -> Self {
        Self { piece_bytes: 1 << 30 }
    }
}

/// A CUDA device with a context. A clone is another handle on the same.
///
/// Streams, regions, slabs and kernels that come from it keep alive what they need of it: it may be dropped before them.
#[derive(Clone, Debug)]
pub struct CudaDevice {
    shared: Arc<Shared>,
}

/// What streams and regions keep of the device.
#[derive(Debug)]
pub(super) struct Shared {
    info: DeviceInfo,
    context: Arc<Context>,
    options: CudaOptions,
    /// Up to how many bytes kernels read a batch where it is, and what that was measured with.
    mapped_up_to_bytes: OnceLock<(usize, Mutex<Option<Bench>>)>,
}

/// How a region's memory can be reached.
#[derive(Debug)]
pub(super) struct Registered {
    device: Arc<Shared>,
    /// Nothing if the memory is not pinned.
    hold: Option<Hold>,
    /// Where the device finds each piece, if it can reach them.
    mapped: Vec<CUdeviceptr>,
}

impl Registered {
    /// What was made of a region, if it was made by this back end.
    pub(super) fn of(region: &Region) -> Option<&Self> {
        region.guard().downcast_ref()
    }

    /// The pinned memory.
    pub(super) fn hold(&self) -> Option<&Hold> {
        self.hold.as_ref()
    }

    /// Where the device finds these bytes, if it can reach them and they lie in one piece: the address of the piece, and
    /// the offset in it.
    pub(super) fn mapped(&self, bytes: &Range<usize>) -> Option<(CUdeviceptr, usize)> {
        let pieces = self.hold.as_ref()?.pieces();
        let nth = pieces.iter().position(|piece| piece.start <= bytes.start && bytes.end <= piece.end)?;
        Some((*self.mapped.get(nth)?, bytes.start - pieces[nth].start))
    }
}

impl Shared {
    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Whether `region` was registered with this device.
    pub(super) fn holds(&self, region: &Region) -> bool {
        Registered::of(region).is_some_and(|other| std::ptr::eq(&raw const *other.device, self))
    }

    /// What registered memory is to the device. One that uses the host's page tables pins nothing: the driver then only
    /// brings the pages in, and the device reaches whatever the process does.
    fn registration(&self) -> Registration {
        let attribute = Attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
        if self.context.attribute(attribute) == 0 { Registration::Pinned } else { Registration::Mapped }
    }

    /// Up to how many bytes kernels read a batch where it is. Measured at the first question.
    pub(super) fn mapped_up_to_bytes(&self) -> usize {
        let (most, _) = self.mapped_up_to_bytes.get_or_init(|| {
            let can_map = self.context.attribute(Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY) != 0;
            let (most, bench) = if can_map { measure::mapped_up_to_bytes(&self.context) } else { (0, None) };
            (most, Mutex::new(bench))
        });
        *most
    }
}

impl CudaDevice {
    /// Opens a device by its number, with its primary context: the one that the runtime API of CUDA, and what is built on
    /// it, uses in this process. As [`Driver::open`](crate::device::Driver::open), with the type kept.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unavailable`], [`DeviceError::NoSuchDevice`], or what the driver says.
    pub fn open(index: usize) -> Result<Self, DeviceError> {
        Self::open_with(index, CudaOptions::default())
    }

    /// As [`open`](CudaDevice::open), with settings.
    ///
    /// # Errors
    ///
    /// As [`open`](CudaDevice::open).
    pub fn open_with(index: usize, options: CudaOptions) -> Result<Self, DeviceError> {
        let (api, process, count) = driver::start()?;
        if index >= count {
            return Err(DeviceError::NoSuchDevice { backend: Backend::Cuda, index, count });
        }
        let device = info::device(api, index)?;
        let context = Context::primary(api, process, device)?;
        Ok(Self::new(info::describe(api, device, index), context, options))
    }

    fn new(info: DeviceInfo, context: Arc<Context>, options: CudaOptions) -> Self {
        Self { shared: Arc::new(Shared { info, context, options, mapped_up_to_bytes: OnceLock::new() }) }
    }

    /// Uses a context that is there already. It stays yours: nothing here ends it.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unavailable`], [`DeviceError::Unsuitable`] if it is null or the driver does not know it.
    ///
    /// # Safety
    ///
    /// `context` is a context of the driver that this crate uses, or null. It stays there until the last of device, streams,
    /// regions, slabs and kernels has ended.
    pub unsafe fn from_raw(context: CUcontext, options: CudaOptions) -> Result<Self, DeviceError> {
        let unsuitable = |reason: String| DeviceError::Unsuitable { handle: "context", reason };
        if context.is_null() {
            return Err(unsuitable("it is a null pointer".to_owned()));
        }
        let (api, process, count) = driver::start()?;
        // SAFETY: by this function's contract.
        let context = unsafe { Context::adopted(api, process, context) };
        let context = context.map_err(|failure| unsuitable(failure.to_string()))?;
        let numbers = (0..count).position(|index| info::device(api, index) == Ok(context.device()));
        let info = info::describe(api, context.device(), numbers.unwrap_or(count));
        Ok(Self::new(info, context, options))
    }

    /// Opens a stream over a stream of CUDA that is there already and, if `memory` is given, over device memory that is there
    /// already: the device queue is its first `queue_bytes` bytes. Both stay yours.
    ///
    /// Work of yours may be in the stream beside this one's: it takes effect in the order in which it was submitted, and a
    /// fault in it loses the context, and so the device. While transfers are in flight, the stream is not to be captured into
    /// a graph: the driver then does not say how they end, and the device counts as lost.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsuitable`] if the stream is of another context or being captured, or if the memory is no device
    /// memory, too small, or does not begin at a multiple of 256; else as [`open_stream`](Device::open_stream).
    ///
    /// # Safety
    ///
    /// `stream` is a stream of the driver and stays there, as the memory does, until this one's stream has ended. Nobody else
    /// uses the memory while transfers to or from it are in flight.
    pub unsafe fn open_stream_on(
        &self,
        stream: CUstream,
        memory: Option<CUdeviceptr>,
        options: &StreamOptions,
    ) -> Result<CudaStream, DeviceError> {
        options.check(self.shared.info.max_allocation_bytes)?;
        let context = &self.shared.context;
        let cuda = context.enter()?;
        suitable::stream(&cuda, context, stream)?;
        let memory = match memory {
            None => Handle::<Memory>::allocate(&cuda, context, options.queue_bytes)?,
            Some(pointer) => {
                suitable::memory(&cuda, context, pointer, options.queue_bytes)?;
                Handle::<Memory>::of_user(pointer, context)
            }
        };
        Ok(CudaStream::new(self.shared.clone(), Handle::<Queue>::of_user(stream, context), memory, options))
    }

    /// The context. It stays there while the device does.
    pub fn context(&self) -> CUcontext {
        self.shared.context.raw()
    }

    /// The device's number in the driver.
    pub fn device(&self) -> CUdevice {
        self.shared.context.device()
    }

    fn pin(&self, cuda: &Current<'_>, slab: &Slab, access: Access) -> Result<Outcome, RegisterError> {
        let context = &self.shared.context;
        let start = slab.as_ptr().expose_provenance();
        let has = |attribute| context.attribute(attribute) != 0;
        let request = Request {
            memory: start..start + slab.len_bytes(),
            access,
            buffer_bytes: slab.buffer_size(),
            piece_bytes: self.shared.options.piece_bytes,
            map: has(Attribute::CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY),
            read_only_is_known: has(Attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED),
        };
        ranges::pin(context, cuda, &request)
    }

    /// Where the device finds each piece of memory that kernels may read; nothing if it cannot reach one of them.
    fn map(cuda: &Current<'_>, hold: &Hold, access: Access) -> Vec<CUdeviceptr> {
        if !access.reads() {
            return Vec::new();
        }
        let pointer = |piece: &Range<usize>| {
            let mut pointer = 0;
            let base = std::ptr::with_exposed_provenance_mut(piece.start);
            // SAFETY: the place of an address; the memory is pinned.
            unsafe { cuda.host_device_pointer(&raw mut pointer, base, 0) }.map(|()| pointer).ok()
        };
        hold.pieces().iter().map(pointer).collect::<Option<_>>().unwrap_or_default()
    }
}

/// What a region says of memory that could not be pinned.
fn staged(failure: Failure, len_bytes: usize) -> String {
    let advice = if failure.is_already_registered() {
        "another library of this process has pinned a part of it: let it pin all or nothing"
    } else {
        "free or add memory, raise the limit of locked memory (`ulimit -l`), or register smaller pieces (piece_bytes)"
    };
    format!("{failure} for {len_bytes} bytes, so copies go through pinned memory of the stream: {advice}")
}

impl Registrar for CudaDevice {
    /// Pins the pages of the slab, in pieces, for all contexts of this process, or shares what is pinned of the very same
    /// memory. Memory that the driver does not pin is registered as `Staged`, with the reason.
    fn register(&self, slab: &Slab, access: Access) -> Result<Region, RegisterError> {
        let access = access.local_only("CUDA")?;
        let refused = |failure: Failure| RegisterError::Refused {
            registrar: "CUDA".to_owned(),
            len_bytes: slab.len_bytes(),
            reason: failure.to_string(),
        };
        let cuda = self.shared.context.enter().map_err(refused)?;
        let (hold, mapped, registration) = match self.pin(&cuda, slab, access)? {
            Outcome::Pinned(hold) => {
                let mapped = Self::map(&cuda, &hold, access);
                (Some(hold), mapped, self.shared.registration())
            }
            Outcome::NotPinned(failure) if failure.is_loss() => return Err(refused(failure)),
            Outcome::NotPinned(failure) => {
                let reason = staged(failure, slab.len_bytes());
                (None, Vec::new(), Registration::Staged { reason })
            }
        };
        let guard = Registered { device: self.shared.clone(), hold, mapped };
        Ok(Region::new(slab.clone(), access, registration, Box::new(guard)))
    }
}

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    /// A slab in memory of `cuMemHostAlloc`: pinned for all devices of this process.
    fn allocate_slab(&self, buffer_count: usize, buffer_size: usize) -> Result<Slab, DeviceError> {
        let len_bytes = checked_len(buffer_count, buffer_size, 1)?;
        let allocation = Allocation::new(&self.shared.context, len_bytes)?;
        let base = allocation.base();
        // SAFETY: the memory is zeroed and nobody else's; the owner keeps it there.
        let slab = unsafe { Slab::from_owner(base, buffer_count, buffer_size, Box::new(allocation)) };
        Ok(slab?)
    }

    fn open_stream(&self, options: &StreamOptions) -> Result<Box<dyn Stream>, DeviceError> {
        options.check(self.shared.info.max_allocation_bytes)?;
        let context = &self.shared.context;
        let cuda = context.enter()?;
        let queue = Handle::<Queue>::create(&cuda, context)?;
        let memory = Handle::<Memory>::allocate(&cuda, context, options.queue_bytes)?;
        Ok(Box::new(CudaStream::new(self.shared.clone(), queue, memory, options)))
    }

    fn build(&self, source: &KernelSource) -> Result<Kernel, DeviceError> {
        kernel::build(&self.shared, source)
    }
}
