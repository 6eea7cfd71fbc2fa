//! A lane that its producer has made and no consumer has yet.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::super::geometry::ALIGNMENTS;
use super::super::storage::new_id;
use super::error::LaneError;
use super::exchange::{self, OFFER};
use super::layout::{Owner, Plan};
use super::memory::{OwnMemory, PeerMemory};
use super::producer::Producer;
use crate::memory::{Policy, Recipe};

/// What a lane is to be like. [`create`](OfferBuilder::create) makes the producer's half.
///
/// Defaults: no huge pages of any kind, page-lock preferred, no NUMA node.
#[derive(Debug, Clone)]
#[must_use = "nothing is made before `create`"]
pub struct OfferBuilder {
    slots: usize,
    slot_bytes: usize,
    recipe: Recipe,
}

impl OfferBuilder {
    /// Transparent huge pages, as [`SlabBuilder::transparent_pages`](crate::memory::SlabBuilder::transparent_pages).
    pub fn transparent_pages(mut self, policy: Policy) -> Self {
        self.recipe.transparent = policy;
        self
    }

    /// Huge pages of 2 MiB, as [`SlabBuilder::pages_2m`](crate::memory::SlabBuilder::pages_2m).
    pub fn pages_2m(mut self, policy: Policy) -> Self {
        self.recipe.pages_2m = policy;
        self
    }

    /// Page-locking, as [`SlabBuilder::lock`](crate::memory::SlabBuilder::lock).
    pub fn lock(mut self, policy: Policy) -> Self {
        self.recipe.lock = policy;
        self
    }

    /// The NUMA node that all pages must lie on.
    pub fn numa_node(mut self, node: u32) -> Self {
        self.recipe.numa_node = Some(node);
        self
    }

    /// Makes the producer's memory: from now on this process is the only one that can ever write it.
    ///
    /// # Errors
    ///
    /// [`LaneError::OutOfRange`], [`LaneError::NoPowerOfTwo`], [`LaneError::TooLarge`], [`LaneError::Memory`],
    /// [`LaneError::Os`].
    pub fn create(self) -> Result<Offer, LaneError> {
        let plan = Plan::new(Owner::Producer, self.slots, self.slot_bytes, *ALIGNMENTS.start(), new_id()?)?;
        Ok(Offer { own: OwnMemory::make(&self.recipe, plan)? })
    }
}

/// The producer's half of a lane. It becomes a [`Producer`] with the answer of a consumer; of one, and once.
#[derive(Debug)]
pub struct Offer {
    own: OwnMemory,
}

impl Offer {
    /// Starts a lane of `slots` messages, a power of two, of at most `slot_bytes` each.
    pub fn builder(slots: usize, slot_bytes: usize) -> OfferBuilder {
        OfferBuilder { slots, slot_bytes, recipe: Recipe::default() }
    }

    /// The descriptor for the consumer, who makes a [`Lane`](super::Lane) of it. It gives no right to write.
    ///
    /// # Errors
    ///
    /// [`LaneError::Os`] without `/proc`.
    pub fn file_for_peer(&self) -> Result<OwnedFd, LaneError> {
        self.own.file_for_peer()
    }

    /// Connects, with the descriptor that the consumer's lane gave.
    ///
    /// # Errors
    ///
    /// [`LaneError`] if that is not the memory of this lane's consumer, or not sealed.
    pub fn connect(self, file: OwnedFd) -> Result<Producer, LaneError> {
        let peer = PeerMemory::open(file, Owner::Consumer)?;
        let (mine, found) = (self.own.plan, peer.plan);
        if found.id != mine.id {
            return Err(LaneError::OtherLane { found: found.id, expected: mine.id });
        }
        for (field, found, expected) in
            [("slots", found.slots, mine.slots), ("bytes of a slot", found.slot_bytes, mine.slot_bytes)]
        {
            if found != expected {
                return Err(LaneError::Header { field, found: found as u64, expected: expected as u64 });
            }
        }
        Ok(Producer::new(self.own, peer))
    }

    /// Offers the lane over a socket that carries whole messages (`SOCK_SEQPACKET`), and waits for the answer of
    /// [`Lane::accept`](super::Lane::accept) at its other end.
    ///
    /// Who that is, is for the caller to know: `SO_PEERCRED` tells.
    ///
    /// # Errors
    ///
    /// [`LaneError`].
    pub fn hand_over(self, socket: &OwnedFd, timeout: Duration) -> Result<Producer, LaneError> {
        exchange::send(socket, OFFER, &self.file_for_peer()?)?;
        let answer = exchange::receive(socket, exchange::ANSWER, timeout)?;
        self.connect(answer)
    }
}
