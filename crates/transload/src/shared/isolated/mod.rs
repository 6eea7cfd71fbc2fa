//! Producers that do not trust each other, nor the consumer, nor are trusted by it.
//!
//! A [`SharedRegion`](super::SharedRegion) is one memory that all members write: a member that lies can spoil what the
//! others send. Here each producer has a *lane* of its own to the [`Consumer`]: a ring for one producer, in two memories,
//! each of which one process can write and the other can only read.
//!
//! ```text
//!  producer A                                              consumer
//!    memory of A   tail, lengths, slots   ==read only==>    Lane A --+
//!    head of A                            <==read only==    memory   |
//!  producer B                                                        +--> take: each lane in turn
//!    memory of B   tail, lengths, slots   ==read only==>    Lane B --+
//!    head of B                            <==read only==    memory
//! ```
//!
//! # What it promises
//!
//! * Nobody can write the other's words, nor can a third: each memory is sealed (`F_SEAL_FUTURE_WRITE`) once its owner has
//!   mapped it. Nor can anybody cut it off, or take pages out of it, under the other: each side checks that the other's
//!   memory has that seal, and `F_SEAL_SHRINK`, `F_SEAL_GROW` and `F_SEAL_SEAL`, and all of its pages, before it maps it.
//! * What one side reads of the other is checked: a position must lie where it can be, a length must fit into a slot. Whoever
//!   lies is cut off, with an error that says what it said; nobody else notices. No lie makes the other side read out of
//!   bounds, hang, or crash.
//! * A producer that lies about the *bytes* of a message, or changes them while they are read, gets what it deserves: they
//!   are bytes of its own messages only. Copy, and check the copy.
//! * `kill -9` of a producer loses nothing that it had published. After `kill -9` of the consumer the producers are told
//!   [`Gone`](LaneSendError::Gone) when they wait, and make a new [`Offer`] for the next one: what was in the lanes is lost.
//! * Not promised: that a liar cannot waste the other side's time. It may wake it for nothing, and hold its own lane full.
//!
//! # Which of the two
//!
//! | | [`SharedRegion`](super::SharedRegion) | lanes |
//! |---|---|---|
//! | who takes part | processes of one user that may crash | processes that may lie |
//! | memory | one pool for all: a buffer is whoever's needs it | each producer has its own slots |
//! | order | one queue for all | per producer; the consumer takes turns |
//! | the consumer dies | the next one gets what was in the ring | its lanes end |
//! | a buffer can be kept, or forwarded | yes, as a lease | no: copy it |
//!
//! # Handing over
//!
//! Each memory must be made by who writes it. So one descriptor goes each way: [`Offer::file_for_peer`] to
//! [`Lane::from_file`], and [`Lane::file_for_peer`] back to [`Offer::connect`]. [`Offer::hand_over`] and [`Lane::accept`] do
//! both over a socket (`SOCK_SEQPACKET`). The descriptors are open for reading, and whoever gets them otherwise can only
//! read too: what a producer sends is no secret from those that it hands them to.
//!
//! # Example
//!
//! ```
//! use std::time::Duration;
//! use transload::shared::isolated::{Consumer, Lane, Offer};
//!
//! // In the process of a producer:
//! let offer = Offer::builder(64, 4096).create()?;
//! // In that of the consumer, with the descriptor:
//! let lane = Lane::from_file(offer.file_for_peer()?)?;
//! // And back:
//! let mut producer = offer.connect(lane.file_for_peer()?)?;
//!
//! let mut consumer = Consumer::new();
//! let number = consumer.add(lane);
//!
//! producer.try_send_copy(b"copied")?;
//! let mut slot = producer.try_reserve()?;
//! slot.write_at(0, b"in place")?;
//! slot.commit(8)?;
//!
//! assert!(consumer.wait_timeout(Duration::from_secs(1))?);
//! let batch = consumer.take(64)?;
//! assert_eq!((batch.lane(), batch.messages()), (number, 2));
//! assert_eq!(batch.to_vec(1).as_deref(), Some(&b"in place"[..]));
//! drop(batch); // done: the producer may use the slots again
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod consumer;
mod error;
mod exchange;
mod lane;
mod layout;
mod memory;
mod offer;
mod producer;
mod sleep;

pub use batch::{IsolatedBatch, IsolatedMessage};
pub use consumer::Consumer;
pub use error::{IsolatedTakeError, LaneEnd, LaneError, LaneSendError};
pub use lane::Lane;
pub use offer::{Offer, OfferBuilder};
pub use producer::{Producer, Reservation};
pub use transload_core::SpscFault;
