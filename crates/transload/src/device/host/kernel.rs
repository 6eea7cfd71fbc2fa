//! Kernels of the host: functions of this process.

use std::fmt;
use std::sync::Arc;

use super::queues::{self, HostQueues};
use crate::device::{DROPPED, Dispatch, Landing, OutputLayout};

/// What a host kernel does with one message.
type PerMessage = dyn Fn(&[u8], &mut [u8]) -> Option<usize> + Send + Sync;

/// What a host kernel does with the queues.
type OverQueues = dyn Fn(&mut HostQueues<'_>) + Send + Sync;

/// A function that stands for a kernel on the host: for programs that run with and without a GPU, and as the twin that a
/// kernel's results are compared with.
///
/// ```
/// use transload::device::{Device, Driver, KernelSource, host::{Host, HostKernel}};
///
/// let reverse = HostKernel::per_message(|message, output| {
///     message.iter().rev().zip(&mut *output).for_each(|(byte, place)| *place = *byte);
///     Some(message.len()) // `None` drops the message
/// });
/// let kernel = Host.open(0)?.build(&KernelSource::host(reverse, "reverse"))?;
/// assert_eq!(kernel.entry(), "reverse");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HostKernel {
    function: Function,
}

#[derive(Clone)]
enum Function {
    PerMessage(Arc<PerMessage>),
    OverQueues(Arc<OverQueues>),
}

impl HostKernel {
    /// For [`Stream::launch`](crate::device::Stream::launch): a function that is given a payload, and the place for its
    /// output; it answers how many bytes it has written there, or nothing for a message that is to be dropped. It runs on
    /// the device's copy thread: a panic there loses the stream.
    pub fn per_message(function: impl Fn(&[u8], &mut [u8]) -> Option<usize> + Send + Sync + 'static) -> Self {
        Self { function: Function::PerMessage(Arc::new(function)) }
    }

    /// For [`Stream::dispatch`](crate::device::Stream::dispatch): a function that takes messages from one queue and gives
    /// messages to another. It is called once for each work item, on the device's copy thread.
    ///
    /// ```
    /// use transload::device::host::HostKernel;
    ///
    /// // Each message comes back with its bits turned over.
    /// let turn = HostKernel::over_queues(|queues| {
    ///     // Only then is it safe to take one: what is taken and cannot be given is lost.
    ///     while queues.has_room() {
    ///         let Some(message) = queues.take() else { break };
    ///         let Some(mut place) = queues.give() else { break };
    ///         message.iter().zip(&mut *place).for_each(|(byte, to)| *to = !byte);
    ///     }
    /// });
    /// # let _ = turn;
    /// ```
    pub fn over_queues(function: impl Fn(&mut HostQueues<'_>) + Send + Sync + 'static) -> Self {
        Self { function: Function::OverQueues(Arc::new(function)) }
    }

    /// Whether it is for batches, and not for queues.
    pub(super) fn is_per_message(&self) -> bool {
        matches!(self.function, Function::PerMessage(_))
    }

    /// Runs over the slots of a batch.
    pub(super) fn run(
        &self,
        slots: &[u8],
        (slot_bytes, prefix_bytes): (usize, u32),
        layout: OutputLayout,
        landing: &mut Landing,
    ) {
        let Function::PerMessage(function) = &self.function else { return };
        let (lengths, outputs) = landing.as_mut_slice().split_at_mut(layout.outputs_at());
        let messages = slots.chunks_exact(slot_bytes);
        let outputs = outputs.chunks_exact_mut(layout.output_bytes());
        for ((message, length), output) in messages.zip(lengths.as_chunks_mut::<4>().0).zip(outputs) {
            let written = function(payload(message, prefix_bytes), output);
            let written = written.map_or(DROPPED, |written| u32::try_from(written).unwrap_or(DROPPED - 1));
            *length = written.to_le_bytes();
        }
    }

    /// Runs over the queues in the device's memory.
    pub(super) fn run_over_queues(&self, memory: &mut [u8], dispatch: Dispatch) -> Result<(), String> {
        match &self.function {
            Function::OverQueues(function) => queues::run(memory, dispatch, &**function),
            Function::PerMessage(_) => Ok(()),
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
