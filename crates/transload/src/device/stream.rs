//! Transfers in order, several in flight.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use super::{Completion, DeviceError, Dispatch, Download, Fill, Kernel, Launch, Refused, Ticket, Upload};

/// How a stream is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// Bytes of the queue in device memory.
    pub queue_bytes: usize,
    /// The most transfers in flight at once, both directions together: at most
    /// [`MOST_IN_FLIGHT`](StreamOptions::MOST_IN_FLIGHT).
    pub in_flight: usize,
}

impl StreamOptions {
    /// The most transfers in flight that a stream can be opened for.
    pub const MOST_IN_FLIGHT: usize = 1024;

    /// Refuses settings that no stream can have; each back end asks this first.
    ///
    /// # Errors
    ///
    /// [`DeviceError::ZeroOption`], [`DeviceError::TooManyInFlight`], [`DeviceError::QueueTooLarge`].
    pub fn check(&self, max_allocation_bytes: u64) -> Result<(), DeviceError> {
        if self.queue_bytes == 0 {
            return Err(DeviceError::ZeroOption { what: "queue_bytes" });
        }
        if self.in_flight == 0 {
            return Err(DeviceError::ZeroOption { what: "in_flight" });
        }
        if self.in_flight > Self::MOST_IN_FLIGHT {
            return Err(DeviceError::TooManyInFlight { wanted: self.in_flight, most: Self::MOST_IN_FLIGHT });
        }
        let wanted = self.queue_bytes as u64;
        if wanted > max_allocation_bytes {
            return Err(DeviceError::QueueTooLarge { wanted, available: max_allocation_bytes });
        }
        Ok(())
    }
}

/// Transfers between registered memory and a queue in device memory: in order, several in flight.
///
/// # Ordering
///
/// Transfers take effect in the order in which they were submitted, and [`poll`](Stream::poll) gives them back in that
/// order. Each says for itself how it ended. When one fails, a driver may fail those that were in flight behind it as
/// well; what is submitted after that is not affected.
pub trait Stream: fmt::Debug + Send {
    /// Bytes of the queue in device memory.
    fn queue_bytes(&self) -> usize;

    /// The most transfers in flight at once.
    fn in_flight_limit(&self) -> usize;

    /// Transfers that were submitted and not yet handed back by [`poll`](Stream::poll).
    fn in_flight(&self) -> usize;

    /// Starts to copy a batch into the device queue. Returns at once.
    ///
    /// # Errors
    ///
    /// [`Refused`] hands the batch back: the stream is busy, the range lies outside the queue, the memory is not
    /// registered, or the driver refuses.
    fn submit(&mut self, upload: Upload) -> Result<Ticket, Refused<Upload>>;

    /// Starts to copy a range of the device queue into host memory. Returns at once.
    ///
    /// # Errors
    ///
    /// As [`submit`](Stream::submit).
    fn fetch(&mut self, download: Download) -> Result<Ticket, Refused<Download>>;

    /// Starts to fill a part of the device queue with a word. Returns at once. Fills take their turn among transfers, and
    /// count as such.
    ///
    /// # Errors
    ///
    /// [`Refused`]: the stream is busy, the range lies outside the queue or is not of whole words, or the driver refuses.
    fn fill(&mut self, fill: Fill) -> Result<Ticket, Refused<Fill>>;

    /// Starts to send a batch through a kernel, once for each message, and to bring the outputs back. Returns at once. It
    /// counts as one transfer, and takes its turn among them: what was submitted before has taken effect when the kernel
    /// runs.
    ///
    /// # Errors
    ///
    /// As [`submit`](Stream::submit), and [`DeviceError::OutputTooSmall`], [`DeviceError::Prefix`],
    /// [`DeviceError::OtherKernel`], [`DeviceError::Unsupported`].
    fn launch(&mut self, kernel: &Kernel, launch: Launch) -> Result<Ticket, Refused<Launch>> {
        let _ = kernel;
        Err(Refused { transfer: launch, error: DeviceError::Unsupported { what: "kernels" } })
    }

    /// Starts to run a kernel over the queues that are in the device queue's memory. Returns at once. As
    /// [`launch`](Stream::launch), it takes its turn. That there are queues where the dispatch says is not looked at: it is
    /// part of the [promise](super::KernelSource::new) that comes with the kernel.
    ///
    /// # Errors
    ///
    /// As [`fill`](Stream::fill), and [`DeviceError::OtherKernel`], [`DeviceError::Unsupported`].
    fn dispatch(&mut self, kernel: &Kernel, dispatch: Dispatch) -> Result<Ticket, Refused<Dispatch>> {
        let _ = kernel;
        Err(Refused { transfer: dispatch, error: DeviceError::Unsupported { what: "kernels" } })
    }

    /// Up to how many bytes a batch is read by kernels where it is, in host memory, and not copied first. 0 where the device
    /// cannot reach that memory, or copying was faster for every size when it was measured.
    fn mapped_up_to_bytes(&self) -> usize {
        0
    }

    /// The oldest transfer, if it has ended: with success or without.
    fn poll(&mut self) -> Option<Completion>;

    /// As [`poll`](Stream::poll), waiting for at most so long.
    fn wait(&mut self, timeout: Duration) -> Option<Completion>;

    /// Whether what is in flight ends with this process, however that ends: nothing outside it touches the memory.
    ///
    /// Memory that a driver may still read after this process has died is to be marked as lent where other processes
    /// share it, so that they keep it out of use when they take over what this one has left.
    fn dies_with_process(&self) -> bool {
        false
    }

    /// The back end's own type, for its native handles.
    fn as_any(&self) -> &dyn Any;
}
