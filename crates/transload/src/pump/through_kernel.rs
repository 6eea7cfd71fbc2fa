//! A kernel that each batch goes through, and where its outputs go.

use std::fmt;
use std::io;

use super::PumpError;
use crate::device::{Device, DeviceError, Kernel, Launch, Output, Reply};

/// What a kernel of a pump is given beside the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOptions {
    /// The most bytes of output for each message: a multiple of 4.
    pub output_bytes: usize,
    /// Bytes in front of each payload, which the kernel steps over: 0, or the
    /// [`LENGTH_BYTES`](super::LENGTH_BYTES) of its length.
    pub prefix_bytes: u32,
}

/// Receives what a kernel makes of the messages, in their order, on the pump's thread.
///
/// While it blocks, so does the pump, as with a [`Sink`](super::Sink).
pub trait OutputSink: Send {
    /// Takes the outputs of one batch: [`replies`](Launch::replies) gives them, one for each message.
    ///
    /// # Errors
    ///
    /// An error ends the pump; the messages of this batch then count as dropped.
    fn receive(&mut self, launch: &Launch) -> io::Result<()>;

    /// So many messages that stood here have no outputs: their copy, or the kernel, was given up. They count as dropped.
    fn lost(&mut self, messages: usize) {
        let _ = messages;
    }

    /// Nothing more will come: flush.
    ///
    /// # Errors
    ///
    /// An error is the pump's.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The kernel of a pump.
pub(super) struct ThroughKernel {
    pub(super) kernel: Kernel,
    pub(super) options: KernelOptions,
    pub(super) sink: Box<dyn OutputSink>,
    /// Memory for outputs that is not in use.
    pub(super) outputs: Vec<Output>,
}

impl ThroughKernel {
    /// With memory for so many batches at once.
    pub(super) fn new(
        device: &dyn Device,
        kernel: Kernel,
        options: KernelOptions,
        sink: Box<dyn OutputSink>,
        (in_flight, batch_messages): (usize, usize),
    ) -> Result<Self, DeviceError> {
        let outputs = (0..in_flight).map(|_| Output::new(device, batch_messages, options.output_bytes));
        Ok(Self { kernel, options, sink, outputs: outputs.collect::<Result<_, _>>()? })
    }

    /// Hands the outputs of a batch to the sink, and says how many messages the kernel has dropped.
    pub(super) fn receive(&mut self, launch: &Launch) -> Result<u64, PumpError> {
        let mut filtered = 0;
        for reply in launch.replies() {
            match reply {
                Reply::Output(_) => {}
                Reply::Dropped => filtered += 1,
                Reply::TooLong { length, output_bytes } => {
                    let entry = self.kernel.entry().to_owned();
                    return Err(PumpError::OutputTooLong { entry, length, output_bytes });
                }
            }
        }
        self.sink.receive(launch).map_err(PumpError::Sink)?;
        Ok(filtered)
    }
}

impl fmt::Debug for ThroughKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThroughKernel").field("kernel", &self.kernel).finish_non_exhaustive()
    }
}
