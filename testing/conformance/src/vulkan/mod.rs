//! Vulkan as a subject of the suite, and what its own tests need of the driver.
//!
//! The subject exists twice: as a device that the back end opens itself, and as one that the test has made under the
//! Khronos validation layer, any word of which ends the process.

mod gate;
pub mod hooks;
mod own;

pub use gate::TimelineGate;
pub use own::{Layer, Own};

use transload::device::vulkan::{VulkanDevice, VulkanOptions};
use transload::device::{Device, StreamOptions};

use crate::device::{Gated, Subject};
use crate::faulty::{Faults, FaultyGate, FaultyStream};

/// The first Vulkan device.
pub fn subject() -> Subject {
    let open = || Ok(Box::new(plain()?) as Box<dyn Device>);
    Subject {
        name: "vulkan",
        open,
        gated: |options| gated(plain()?, options),
        kernel: |example| example.source("spv"),
    }
}

/// The first Vulkan device under validation.
pub fn validated_subject() -> Subject {
    let open = || Ok(Box::new(validated()?) as Box<dyn Device>);
    Subject {
        name: "vulkan",
        open,
        gated: |options| gated(validated()?, options),
        kernel: |example| example.source("spv"),
    }
}

/// The first device, opened by its number.
///
/// # Errors
///
/// Why there is none.
pub fn plain() -> Result<VulkanDevice, String> {
    VulkanDevice::open(0).map_err(|error| error.to_string())
}

/// The first device, made under validation and handed in. Its kernels read batches of up to 32 KiB where they are.
///
/// # Errors
///
/// Why there is none.
pub fn validated() -> Result<VulkanDevice, String> {
    let own = Own::new(Layer::Validation)?;
    let mut options = VulkanOptions::default();
    options.mapped_up_to_bytes = Some(32 << 10);
    // SAFETY: all of it is there and belongs together, and is kept by its owner.
    let device = unsafe { VulkanDevice::from_raw(own.into_raw(), options) };
    device.map_err(|error| error.to_string())
}

/// A device whose first stream a gate can hold. Vulkan's copies do not fail alone: failures are injected.
fn gated(device: VulkanDevice, options: &StreamOptions) -> Result<Gated, String> {
    let stream = device.open_stream(options).map_err(|error| error.to_string())?;
    let faults = Faults::new();
    let gate = FaultyGate::new(TimelineGate::new(&device, &*stream), faults.clone());
    let stream = FaultyStream::new(stream, device.info().clone(), faults);
    Ok(Gated { device: Box::new(device), stream: Box::new(stream), gate: Box::new(gate) })
}
