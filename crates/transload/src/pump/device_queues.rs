//! The queues on the device that a pump is to keep going.

use std::sync::Arc;

use super::after::After;
use super::control::Control;
use super::feed::{Feed, NoFeed};
use super::inbound::Inbound;
use super::outbound::{Most, Outbound};
use super::rounds::Rounds;
use super::{Pump, PumpError, PumpOptions};
use crate::device::{Device, DeviceError, Dispatch, Kernel, QueueLayout, Stream, StreamOptions};
use crate::region::{Access, Region};
use crate::staging::Producer;

/// Transfers that the queues need beside those of batches: tail, head, marks, a run of the kernel, and what is looked at.
const UPKEEP: usize = 8;

/// The queues on the device that a [`Pump`] is to keep going: one that it gives messages to, one that it brings messages
/// back from, or both; and the kernel that it runs over them.
///
/// The inbound queue begins at offset 0 of the [stream](Pump::stream)'s memory, and the outbound queue behind it: see
/// [`QueueLayout`] for what stands where.
#[derive(Debug, Default)]
pub struct DeviceQueues {
    inbound: Option<(Feed, usize)>,
    outbound: Option<(Producer, usize)>,
    kernel: Option<(Kernel, u32)>,
    stream: Option<Box<dyn Stream>>,
    /// The position that both begin with.
    start: u32,
}

impl DeviceQueues {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A queue of so many messages on the device, into which those of a feed go. The capacity is a power of two, and
    /// messages have a multiple of 4 bytes.
    #[must_use]
    pub fn inbound(self, feed: impl Into<Feed>, capacity: usize) -> Self {
        Self { inbound: Some((feed.into(), capacity)), ..self }
    }

    /// A queue of so many messages on the device, which kernels fill, and whose messages come into the ring of a producer.
    /// Unless others have clones of it, the ring closes when the pump has ended, and all is back.
    ///
    /// If the ring is full, they stay in the queue, until it is full too, and kernels find no room in it.
    #[must_use]
    pub fn outbound(self, producer: Producer, capacity: usize) -> Self {
        Self { outbound: Some((producer, capacity)), ..self }
    }

    /// A kernel that the pump runs by [`Stream::dispatch`](crate::device::Stream::dispatch), so many times side by side:
    /// again and again while there are messages in the inbound queue, or, without one, until the pump is stopped.
    ///
    /// Without a kernel, kernels are started by somebody else, on the stream's own in-order queue.
    #[must_use]
    pub fn kernel(self, kernel: Kernel, work_items: u32) -> Self {
        Self { kernel: Some((kernel, work_items)), ..self }
    }

    /// Lets the queues lie in the memory of a stream that is open already, with nothing in flight: one over a command queue of
    /// yours, which your kernels are enqueued on. Whatever stands there is written over.
    ///
    /// It must be of the device that the pump is opened with. Its memory must be as long as the last of the queues
    /// ([`QueueLayout::len_bytes`]), and what lies in front of that ([`QueueLayout::stride_bytes`]).
    #[must_use]
    pub fn on(self, stream: Box<dyn Stream>) -> Self {
        Self { stream: Some(stream), ..self }
    }

    /// With positions from `start` on: for tests that begin next to a wrap.
    #[doc(hidden)]
    #[must_use]
    pub fn starting_at(self, start: u32) -> Self {
        Self { start, ..self }
    }

    pub(super) fn open(self, device: &dyn Device, options: PumpOptions) -> Result<Pump, PumpError> {
        options.check()?;
        if self.inbound.is_none() && self.outbound.is_none() {
            return Err(PumpError::ZeroOption { what: "queues" });
        }
        let inbound =
            self.inbound.as_ref().map(|(feed, capacity)| QueueLayout::new(*capacity, feed.message_size()));
        let inbound = inbound.transpose()?;
        let outbound = self.outbound.as_ref();
        let outbound =
            outbound.map(|(producer, capacity)| QueueLayout::new(*capacity, producer.message_size()));
        let outbound = outbound.transpose()?;
        let outbound_at = inbound.map_or(0, QueueLayout::stride_bytes);
        let queue_bytes = match outbound {
            Some(outbound) => outbound_at + outbound.len_bytes(),
            None => inbound.map_or(0, QueueLayout::len_bytes),
        };

        let feed_region = self
            .inbound
            .as_ref()
            .and_then(|(feed, _)| feed.slab())
            .map(|slab| options.register(device, slab, Access::READ));
        let feed_region = feed_region.transpose()?;
        let ring = self
            .outbound
            .as_ref()
            .map(|(producer, _)| options.register(device, producer.slab(), Access::WRITE));
        let ring: Option<Region> = ring.transpose()?;
        let mut stream = match self.stream {
            Some(stream) if stream.queue_bytes() < queue_bytes => {
                let (len_bytes, available) = (queue_bytes, stream.queue_bytes());
                return Err(DeviceError::OutOfQueue { offset: 0, len_bytes, available }.into());
            }
            Some(stream) => stream,
            None => {
                let wanted = options.in_flight.saturating_mul(2).saturating_add(UPKEEP);
                let in_flight = wanted.min(StreamOptions::MOST_IN_FLIGHT.max(options.in_flight));
                device.open_stream(&StreamOptions { queue_bytes, in_flight })?
            }
        };
        for (layout, at) in [(inbound, 0), (outbound, outbound_at)] {
            layout.map_or(Ok(()), |layout| layout.make_from(&mut *stream, at, self.start))?;
        }

        let kernel = match self.kernel {
            Some((_, 0)) => return Err(PumpError::ZeroOption { what: "work_items" }),
            Some((kernel, work_items)) => {
                // Where there is one queue, it is both.
                let outbound = if outbound.is_some() { outbound_at } else { 0 };
                Some((kernel, Dispatch { work_items, inbound: 0, outbound }))
            }
            None => None,
        };
        let outbound = match (outbound, self.outbound, &ring) {
            (Some(layout), Some((producer, _)), Some(ring)) => {
                let messages = options.batch_messages(layout.message_size(), layout.capacity() as usize);
                let most = Most { runs: options.in_flight, messages };
                let ring = (producer, ring.clone());
                Some(Outbound::new(device, (layout, outbound_at, self.start), ring, most)?)
            }
            _ => None,
        };
        let after = match inbound {
            Some(layout) => After::Queue(Inbound::new(device, layout, self.start)?),
            None => After::Nothing,
        };
        let feed = self.inbound.map_or_else(|| Feed::Nothing(NoFeed::new()), |(feed, _)| feed);
        let region = feed_region.or(ring).ok_or(DeviceError::NotRegistered { purpose: "reading" })?;
        Ok(Pump {
            feed,
            stream,
            region,
            options,
            control: Arc::new(Control::new()),
            on_landed: None,
            after,
            rounds: Some(Rounds::new(kernel, outbound)),
        })
    }
}
