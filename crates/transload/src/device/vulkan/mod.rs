//! Vulkan: any device with a driver of version 1.2 or later, loaded at run time.
//!
//! Nothing of Vulkan is needed to build this or to start it. Where the loader, a driver or a device is missing, [`Vulkan`]
//! answers [`Unavailable`](super::DeviceError::Unavailable) and says what to install.
//!
//! ```
//! use transload::device::{Driver, vulkan::Vulkan};
//!
//! match Vulkan.probe() {
//!     Ok(devices) => devices.iter().for_each(|device| println!("vulkan:{} is {}", device.index, device.name)),
//!     Err(absent) => println!("{absent}"),
//! }
//! ```
//!
//! # What is in memory
//!
//! | memory | how it is reached | [`Registration`](crate::region::Registration) |
//! |---|---|---|
//! | a slab, if the driver has `VK_EXT_external_memory_host` and the slab begins and ends on pages | it is imported: the device copies from the pages themselves | `Pinned`; `Mapped` where host and device have the same memory |
//! | any other slab | through memory of the stream that both reach, with one copy more | `Staged`, with the reason |
//! | a slab from [`allocate_slab`](super::Device::allocate_slab) | it is such memory itself | as one that is imported |
//! | the queue of a stream | a buffer in memory of the device | |
//!
//! All slabs that are not wrapped begin and end on pages. What a driver demands of an address and a length is compared here
//! before the driver is asked, since some drivers take what they cannot use. Memory is imported only as a kind that need not
//! be flushed, in pieces of [`piece_bytes`](VulkanOptions::piece_bytes); if a piece is refused, none stays imported, and the
//! region is `Staged`. Copies of any size go to any offset.
//!
//! Kernels read small batches where they are, if the device reaches them and that was faster than to copy them first: it is
//! measured when a device builds its first kernel, in a second at most
//! ([`mapped_up_to_bytes`](super::Stream::mapped_up_to_bytes)).
//!
//! # When a transfer has ended
//!
//! Each stream has a timeline semaphore, which the device raises behind each transfer. Transfers of one stream take effect in
//! the order in which they were submitted: each begins with a barrier against everything before it in the same queue. A
//! driver may share one queue among streams, and then work that does not end holds up all of them.
//!
//! Vulkan knows no transfer that fails alone: a submit is refused and the batch handed back, or the device is lost, and all
//! that is in flight is quarantined. When a stream is dropped, it waits two seconds at most for what is in flight. What has
//! then not provably ended is quarantined, and what the driver may still use is left to it for ever.
//!
//! # Kernels
//!
//! [`build`](super::Device::build) takes SPIR-V of version 1.5 at most, compiled with `transload_device.glsl`. Whether the
//! module is whole and has such a kernel is looked at before the driver has it. That it is valid is its author's promise: not
//! all drivers survive one that is not.
//!
//! # Forked children
//!
//! The driver does not work in a child that was forked from the process that began to use it. There, every call is refused
//! with words, and dropping what the parent has made does nothing.
//!
//! # With your own instance, device and kernels
//!
//! [`VulkanDevice::from_raw`] takes your device and one of its queues, [`VulkanDevice::open_stream_over`] your buffer. Native
//! handles come out of [`VulkanDevice`] and [`VulkanStream`]: work of yours begins after a transfer if it waits for the
//! transfer's [number](VulkanStream::number) on the stream's [timeline](VulkanStream::timeline).
//!
//! ```no_run
//! # use ash::vk;
//! # use transload::device::{Stream, Upload, vulkan::{VulkanDevice, VulkanStream}};
//! # fn example(device: &VulkanDevice, mut stream: VulkanStream, upload: Upload) -> Result<(), Box<dyn std::error::Error>> {
//! let landed_at = upload.device_range();
//! let ticket = stream.submit(upload)?;
//! let (semaphores, numbers) = ([stream.timeline()], [stream.number(ticket).expect("in flight")]);
//! let mut landed = vk::TimelineSemaphoreSubmitInfo::default().wait_semaphore_values(&numbers);
//! let stages = [vk::PipelineStageFlags::COMPUTE_SHADER];
//! let work = vk::SubmitInfo::default()
//!     .wait_semaphores(&semaphores)
//!     .wait_dst_stage_mask(&stages)
//!     .push_next(&mut landed);
//! // With command buffers of yours that read `landed_at` of the buffer `stream.queue_buffer()`:
//! let submitted = unsafe { device.device().queue_submit(my_queue(), &[work], vk::Fence::null()) };
//! # Ok(submitted?)
//! # }
//! # fn my_queue() -> vk::Queue { unimplemented!() }
//! ```
//!
//! # Threads
//!
//! The device is `Send` and `Sync`, a stream is `Send`. A queue of Vulkan takes work from one thread at a time: streams that
//! share one take turns by a lock, held for the one call, which is [yours](VulkanStream::queue_lock) to take as well.

mod codes;
mod commands;
mod context;
mod copies;
mod device;
mod driver;
mod in_flight;
mod kernel;
mod launch;
mod measure;
mod memory;
mod physical;
mod registered;
mod spirv;
mod staging;
mod stream;
mod timeline;

pub use context::{RawDevice, VulkanOptions};
pub use device::VulkanDevice;
pub use driver::Vulkan;
pub use stream::VulkanStream;
