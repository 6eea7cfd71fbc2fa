//! Up to which size a kernel reads a batch faster where it is than after a copy to the device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::context::Context;
use super::device::VulkanDevice;
use super::kernel;
use super::stream::VulkanStream;
use crate::device::mapped_limit::{LARGEST, LONGEST, SLOT, mapped_limit};
use crate::device::{
    Code, CopyError, DeviceError, Kernel, KernelSource, Launch, Output, Route, Stream, StreamOptions,
    Transfer, Upload,
};
use crate::region::{Access, Region, Registrar, Registration};
use crate::staging::{Consumer, PinnedStagingBuffer, Producer};

const SPIRV: &[u8] = include_bytes!("measure.spv");
const ENTRY: &str = "transload_measure";
const MESSAGES: usize = LARGEST / SLOT;

/// The largest size up to which the mapped way is never slower, by the medians; 0 if it is for the smallest, or cannot be
/// measured.
pub(super) fn mapped_up_to_bytes(context: &Arc<Context>) -> usize {
    let measured = Bench::new(context).and_then(|bench| match bench {
        Some(mut bench) => mapped_limit(|size, route| bench.turn(size, route)),
        None => Ok(0),
    });
    measured.unwrap_or_else(|error| {
        tracing::debug!("kernels will not read host memory where it is: {error}");
        0
    })
}

/// What is needed to measure.
#[derive(Debug)]
struct Bench {
    stream: VulkanStream,
    kernel: Kernel,
    region: Region,
    producer: Producer,
    consumer: Consumer,
    bytes: Vec<u8>,
    /// Nothing once it was lost.
    output: Option<Output>,
    deadline: Instant,
}

impl Bench {
    /// Nothing if the device reaches no memory of the host.
    fn new(context: &Arc<Context>) -> Result<Option<Self>, DeviceError> {
        let device = VulkanDevice::new(context.clone(), 0);
        let failed = |reason: String| DeviceError::Copy(CopyError::Failed { reason });
        let ring = PinnedStagingBuffer::new(MESSAGES, SLOT).map_err(|error| failed(error.to_string()))?;
        let region = device.register(ring.slab(), Access::READ)?;
        if let Registration::Staged { .. } = region.registration() {
            return Ok(None);
        }
        let source = KernelSource { code: Code::SpirV(SPIRV.to_vec()), entry: ENTRY.to_owned() };
        let kernel = kernel::build(context, &source)?;
        let output = Some(Output::new(&device, MESSAGES, 4)?);
        let stream = VulkanStream::open(context, &StreamOptions { queue_bytes: LARGEST, in_flight: 1 })?;
        let (producer, consumer) = ring.split();
        let deadline = Instant::now() + LONGEST;
        let bytes = vec![0; LARGEST];
        Ok(Some(Self { stream, kernel, region, producer, consumer, bytes, output, deadline }))
    }

    /// Takes a batch of so many bytes through the kernel, and says how long that took.
    fn turn(&mut self, size: usize, route: Route) -> Result<Duration, DeviceError> {
        let failed = |reason: String| DeviceError::Copy(CopyError::Failed { reason });
        let sent = self.producer.try_enqueue_batch(&self.bytes[..size]);
        sent.map_err(|error| failed(error.to_string()))?;
        let batch = self.consumer.take(size / SLOT).map_err(|error| failed(error.to_string()))?;
        let output = self.output.take().ok_or_else(|| failed("an earlier one did not end".to_owned()))?;
        let launch = Launch::new(Upload::new(&self.region, batch, 0), output, 0);
        self.stream.forced = Some(route);
        let started = Instant::now();
        self.stream.launch(&self.kernel, launch).map_err(|refused| refused.error)?;
        let completion = self.stream.wait(self.deadline.saturating_duration_since(started));
        let elapsed = started.elapsed();
        let completion = completion.ok_or_else(|| failed("the device is busy with other work".to_owned()))?;
        completion.result?;
        if let Transfer::Launch(launch) = completion.transfer {
            self.output = Some(launch.into_parts().1);
        }
        Ok(elapsed)
    }
}
