//! A pump before it runs.

use std::fmt;
use std::sync::Arc;

use super::after::{After, ReadBack};
use super::control::Control;
use super::engine::Engine;
use super::feed::Feed;
use super::handle::PumpHandle;
use super::queue::QueueSpace;
use super::rounds::Rounds;
use super::sink::LandedCallback;
use super::through_kernel::ThroughKernel;
use super::{DeviceQueues, KernelOptions, Landed, OutputSink, PumpError, PumpOptions, Report, Sink};
use crate::device::{Device, DeviceError, Kernel, Landing, Stream, StreamOptions};
use crate::region::{Access, Region};
use crate::staging::StagingRing;

/// Moves what a feed accepts into a device. See the [module's page](super).
pub struct Pump {
    pub(super) feed: Feed,
    pub(super) stream: Box<dyn Stream>,
    pub(super) region: Region,
    pub(super) options: PumpOptions,
    pub(super) control: Arc<Control>,
    pub(super) on_landed: Option<LandedCallback>,
    pub(super) after: After,
    pub(super) rounds: Option<Rounds>,
}

impl Pump {
    /// A pump into a device: registers the feed's memory and opens a stream, whose queue has room for twice the batches
    /// in flight.
    ///
    /// # Errors
    ///
    /// [`PumpError::ZeroOption`], or [`PumpError::Device`] if the device refuses.
    pub fn open(device: &dyn Device, feed: impl Into<Feed>, options: PumpOptions) -> Result<Self, PumpError> {
        let feed = feed.into();
        let batch_bytes = options.batch_messages(feed.message_size(), feed.capacity()) * feed.message_size();
        // As many again for what is read back; what no stream takes is refused by the number that was asked for.
        let most = StreamOptions::MOST_IN_FLIGHT.max(options.in_flight);
        let batches = options.in_flight.saturating_mul(2).min(most);
        let queue_bytes = QueueSpace::bytes_for(batches, batch_bytes).ok_or(DeviceError::QueueTooLarge {
            wanted: u64::MAX,
            available: device.info().max_allocation_bytes,
        })?;
        let slab = feed.slab().ok_or(DeviceError::NotRegistered { purpose: "reading" })?;
        let region = options.register(device, slab, Access::READ)?;
        // Both directions share the stream.
        let stream = device.open_stream(&StreamOptions { queue_bytes, in_flight: batches })?;
        Self::with_stream(feed, region, stream, options)
    }

    /// A pump into a stream that is open already, with the feed's memory registered with its device.
    ///
    /// # Errors
    ///
    /// [`PumpError::ZeroOption`]; [`PumpError::Device`] if the region is of other memory, or the stream's queue has no
    /// room for one message.
    pub fn with_stream(
        feed: impl Into<Feed>,
        region: Region,
        stream: Box<dyn Stream>,
        options: PumpOptions,
    ) -> Result<Self, PumpError> {
        let feed = feed.into();
        options.check()?;
        let is_same = feed.slab().is_some_and(|slab| region.slab().same_memory(slab));
        if !is_same || !region.access().reads() {
            return Err(DeviceError::NotRegistered { purpose: "reading" }.into());
        }
        let (len_bytes, available) = (feed.message_size(), stream.queue_bytes());
        if len_bytes > available {
            return Err(DeviceError::OutOfQueue { offset: 0, len_bytes, available }.into());
        }
        // More than the stream takes are never in flight.
        let options = PumpOptions { in_flight: options.in_flight.min(stream.in_flight_limit()), ..options };
        let control = Arc::new(Control::new());
        Ok(Self {
            feed,
            stream,
            region,
            options,
            control,
            on_landed: None,
            after: After::Nothing,
            rounds: None,
        })
    }

    /// A pump over queues on the device: it gives messages to one, brings messages back from another, or both, and runs a
    /// kernel over them, if it is given one.
    ///
    /// ```
    /// use transload::device::{Device, Driver, KernelSource, host::{Host, HostKernel}};
    /// use transload::pump::{DeviceQueues, Pump, PumpOptions};
    /// use transload::staging::PinnedStagingBuffer;
    ///
    /// let device = Host.open(0)?;
    /// let turn = HostKernel::over_queues(|queues| {
    ///     while queues.has_room() {
    ///         let Some(message) = queues.take() else { break };
    ///         let Some(mut place) = queues.give() else { break };
    ///         message.iter().zip(&mut *place).for_each(|(byte, to)| *to = !byte);
    ///     }
    /// });
    /// let kernel = device.build(&KernelSource::host(turn, "turn"))?;
    /// let (producer, feed) = PinnedStagingBuffer::new(16, 4)?.split();
    /// let (back, mut consumer) = PinnedStagingBuffer::new(16, 4)?.split();
    /// let queues = DeviceQueues::new().inbound(feed, 8).outbound(back, 8).kernel(kernel, 1);
    /// let pump = Pump::open_queues(&*device, queues, PumpOptions::default())?;
    /// producer.enqueue(&[0, 1, 2, 3])?;
    /// drop(producer);
    /// let report = pump.run();
    /// assert_eq!((report.delivered, report.returned), (1, 1));
    /// assert_eq!(consumer.take(1)?.as_slices().0, [255, 254, 253, 252]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PumpError::QueueLayout`], [`PumpError::ZeroOption`], or [`PumpError::Device`] if the device refuses.
    pub fn open_queues(
        device: &dyn Device,
        queues: DeviceQueues,
        options: PumpOptions,
    ) -> Result<Self, PumpError> {
        queues.open(device, options)
    }

    /// Calls back for each batch that has landed, in order, on the pump's thread, before its place in the device queue
    /// is used again.
    ///
    /// The handles of the device's queue, for a kernel that is to be started here, come from
    /// [`stream`](Pump::stream), by its [`as_any`](Stream::as_any), before the pump runs:
    ///
    /// ```
    /// use transload::device::{Device, Driver, host};
    /// use transload::pump::{Pump, PumpOptions};
    /// use transload::staging::PinnedStagingBuffer;
    ///
    /// let device = host::Host.open(0)?;
    /// let (producer, consumer) = PinnedStagingBuffer::new(16, 8)?.split();
    /// let pump = Pump::open(&*device, consumer, PumpOptions::default())?;
    /// let stream = pump.stream().as_any().downcast_ref::<host::HostStream>().expect("the host's own");
    /// let queue = stream.queue().clone(); // of an OpenCL stream: queue_buffer() and command_queue()
    /// let pump = pump.on_landed(move |batch| assert!(batch.device_range.end <= queue.len_bytes()));
    /// producer.enqueue(&[1; 8])?;
    /// drop(producer);
    /// assert_eq!(pump.run().delivered, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_landed(mut self, callback: impl FnMut(&Landed) + Send + 'static) -> Self {
        self.on_landed = Some(Box::new(callback));
        self
    }

    /// Reads everything back from the device into a sink, in order. A message then counts as delivered when the sink
    /// has taken it.
    ///
    /// # Errors
    ///
    /// [`PumpError::Device`] if there is no memory to read back into; [`PumpError::OverQueues`].
    pub fn read_back(mut self, device: &dyn Device, sink: impl Sink + 'static) -> Result<Self, PumpError> {
        if self.rounds.is_some() {
            return Err(PumpError::OverQueues { what: "sink" });
        }
        let batch_bytes = self.batch_messages() * self.feed.message_size();
        let landings = (0..self.options.in_flight)
            .map(|_| Landing::new(device, batch_bytes))
            .collect::<Result<_, _>>()?;
        self.after = After::ReadBack(ReadBack { sink: Box::new(sink), landings });
        Ok(self)
    }

    /// Sends each batch through a kernel of the device, and what it makes of the messages into a sink, in their order, in
    /// the place of reading back the messages themselves. A message counts as delivered when the sink has taken its output,
    /// or the kernel has dropped it.
    ///
    /// ```
    /// use transload::device::{Device, Driver, KernelSource, Launch, Reply, host::{Host, HostKernel}};
    /// use transload::pump::{KernelOptions, OutputSink, Pump, PumpOptions};
    /// use transload::staging::PinnedStagingBuffer;
    ///
    /// struct Print;
    /// impl OutputSink for Print {
    ///     fn receive(&mut self, launch: &Launch) -> std::io::Result<()> {
    ///         launch.replies().for_each(|reply| assert_eq!(reply, Reply::Output(&[3])));
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let device = Host.open(0)?;
    /// let sum = HostKernel::per_message(|message, output| {
    ///     output[0] = message.iter().sum();
    ///     Some(1)
    /// });
    /// let kernel = device.build(&KernelSource::host(sum, "sum"))?;
    /// let (producer, consumer) = PinnedStagingBuffer::new(16, 2)?.split();
    /// let options = KernelOptions { output_bytes: 4, prefix_bytes: 0 };
    /// let pump = Pump::open(&*device, consumer, PumpOptions::default())?;
    /// let pump = pump.through_kernel(&*device, kernel, options, Print)?;
    /// producer.enqueue(&[1, 2])?;
    /// drop(producer);
    /// assert_eq!(pump.run().delivered, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`PumpError::Device`] if there is no memory for the outputs; [`PumpError::OverQueues`].
    pub fn through_kernel(
        mut self,
        device: &dyn Device,
        kernel: Kernel,
        options: KernelOptions,
        sink: impl OutputSink + 'static,
    ) -> Result<Self, PumpError> {
        if self.rounds.is_some() {
            return Err(PumpError::OverQueues { what: "sink" });
        }
        let size = (self.options.in_flight, self.batch_messages());
        self.after = After::Kernel(ThroughKernel::new(device, kernel, options, Box::new(sink), size)?);
        Ok(self)
    }

    fn batch_messages(&self) -> usize {
        self.options.batch_messages(self.feed.message_size(), self.feed.capacity())
    }

    /// The staging ring, if that is what it takes messages from.
    pub fn ring(&self) -> Option<&StagingRing> {
        match &self.feed {
            Feed::Ring(consumer) => Some(consumer),
            #[cfg(target_os = "linux")]
            Feed::Shared(_) => None,
            Feed::Nothing(_) => None,
        }
    }

    /// The stream, for its native handles.
    pub fn stream(&self) -> &dyn Stream {
        &*self.stream
    }

    /// The feed's memory as registered with the device. Without a feed, the memory that messages come back to.
    pub fn region(&self) -> &Region {
        &self.region
    }

    pub(super) fn control(&self) -> Arc<Control> {
        self.control.clone()
    }

    /// Runs on this thread until the feed is closed and drained.
    pub fn run(self) -> Report {
        Engine::new(self).run()
    }

    /// Runs on a thread of its own.
    ///
    /// # Errors
    ///
    /// [`PumpError::Thread`].
    pub fn spawn(self) -> Result<PumpHandle, PumpError> {
        PumpHandle::start(self)
    }
}

impl fmt::Debug for Pump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pump")
            .field("feed", &self.feed)
            .field("stream", &self.stream)
            .field("options", &self.options)
            .field("reads_back", &matches!(self.after, After::ReadBack(_)))
            .field("has_kernel", &matches!(self.after, After::Kernel(_)))
            .field("is_over_queues", &self.rounds.is_some())
            .finish_non_exhaustive()
    }
}
