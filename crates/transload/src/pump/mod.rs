//! The pump: from a staging ring into a device, several batches in flight, everything counted.
//!
//! ```text
//!  sources -> Intake -> [ staging ring ] -> Pump -> submit -> [ queue in device memory ] -> on_landed / Sink
//!              policy                         |  <- completion: slots go back to the producers
//! ```
//!
//! A [`Pump`] takes a [`Feed`], which is made from the [`Consumer`](crate::staging::Consumer) of a ring, and a
//! [`Stream`](crate::device::Stream). It runs on the caller's thread or on its own, until the ring is closed and drained or
//! it is told to stop.
//!
//! # When a batch goes out
//!
//! When `batch_bytes` are there, when `batch_delay` has passed since the pump first saw its oldest message, when the
//! ring is full or closed, or when it has reached the wrap: so each batch is one piece, and one transfer.
//!
//! # What happens when the ring is full
//!
//! That is decided where messages come in, by the [`OnFull`] of the [`Intake`]. Nothing that was accepted is lost
//! without being counted: at rest, `accepted == delivered + dropped`.
//!
//! # Sockets
//!
//! A [`SocketIntake`] receives what is already in a socket straight into slots.
//!
//! # Processes
//!
//! A pump that is opened with a [`SharedConsumer`](crate::shared::SharedConsumer), or with a [`SharedFeed`] made of one,
//! takes from a ring that processes share. Whoever sends waits for room by itself, so there are no intakes. Messages are
//! kept in the ring until they are delivered: those that are not when the pump ends, or its process dies, come to the next
//! consumer.
//!
//! # Kernels
//!
//! With [`Pump::through_kernel`], each batch is copied to the device, goes through a kernel of the user's, and its outputs
//! come back, in order, in one transfer.
//!
//! # Device-side queues
//!
//! With [`Pump::open_queues`], the pump keeps queues going that lie in device memory, whose other ends kernels have: it gives
//! messages to one, brings messages back from another, or both.
//!
//! ```text
//!  [ staging ring ] --slots, then tail--> [ inbound queue ] --take-->  kernel
//!                   <--------head-------  [ on the device ]              |
//!                                                                        |
//!  [ staging ring ] <--tail, then slots-- [ outbound queue ] <--give-----+
//!    your consumer  ---------head-------> [ on the device  ]
//! ```
//!
//! - A batch lands in slots of the inbound queue, and only then the tail moves over it: kernels never see half of one. Its
//!   messages are delivered when the tail has passed them. Batches that have landed behind each other are passed at once.
//!   One that is given up leaves marked slots, which kernels step over.
//! - What kernels give lands in slots of a staging ring, without a copy on the host; its consumer is yours. When that ring is
//!   full, the queue fills up, and kernels find no room: nothing is lost. A message of zeros is a message.
//! - The pump runs the kernel of [`DeviceQueues::kernel`], one run at a time, while there is something to take; without an
//!   inbound queue it runs until the pump is stopped. Without a kernel of its own the pump looks, at least every 5 ms, how
//!   far kernels of others are.
//! - The pump ends when its feed is closed and drained, its kernel has taken everything, and what that gave is back. Then it
//!   drops the producer, so that your consumer is told `Closed`. A kernel that takes nothing for two seconds, though there
//!   is room for what it gives, ends the pump with an error; if the pump was told to stop, it ends when its time is up.
//!   [`Report::untaken`] and [`Report::unreturned`] count what was left behind.
//!
//! Kernels see what was there when they began: a kernel that runs for ever, and waits for more, is not promised to get it.
//!
//! ```
//! use transload::device::{Device, Driver, KernelSource, host::{Host, HostKernel}};
//! use transload::pump::{DeviceQueues, Pump, PumpOptions};
//! use transload::staging::PinnedStagingBuffer;
//!
//! // A kernel that answers each message that begins with an even byte, and nothing else.
//! let answer = HostKernel::over_queues(|queues| {
//!     while queues.has_room() {
//!         let Some(message) = queues.take() else { break };
//!         if message[0] % 2 == 0 && let Some(mut place) = queues.give() {
//!             place.fill(message[0]);
//!         }
//!     }
//! });
//! let device = Host.open(0)?;
//! let kernel = device.build(&KernelSource::host(answer, "answer"))?;
//!
//! let (producer, feed) = PinnedStagingBuffer::new(64, 16)?.split();
//! let (back, mut answers) = PinnedStagingBuffer::new(64, 4)?.split();
//! let queues = DeviceQueues::new().inbound(feed, 32).outbound(back, 32).kernel(kernel, 1);
//! let running = Pump::open_queues(&*device, queues, PumpOptions::default())?.spawn()?;
//! for number in 0..10 {
//!     producer.enqueue(&[number; 16])?;
//! }
//! drop(producer); // nothing more will come: the pump ends when all answers are back
//! let report = running.join();
//! assert_eq!((report.delivered, report.returned), (10, 5));
//! assert_eq!(answers.take(64)?.as_slices().0, [[0; 4], [2; 4], [4; 4], [6; 4], [8; 4]].as_flattened());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Failures
//!
//! A copy that fails is tried again in its own place in the device queue, and holds back those behind it. When it is
//! given up, its messages count as dropped and the pump goes on. A lost device, or a sink that fails, ends the pump:
//! what was in flight and what is in the ring then count as dropped, and the report holds the error. So does a tail, a head or
//! a kernel that fails more often than is to be tried again.
//!
//! # Example
//!
//! ```
//! use transload::device::{Driver, host};
//! use transload::pump::{Intake, OnFull, Outcome, Pump, PumpOptions};
//! use transload::staging::PinnedStagingBuffer;
//!
//! let device = host::Host.open(0)?;
//! let (producer, consumer) = PinnedStagingBuffer::new(1024, 64)?.split();
//! let pump = Pump::open(&*device, consumer, PumpOptions::default())?;
//! let intake = Intake::new(producer, OnFull::Block, &pump)?;
//! let running = pump.spawn()?;
//!
//! for _ in 0..10_000 {
//!     assert_eq!(intake.offer(&[7; 64])?, Outcome::Accepted);
//! }
//! drop(intake); // the last producer: the ring closes, the pump drains it and ends
//! let report = running.join();
//! assert!(report.error.is_none());
//! assert_eq!((report.accepted, report.delivered, report.dropped), (10_000, 10_000, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod after;
mod control;
mod device_queues;
mod engine;
mod errand;
mod error;
mod feed;
mod flight;
mod flights;
mod handle;
mod idle;
mod inbound;
mod intake;
mod link;
mod measure;
mod on_full;
mod options;
mod outbound;
mod pace;
mod progress;
#[expect(clippy::module_inception, reason = "the folder is the part, this file its main noun")]
mod pump;
mod queue;
mod report;
mod rounds;
#[cfg(target_os = "linux")]
mod shared_feed;
mod sink;
mod slot_layout;
#[cfg(unix)]
mod socket_intake;
mod through_kernel;

pub use device_queues::DeviceQueues;
pub use error::PumpError;
pub use feed::{Feed, NoFeed};
pub use handle::{PumpHandle, PumpStopper};
pub use intake::{Intake, Outcome};
pub use measure::Latency;
pub use on_full::{OnFull, ParseOnFullError};
pub use options::PumpOptions;
pub use progress::Progress;
pub use pump::Pump;
pub use report::Report;
#[cfg(target_os = "linux")]
pub use shared_feed::SharedFeed;
pub use sink::{Landed, Sink};
pub use slot_layout::{LENGTH_BYTES, SlotLayout};
#[cfg(unix)]
pub use socket_intake::{Drained, Remainder, SocketIntake, SocketIntakeError};
pub use through_kernel::{KernelOptions, OutputSink};
