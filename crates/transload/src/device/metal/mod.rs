//! Metal: the graphics processors of Macs. **Type-checked only: nobody has run this yet.**
//!
//! It is compiled where the feature `metal` is on and the target is macOS, and needs nothing that a Mac does not have. It
//! was written after Apple's documentation. What has been checked is that each call exists with these types (`cargo xtask
//! check-metal`, on any machine) and, by unit tests, what is arithmetic. If you run it, please say how it went.
//!
//! ```no_run
//! use transload::device::{Driver, metal::Metal};
//!
//! match Metal.probe() {
//!     Ok(devices) => devices.iter().for_each(|device| println!("metal:{} is {}", device.index, device.name)),
//!     Err(absent) => println!("{absent}"),
//! }
//! ```
//!
//! # What is in memory
//!
//! | memory | how it is reached | [`Registration`](crate::region::Registration) |
//! |---|---|---|
//! | a slab of whole pages | a buffer over the pages themselves, in shared storage | `Mapped` where host and device have the same memory, else `Pinned` |
//! | other memory, wrapped in a slab | a copy in the driver's memory, made when a transfer starts or when it has ended | `Staged` |
//! | the queue of a stream | a buffer in private storage | |
//!
//! A page is the system's, 16 KiB on Apple silicon. A slab that this library makes has whole pages, so
//! [`allocate_slab`](super::Device::allocate_slab) gives an ordinary one.
//!
//! # Whole words
//!
//! On macOS a copy between buffers begins, and ends, at multiples of 4 bytes, and writing a part of a word as a whole one
//! would write what is beside it too. What is of whole words on both sides is copied at once. Anything else goes through the
//! driver's memory as well, which costs a copy by the processor:
//!
//! - an upload to other offsets: the whole words in its range are copied, and the bytes at the edges, three at most on each
//!   side, go by way of a texture whose pixels are bytes, for copies from and to textures begin at any pixel;
//! - a download from other offsets, or to other addresses: the words around its range are fetched, and what was asked for is
//!   taken out of them.
//!
//! Metal fills with bytes; a fill with a word of different bytes is copied from a pattern. The fastest messages have a multiple
//! of 4 bytes.
//!
//! # When a transfer has ended
//!
//! Each transfer is a command buffer of its own, with copies and fills only. Its status is polled until it says
//! "completed" or "error": then the device is done with the memory. If the error is that the device was removed, or if
//! the status is one that Metal does not document, the device counts as lost, and the slots are quarantined.
//!
//! Behind each transfer the shared event of the stream gets a value of its own. It is there for commands of yours and
//! decides nothing here, for whoever has it may set it.
//!
//! When a stream is dropped, it waits two seconds at most for what is in flight. What has then not provably ended is
//! quarantined; buffers and commands Metal keeps by itself until they have ended.
//!
//! # With your own device, queue and kernels
//!
//! [`MetalDevice::from_native`] takes your device, [`MetalDevice::open_stream_on`] your command queue. A stream that was
//! opened as `dyn Stream` gives its native handles through [`as_any`](super::Stream::as_any) and [`MetalStream`]:
//!
//! ```no_run
//! # use transload::device::{Device, Driver, DeviceError, Stream, StreamOptions, Upload, metal::{Metal, MetalStream}};
//! # fn example(upload: Upload) -> Result<(), Box<dyn std::error::Error>> {
//! let device = Metal.open(0)?;
//! let mut stream = device.open_stream(&StreamOptions { queue_bytes: 1 << 20, in_flight: 4 })?;
//! let landed_at = upload.device_range();
//! let ticket = stream.submit(upload)?;
//!
//! let native = stream.as_any().downcast_ref::<MetalStream>().expect("opened by Metal");
//! let buffer = native.queue_buffer();
//! let (event, value) = native.signal(ticket).expect("submitted");
//! // In a command buffer of yours: encodeWaitForEvent:value:, then a kernel over `landed_at` of `buffer`.
//! # Ok(())
//! # }
//! ```
//!
//! Kernels are not built or launched from here: [`build`](super::Device::build) answers
//! [`Unsupported`](super::DeviceError::Unsupported).
//!
//! # Threads
//!
//! Apple documents that devices, queues, buffers and events may be used from any thread, and a command buffer from one at a
//! time. The device is `Send` and `Sync`, a stream is `Send`.

mod buffer;
mod codes;
mod commands;
mod device;
mod driver;
mod edges;
mod imported;
mod in_flight;
mod info;
mod rules;
mod staging;
mod stream;

pub use device::MetalDevice;
pub use driver::Metal;
pub use stream::MetalStream;
