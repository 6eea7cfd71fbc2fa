//! The staging ring: many producers write fixed-size messages into pinned memory, one consumer hands them on.
//!
//! ```text
//!  Producer --try_enqueue--> [slot|slot|slot|slot|slot|slot|slot|slot] --take--> Batch --> device
//!  Producer --try_reserve-->  free  |  lent to batches  |  published       (slots come back when it is dropped)
//! ```
//!
//! [`PinnedStagingBuffer`] is made over a slab and split into [`Producer`], which is cloned for each thread, and the
//! one [`Consumer`]. A message is seen only when it is whole. No call allocates, takes a lock or makes a system call,
//! unless it waits (waiting forms say so by their names) or must wake somebody who does.
//!
//! # The contract
//!
//! * All `capacity` slots can be used. Messages lie densely, `message_size` bytes apart, so that a batch is one or two
//!   contiguous pieces for a device.
//! * Order is kept for each producer. Between producers it is the order of their claims.
//! * `Full` is said only when the ring is full: slots in batches that are still held count as used.
//! * The consumer waits for the oldest reservation. So hold none across anything that waits; what is stalled, and for
//!   how long, is in [`Statistics`].
//! * A reservation that is dropped, by a panic too, is stepped over and counted. Its bytes are never delivered.
//! * Closing loses nothing: what was accepted is delivered, then the consumer is told `Closed`. The ring closes when
//!   either end asks for it, when the consumer is dropped, and when the last producer is dropped.
//!
//! # Trade-offs
//!
//! Small messages of odd sizes share cache lines with their neighbours, since density is what devices want. Producers
//! that wait for room are not served in any order. One batch that is never dropped stops the ring after one lap.
//!
//! # Example
//!
//! Three producer threads, and a pump thread that hands batches of 64 to a device, each in one transfer:
//!
//! ```
//! use std::thread;
//! use transload::device::{Device, Driver, StreamOptions, Upload, host};
//! use transload::region::{Access, Registrar};
//! use transload::staging::{BatchSize, DequeueError, PinnedStagingBuffer};
//!
//! let ring = PinnedStagingBuffer::new(4096, 256)?;
//! let device = host::Host.open(0)?;
//! let region = device.register(ring.slab(), Access::READ)?;
//! let mut stream = device.open_stream(&StreamOptions { queue_bytes: 1 << 20, in_flight: 4 })?;
//! let (producer, mut consumer) = ring.split();
//!
//! let producers: Vec<_> = (0..3u8)
//!     .map(|id| {
//!         let producer = producer.clone();
//!         thread::spawn(move || {
//!             for _ in 0..1000 {
//!                 while producer.try_enqueue(&[id; 256]).is_err() {
//!                     thread::yield_now();
//!                 }
//!             }
//!         })
//!     })
//!     .collect();
//! drop(producer); // the last one to go closes the ring
//!
//! let pump = thread::spawn(move || {
//!     let (mut landed, mut open) = (0, true);
//!     while open || stream.in_flight() > 0 {
//!         // A completion gives the batch back; dropping it gives the slots back to the producers.
//!         while let Some(done) = stream.poll() {
//!             landed += done.expect_upload().messages();
//!         }
//!         if stream.in_flight() == stream.in_flight_limit() {
//!             thread::yield_now();
//!             continue;
//!         }
//!         match consumer.take(BatchSize::Balanced.messages()) {
//!             Ok(batch) => {
//!                 stream.submit(Upload::new(&region, batch, 0)).expect("there is room in flight");
//!             }
//!             Err(DequeueError::Closed) => open = false,
//!             Err(_) => thread::yield_now(),
//!         }
//!     }
//!     landed
//! });
//!
//! for producer in producers {
//!     producer.join().unwrap();
//! }
//! assert_eq!(pump.join().unwrap(), 3000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod batch_size;
mod buffer;
mod builder;
mod consumer;
mod error;
mod latency;
mod owned;
mod producer;
mod reservation;
mod ring;
mod statistics;

pub use batch::{Batch, Messages};
pub use batch_size::BatchSize;
pub use buffer::PinnedStagingBuffer;
pub use builder::StagingBuilder;
pub use consumer::Consumer;
pub use error::{DequeueError, EnqueueError, StagingError};
pub use owned::OwnedReservation;
pub use producer::Producer;
pub use reservation::{BatchReservation, Reservation};
pub use ring::StagingRing;
pub use statistics::{Stall, Statistics};
