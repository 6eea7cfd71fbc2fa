//! Kernels of the host: functions of this process.

use std::fmt;
use std::sync::Arc;

use crate::device::{DROPPED, Launch};

/// What a host kernel does with one message.
type PerMessage = dyn Fn(&[u8], &mut [u8]) -> Option<usize> + Send + Sync;

/// A function that stands for a kernel on the host: for programs that run with and without a GPU, and as the twin that a
/// kernel's results are compared with.
///
/// ```
/// use transload::device::{Code, Device, Driver, KernelSource, host::{Host, HostKernel}};
///
/// let reverse = HostKernel::per_message(|message, output| {
///     message.iter().rev().zip(&mut *output).for_each(|(byte, place)| *place = *byte);
///     Some(message.len()) // `None` drops the message
/// });
/// let kernel = Host.open(0)?.build(&KernelSource { code: Code::Host(reverse), entry: "reverse".to_owned() })?;
/// assert_eq!(kernel.entry(), "reverse");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HostKernel {
    per_message: Arc<PerMessage>,
}

impl HostKernel {
    /// A function that is given a payload, and the place for its output; it answers how many bytes it has written there, or
    /// nothing for a message that is to be dropped. It runs on the device's copy thread: a panic there loses the stream.
    pub fn per_message(function: impl Fn(&[u8], &mut [u8]) -> Option<usize> + Send + Sync + 'static) -> Self {
        Self { per_message: Arc::new(function) }
    }

    /// Runs over the slots of a batch.
    pub(super) fn run(&self, launch: &mut Launch, slots: &[u8]) {
        let slot_bytes = launch.upload().payload().message_size();
        let (layout, prefix_bytes) = (launch.layout(), launch.prefix_bytes());
        let (lengths, outputs) = launch.landing_mut().as_mut_slice().split_at_mut(layout.outputs_at());
        let messages = slots.chunks_exact(slot_bytes);
        let outputs = outputs.chunks_exact_mut(layout.output_bytes());
        for ((message, length), output) in messages.zip(lengths.as_chunks_mut::<4>().0).zip(outputs) {
            let written = (self.per_message)(payload(message, prefix_bytes), output);
            let written = written.map_or(DROPPED, |written| u32::try_from(written).unwrap_or(DROPPED - 1));
            *length = written.to_le_bytes();
        }
    }
}

/// The payload of a slot: behind its length, if it has one, and as long as that says.
fn payload(slot: &[u8], prefix_bytes: u32) -> &[u8] {
    match (prefix_bytes, slot.split_first_chunk::<4>()) {
        (4, Some((length, rest))) => {
            let length = usize::try_from(u32::from_le_bytes(*length)).unwrap_or(usize::MAX);
            &rest[..length.min(rest.len())]
        }
        _ => slot,
    }
}

impl fmt::Debug for HostKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostKernel").finish_non_exhaustive()
    }
}
