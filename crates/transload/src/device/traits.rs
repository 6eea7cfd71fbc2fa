//! What each back end provides.

use std::fmt;

use super::{Backend, DeviceError, DeviceInfo, Kernel, KernelSource, Stream, StreamOptions};
use crate::memory::Slab;
use crate::region::Registrar;

/// A back end: says which devices there are, and opens one.
pub trait Driver: fmt::Debug + Send + Sync {
    /// Which back end it is.
    fn backend(&self) -> Backend;

    /// The devices, at least one.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unavailable`] if there is no driver or no device. It never panics for that.
    fn probe(&self) -> Result<Vec<DeviceInfo>, DeviceError>;

    /// Opens a device.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unavailable`], [`DeviceError::NoSuchDevice`], or what the driver says.
    fn open(&self, index: usize) -> Result<Box<dyn Device>, DeviceError>;
}

/// An open device. Streams, regions and slabs that come from it keep alive what they need of it.
pub trait Device: Registrar + fmt::Debug + Send + Sync {
    /// What is known of it.
    fn info(&self) -> &DeviceInfo;

    /// A slab in memory that the driver allocates, where that is faster for it than memory that is registered later.
    ///
    /// # Errors
    ///
    /// [`DeviceError`] if the driver has no such memory.
    fn allocate_slab(&self, buffer_count: usize, buffer_size: usize) -> Result<Slab, DeviceError>;

    /// Opens a stream with a queue of its own in device memory.
    ///
    /// # Errors
    ///
    /// [`DeviceError::QueueTooLarge`], [`DeviceError::ZeroOption`], [`DeviceError::TooManyInFlight`], or what the
    /// driver says.
    fn open_stream(&self, options: &StreamOptions) -> Result<Box<dyn Stream>, DeviceError>;

    /// Makes a kernel for the streams of this device.
    ///
    /// # Trust
    ///
    /// Code for a device runs with the rights of its driver, and the driver's compiler runs on it here. Whoever made the
    /// source has [promised](KernelSource::new) that it may; an implementation need not, and cannot, check that.
    ///
    /// # Errors
    ///
    /// [`DeviceError::Unsupported`] if the device runs no kernels, [`DeviceError::OtherLanguage`] if it runs others,
    /// [`DeviceError::Build`] with the compiler's words, [`DeviceError::NoSuchKernel`], or what the driver says.
    fn build(&self, source: &KernelSource) -> Result<Kernel, DeviceError> {
        let _ = source;
        Err(DeviceError::Unsupported { what: "kernels" })
    }
}
