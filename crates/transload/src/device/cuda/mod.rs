//! CUDA: GPUs of NVIDIA, by the driver's own interface, loaded at run time.
//!
//! Nothing of CUDA is needed to build this or to start it, and no toolkit to run it: the library that comes with the driver
//! (`libcuda.so.1`) will do. Where it is missing, empty, too old, or does not begin, [`Cuda`] answers
//! [`Unavailable`](super::DeviceError::Unavailable) and says what to do; each function is looked up before any is called.
//!
//! ```
//! use transload::device::{Driver, cuda::Cuda};
//!
//! match Cuda.probe() {
//!     Ok(devices) => devices.iter().for_each(|device| println!("cuda:{} is {}", device.index, device.name)),
//!     Err(absent) => println!("{absent}"),
//! }
//! ```
//!
//! # What is in memory
//!
//! | memory | how it is reached | [`Registration`](crate::region::Registration) |
//! |---|---|---|
//! | a slab from anywhere | pinned by `cuMemHostRegister`, in pieces | `Pinned` |
//! | a slab from [`allocate_slab`](super::Device::allocate_slab) | pinned by `cuMemHostAlloc` | `Pinned` |
//! | a slab that the driver does not pin | copied through pinned memory of the stream | `Staged`, with the reason |
//! | any of these, on a device that uses the host's page tables | the same; nothing need be pinned there | `Mapped` |
//! | the queue of a stream | `cuMemAlloc` | |
//!
//! A slab is registered by whole pages, in pieces of at most 1 GiB ([`CudaOptions`]), all or none, for all contexts of the
//! process. Copies are cut where pieces end, since the driver refuses one that is not registered as a whole. Memory that is
//! not pinned is never given to an asynchronous copy: the driver may read it late, or make the call wait for the stream. It
//! goes through pinned memory of the stream, by a copy of the processor's; [`CudaStream::staged_transfers`] counts how often.
//!
//! One table holds what is pinned in this process. The driver pins a page once: who registers the very same pages again
//! shares them, by count, and the last unregisters; ranges that overlap otherwise are refused, with both
//! ([`Overlaps`](crate::region::RegisterError::Overlaps)). What another library of the process has pinned is used, if it has
//! all of the slab, and left to that library, which must keep it pinned for as long as the region is there.
//!
//! # When a transfer has ended
//!
//! Behind the copies of each transfer an event is recorded, and polled (`cuEventQuery`). There are no callbacks. "Success" and
//! "not ready" are what they say. An error that leaves the context unusable, as a fault of a kernel does, loses the device:
//! what is in flight is quarantined, further transfers are refused, and nothing is waited for. Another error may be of
//! something else in the context; then the transfer has failed as soon as the driver says that the stream has nothing left to
//! do, and can be tried again.
//!
//! When a stream is dropped, it waits two seconds at most for what is in flight. What has then not provably ended is
//! quarantined, and the stream of CUDA and its memory are left to the driver for ever. Where all has ended, the memory is
//! freed, and for that the driver may wait for everything else that runs on the device. Once the driver has shut down, at the
//! end of the process, releasing does nothing and says nothing.
//!
//! # Contexts, threads, processes
//!
//! [`CudaDevice::open`] uses the device's primary context, as the runtime API of CUDA does and what is built on it.
//! [`CudaDevice::from_raw`] uses yours. Each call makes its context current on the thread that it is made on, whichever that
//! is, and afterwards the one is current again that was so before.
//!
//! The driver does not work in a child that was forked from the process that began to use it. There, every call answers an
//! error that says so, and dropping does nothing.
//!
//! # Kernels
//!
//! PTX is translated by the driver. CUDA C needs NVRTC, a library of the toolkit, which is loaded when the first such kernel
//! is built; it may include [`transload_device.h`](super::OPENCL_AND_CUDA_HEADER). Kernels run in blocks of 64 threads. A kernel that keeps to other parameters than it is given faults or worse:
//! the driver does not check them.
//!
//! A kernel over a small batch reads it where it is, in host memory that is mapped for the device, if that is faster than to
//! copy it first ([`mapped_up_to_bytes`](super::Stream::mapped_up_to_bytes)). What is faster is measured when the device's
//! first stream is opened, by a kernel of our own that adds up messages of 64 bytes; kernels that read their messages more
//! than once gain less.
//!
//! # With your own stream, memory and kernels
//!
//! [`CudaDevice::open_stream_on`] takes your stream and, if you like, your device memory. A stream that was opened as `dyn
//! Stream` gives its native handles through [`as_any`](super::Stream::as_any) and [`CudaStream`]:
//!
//! ```no_run
//! # use transload::device::{Device, Driver, DeviceError, Stream, StreamOptions, Upload, cuda::{Cuda, CudaStream}};
//! # fn example(upload: Upload) -> Result<(), Box<dyn std::error::Error>> {
//! let device = Cuda.open(0)?;
//! let mut stream = device.open_stream(&StreamOptions { queue_bytes: 1 << 20, in_flight: 4 })?;
//! let landed_at = upload.device_range();
//! let ticket = stream.submit(upload)?;
//!
//! let native = stream.as_any().downcast_ref::<CudaStream>().expect("opened by Cuda");
//! let memory = native.queue_memory();
//! let landed = native.event(ticket).expect("in flight");
//! // cuStreamWaitEvent(a stream of yours, landed, 0), then a kernel in it over `landed_at` of `memory`.
//! # Ok(())
//! # }
//! ```
//!
//! # What has been seen
//!
//! No GPU so far. The tests run this back end on a stand-in for the driver, which checks that it is called by the rules: a
//! context is current, copies lie in one registered range, nothing ends while it is in use. That proves the order of calls,
//! what becomes of errors, and lifetimes; it does not prove what NVIDIA's driver does. NVRTC 12.9 has translated the examples
//! with the header, and `ptxas` 12.9 has assembled what came of it, for architectures from 7.5 to 12.0, and the PTX of the
//! measurement, for those from 5.0; nothing of that has run. `cargo xtask test --device cuda` runs the suite on a real GPU.
//!
//! # Where the rules stand
//!
//! In NVIDIA's "CUDA Driver API", <https://docs.nvidia.com/cuda/cuda-driver-api/>:
//!
//! - "API synchronization behavior": what asynchronous copies do with memory that is not pinned; that any call may block;
//! - "Memory Management", `cuMemHostRegister`: the flags, that memory of which this process has no right to write needs
//!   `READ_ONLY`, and that devices with the host's page tables pin nothing; `cuMemHostUnregister`: the base must be the one that
//!   was registered; `cuMemcpy`: copies must be registered as a whole or not at all;
//! - "Event Management", `cuEventQuery`, and "Data types used by CUDA driver", `CUresult`: which errors end a context;
//! - "Context Management": the stack of contexts that each thread has; "Primary Context Management";
//! - "Execution Control", `cuLaunchKernel`: parameters are copied before it returns.

mod api;
mod codes;
mod context;
mod copies;
mod device;
mod driver;
mod gather;
mod in_flight;
mod info;
mod kernel;
mod launch;
mod measure;
mod memory;
mod nvrtc;
mod pinned;
mod ranges;
mod stream;
mod suitable;

pub use device::{CudaDevice, CudaOptions};
pub use driver::Cuda;
pub use stream::CudaStream;
