//! OpenCL: any device with a driver, loaded at run time.
//!
//! Nothing of OpenCL is needed to build this or to start it. Where the loader, a driver or a device is missing,
//! [`OpenCl`] answers [`Unavailable`](super::DeviceError::Unavailable) and says what to install.
//!
//! ```
//! use transload::device::{Driver, opencl::OpenCl};
//!
//! match OpenCl.probe() {
//!     Ok(devices) => devices.iter().for_each(|device| println!("opencl:{} is {}", device.index, device.name)),
//!     Err(absent) => println!("{absent}"),
//! }
//! ```
//!
//! # What is in memory
//!
//! | memory | how it is reached | [`Registration`](crate::region::Registration) |
//! |---|---|---|
//! | a slab from anywhere | non-blocking writes out of plain host memory | `Staged`; `Mapped` on a processor |
//! | a slab from [`allocate_slab`](super::Device::allocate_slab) | the same, out of memory that the driver allocated | `Pinned` |
//! | the queue of a stream | a buffer object of the device | |
//!
//! OpenCL has no call that pins memory which is already there. (A buffer made over it with `CL_MEM_USE_HOST_PTR` may be
//! cached or copied by the driver, and would have to be mapped and unmapped around each message that a producer
//! writes.) So for plain memory nothing is promised: the driver may lock the pages for each copy, or go through pinned
//! memory of its own, and the report says `Staged`. Only where the device is this machine's processor is it known that
//! the copy is made from the pages themselves. What vendors document as the pinned way is memory that the driver
//! allocates (`CL_MEM_ALLOC_HOST_PTR`) and that stays mapped; that is what `allocate_slab` gives.
//!
//! # When a transfer has ended
//!
//! Each copy has an event, and a batch that wraps has two. Its status is polled until it says complete or failed; then
//! `clWaitForEvents` is called on it, which returns at once, and only its answer is believed: there are drivers that
//! report "complete" for commands which never ran, and others that never call the callback of one that failed. A
//! transfer succeeds when all of its copies did. If the driver cannot say how one ended, the device counts as lost,
//! and the slots are quarantined.
//!
//! When a stream is dropped, it waits two seconds at most for what is in flight. What has then not provably ended is
//! quarantined, and the queue and the buffer are left to the driver for ever.
//!
//! # With your own context, queue and kernels
//!
//! [`OpenClDevice::from_raw`] takes your context, [`OpenClDevice::open`] makes one. [`OpenClDevice::open_stream_on`] takes your in-order queue and, if
//! you like, your buffer. A stream that was opened as `dyn Stream` gives its native handles through
//! [`as_any`](super::Stream::as_any) and [`OpenClStream`]:
//!
//! ```no_run
//! # use transload::device::{Device, Driver, DeviceError, Stream, StreamOptions, Upload, opencl::{OpenCl, OpenClStream}};
//! # fn example(upload: Upload) -> Result<(), Box<dyn std::error::Error>> {
//! let device = OpenCl.open(0)?;
//! let mut stream = device.open_stream(&StreamOptions { queue_bytes: 1 << 20, in_flight: 4 })?;
//! let landed_at = upload.device_range();
//! let ticket = stream.submit(upload)?;
//!
//! let native = stream.as_any().downcast_ref::<OpenClStream>().expect("opened by OpenCl");
//! let buffer = native.queue_buffer();
//! let landed = native.event(ticket).expect("in flight");
//! // clEnqueueNDRangeKernel on a queue of yours, over `landed_at` of `buffer`, with `landed` in its wait list;
//! // then clReleaseEvent(landed).
//! # Ok(())
//! # }
//! ```
//!
//! # Threads
//!
//! All calls that are made here may be made from any thread, by the rules of OpenCL since version 1.1 (only
//! `clSetKernelArg` may not, and it is not used). The device is `Send` and `Sync`, a stream is `Send`.

mod codes;
mod commands;
mod copies;
mod device;
mod driver;
mod event;
mod gather;
mod handle;
mod info;
mod kernel;
mod launch;
mod pinned;
mod stream;
mod suitable;

pub use device::OpenClDevice;
pub use driver::OpenCl;
pub use stream::OpenClStream;
