//! The pump.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use transload::device::{Device, StreamOptions};
use transload::pump::{Landed, Pump, PumpOptions};
use transload::region::Access;
use transload::staging::PinnedStagingBuffer;

use super::publisher::Publisher;
use super::shape::{IN_FLIGHT, Shape};
use super::side::{Last, Place, Run, Side, Until};
use super::source::Source;
use super::witness::Witness;
use crate::adapter::Role;

/// Who publishes the messages that the pump takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publishing {
    /// The pump's own thread: when a batch has landed, its slots are published again. So there are always batches ready,
    /// nobody else needs a core, and what publishing costs is on the pump's account.
    Ready,
    /// A thread of its own, which waits for room.
    Thread,
}

/// A pump with its default options but for the size of batches.
pub struct Pumped {
    device: Arc<dyn Device>,
    source: Source,
    shape: Shape,
    publishing: Publishing,
    name: String,
}

impl Pumped {
    /// Out of this memory to this device.
    pub fn new(device: Arc<dyn Device>, source: Source, shape: Shape, publishing: Publishing) -> Self {
        let name = match publishing {
            Publishing::Ready => format!("pump, {}", source.kind()),
            Publishing::Thread => format!("pump, {}, a thread publishes", source.kind()),
        };
        Self { device, source, shape, publishing, name }
    }
}

impl Side for Pumped {
    fn name(&self) -> &str {
        &self.name
    }

    fn role(&self) -> Role {
        Role::Ours
    }

    fn run(&mut self, until: Until) -> Result<Run> {
        let shape = self.shape;
        let ring = PinnedStagingBuffer::builder(shape.capacity(), shape.message_bytes);
        let (producer, consumer) = ring.slab(self.source.slab().clone()).build()?.split();
        let options =
            PumpOptions { batch_bytes: shape.batch_bytes, in_flight: IN_FLIGHT, ..PumpOptions::default() };
        let region = self.device.register(self.source.slab(), Access::READ)?;
        let stream = StreamOptions { queue_bytes: shape.queue_bytes(), in_flight: IN_FLIGHT };
        let (stream, sees) = Witness::new(&*self.device, self.device.open_stream(&stream)?)?;
        let pump = Pump::with_stream(consumer, region, Box::new(stream), options)?;
        let mut publisher = Publisher::new(producer, &shape, until)?;
        let last = Arc::new(Mutex::new(Last::default()));
        let noted = last.clone();
        let note = move |landed: &Landed| {
            let Landed { device_range, messages, first_position, .. } = landed.clone();
            let place = Place { position: first_position, messages, at: device_range };
            noted.lock().unwrap_or_else(PoisonError::into_inner).note(place);
        };
        let report = match self.publishing {
            Publishing::Ready => pump
                .on_landed(move |landed| {
                    note(landed);
                    publisher.publish_next().expect("the batch that has landed left room");
                })
                .run(),
            Publishing::Thread => {
                let publishing = thread::spawn(move || publisher.publish_all());
                let report = pump.on_landed(note).run();
                publishing.join().map_err(|_| anyhow!("the producer panicked"))??;
                report
            }
        };
        if let Some(error) = report.error {
            bail!("{}: {error}", self.name);
        }
        ensure!(report.dropped == 0, "{}: {} messages were dropped", self.name, report.dropped);
        let queue = sees.recv().context("the stream has not ended")??;
        let last = last.lock().unwrap_or_else(PoisonError::into_inner).take();
        Ok(Run { messages: report.delivered, elapsed: report.elapsed, last, queue })
    }
}

impl fmt::Debug for Pumped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pumped").field("name", &self.name).field("shape", &self.shape).finish_non_exhaustive()
    }
}
