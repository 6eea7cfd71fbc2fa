//! Devices: where the messages go.
//!
//! A [`Driver`] says which devices there are and opens one. A [`Device`] registers slabs and opens streams. A
//! [`Stream`] moves batches into a queue in device memory, several at a time, and gives each back when its copy is
//! done; it can bring ranges of the queue back as well.
//!
//! ```text
//!   Driver --open--> Device --register--> Region          Stream: queue in device memory
//!                       |                                  [ ...landed... | in flight | free ]
//!                       +--open_stream--> Stream --submit(Upload)--> ... --poll--> Completion
//! ```
//!
//! # Ownership
//!
//! A submitted transfer belongs to the stream until its [`Completion`] hands it back: the batch inside cannot be
//! dropped, so its slots cannot be written, while the device may read them. A stream that is dropped keeps what is in
//! flight until the device is done, or quarantines it.
//!
//! # Threads
//!
//! A device may be used from any thread. A stream is `Send` and not `Sync`: one thread at a time.
//!
//! # Back ends
//!
//! | name | memory | state |
//! |---|---|---|
//! | `host` | main memory, a copy thread; the default, and the reference for the others | always there |
//! | `opencl` | any OpenCL device, driver loaded at run time | feature `opencl` |
//! | `cuda` | NVIDIA GPUs, driver loaded at run time | feature `cuda` |
//! | `vulkan` | any device with a driver of Vulkan 1.2 or later, loaded at run time | feature `vulkan` |
//! | `metal` | GPUs of Macs | feature `metal`, on macOS; type-checked only, never run |

#[cfg_attr(
    all(feature = "cuda", feature = "metal", feature = "opencl", feature = "vulkan", target_os = "macos"),
    allow(dead_code, unused_imports, reason = "there, none is absent")
)]
mod absent;
mod backend;
mod command;
#[cfg(feature = "cuda")]
pub mod cuda;
mod error;
mod header;
pub mod host;
mod info;
mod kernel;
mod landing;
mod launch;
#[cfg(any(feature = "cuda", feature = "opencl", feature = "vulkan"))]
mod launch_numbers;
#[cfg(any(feature = "cuda", feature = "vulkan"))]
mod mapped_limit;
#[cfg(all(feature = "metal", target_os = "macos"))]
pub mod metal;
/// What of Metal is arithmetic, to be tested on any machine.
#[cfg(all(test, not(all(feature = "metal", target_os = "macos"))))]
#[path = "metal/rules.rs"]
mod metal_rules;
#[cfg(feature = "opencl")]
pub mod opencl;
#[cfg(any(
    feature = "cuda",
    feature = "opencl",
    feature = "vulkan",
    all(feature = "metal", target_os = "macos")
))]
mod pause;
mod payload;
#[cfg(any(feature = "cuda", feature = "vulkan"))]
mod process;
mod queue_layout;
mod select;
mod selector;
mod stream;
mod traits;
mod transfer;
#[cfg(feature = "vulkan")]
pub mod vulkan;

pub use backend::Backend;
pub use command::{Dispatch, Fill};
pub use error::{CopyError, DeviceError, Refused};
pub use header::{GLSL_HEADER, OPENCL_AND_CUDA_HEADER};
pub use info::{DeviceInfo, Kind};
pub use kernel::{Code, Kernel, KernelFileError, KernelSource};
pub use landing::Landing;
pub use launch::{DROPPED, Launch, Output, OutputLayout, Reply, Route};
pub use payload::{Payload, Pieces};
pub use queue_layout::{QueueLayout, QueueLayoutError};
pub use select::{drivers, open};
pub use selector::{ParseBackendError, Selector};
pub use stream::{Stream, StreamOptions};
pub use traits::{Device, Driver};
pub use transfer::{Completion, Download, Ticket, Transfer, Upload};
